// RunTree: the agents of a run, and the counts for its limits on subagents. The limits are compared
// in policies/subagent-limits.ts, which spawn-checks.ts asks.
//
// T3. Admission is one synchronous step, so limits hold under parallel spawns; a setup that fails or
// is refused releases its place once (`undoAdmission`).

import { invariant } from "../../kernel/invariant.ts";
import type { EventScope } from "../../protocol/event.ts";
import type { AgentId, StepId } from "../../protocol/ids.ts";
import type { StopSignal } from "../../protocol/stop.ts";
import type { SubagentLimits, SubagentTotal } from "../../policies/subagent-limits.ts";
import type { Model } from "../../model/model.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { Delegation } from "../../agent/run-ports.ts";
import type { AppliedPrice } from "../../budget/prices-used.ts";
import type { RestoredRun } from "../durability/restored-run.ts";

/** Facts about a run from before it was paused. */
export type Before = Pick<RestoredRun, "refusalsByCode" | "prices" | "failedIds">;

const NONE: readonly never[] = Object.freeze([]);
/** Numbers of started and refused subagents. A result holds them in place of the tree. */
export interface SubagentCounts {
  /** Numbers of admitted subagents by depth. */
  readonly byDepth: number[];
  /** Numbers of refusals by code. `undefined` without refusals. */
  refusals: Map<string, number> | undefined;
}

/** Returns the counts as results and events have them. */
export function createCountFields({ byDepth, refusals }: SubagentCounts) {
  return {
    subagentsByDepth: Object.fromEntries(Object.entries(byDepth).filter(([, count]) => count > 0)),
    refusalsByCode: Object.fromEntries(refusals ?? []),
  };
}

export class RunTree {
  readonly limits: SubagentLimits;
  readonly #nodes = new Map<AgentId, AgentRuntime>();
  readonly counts: SubagentCounts = { byDepth: [], refusals: undefined };
  /** Steps in which each delegation was requested. */
  #delegations: Map<string, Set<string | null>> | undefined;
  /** Settles once all detached agents have. `undefined` without detached agents. */
  #detached: Promise<void> | undefined;
  #detachedOpen = 0;
  /** Number of admitted subagents. */
  total = 0;
  #stops: readonly StopSignal[] = NONE;
  #failed: readonly AgentId[];
  /** Prices of the models that were used before the run was paused. */
  readonly pricesBefore: readonly AppliedPrice[];

  /** Creates the tree. `before` contains the facts of a restored run. */
  constructor(limits: SubagentLimits, before?: Before) {
    this.limits = limits;
    this.pricesBefore = before?.prices ?? NONE;
    this.#failed = before?.failedIds ?? NONE;
    if (before === undefined) return;
    const refusals = Object.entries(before.refusalsByCode);
    if (refusals.length > 0) this.counts.refusals = new Map(refusals);
  }

  /** Records that an agent failed. */
  noteFailure(agentId: AgentId): void {
    if (!this.#failed.includes(agentId)) this.#failed = [...this.#failed, agentId];
  }

  /** Agents that failed, in order: the root cause first. */
  get failedIds(): readonly AgentId[] {
    return this.#failed;
  }

  /** Adds an agent. If the tree was asked to stop, asks the agent as well. */
  add(node: AgentRuntime): void {
    const { parent, role, taskText: task } = node;
    const { agentId } = node.identity;
    this.#nodes.set(agentId, node);
    if (node.currentState.status === "pending" && this.#failed.includes(agentId))
      this.#failed = this.#failed.filter((failedId) => failedId !== agentId);
    if (parent !== undefined) {
      parent.addChild(node);
      this.#noteDelegation({ role: role.name, task }, node.facts.spawnStepId ?? null);
    }
    for (const signal of this.#stops) node.requestStop(signal);
  }

  /** Removes an agent whose setup failed. Its task stays counted as delegated. */
  remove(node: AgentRuntime): void {
    this.#nodes.delete(node.identity.agentId);
    node.parent?.removeChild(node);
    node.close();
  }

  /** Asks all present and future agents to stop. Each agent records the request. */
  stop(signal: StopSignal): void {
    this.#stops = [...this.#stops, signal];
    for (const node of this.#nodes.values()) if (!node.hasEnded) node.requestStop(signal);
  }

  find(agentId: AgentId): AgentRuntime | undefined {
    return this.#nodes.get(agentId);
  }

  /** Models of the agents, in the order of their start. */
  get models(): readonly Model[] {
    return Array.from(this.#nodes.values(), ({ model }) => model);
  }

  /** Returns in how many other steps of the run a role was started with this task. */
  countDelegations(delegation: Delegation, stepId: StepId): number {
    const steps = this.#delegations?.get(createDelegationKey(delegation));
    return steps === undefined ? 0 : steps.size - (steps.has(stepId) ? 1 : 0);
  }

  /** Records earlier tasks of an agent, from its history. Each was delegated in a separate step. */
  noteEarlier({ role, identity }: AgentRuntime, tasks: readonly string[]): void {
    for (const [index, task] of tasks.entries())
      this.#noteDelegation({ role: role.name, task }, `${identity.agentId} ${index}`);
  }

  #noteDelegation(delegation: Delegation, stepId: string | null): void {
    const key = createDelegationKey(delegation);
    this.#delegations ??= new Map();
    const steps = this.#delegations.get(key) ?? new Set();
    this.#delegations.set(key, steps.add(stepId));
  }

  /** Tracks an agent that continues without its parent, until it has settled. */
  trackDetached(settled: Promise<void> | undefined): void {
    this.#detachedOpen += 1;
    this.#detached = this.#awaitDetached(settled, this.#detached);
  }

  async #awaitDetached(
    settled: Promise<void> | undefined,
    earlier: Promise<void> | undefined,
  ): Promise<void> {
    await settled;
    this.#detachedOpen -= 1;
    await earlier;
  }

  /** True if a detached agent has not ended, or its end is not recorded yet. */
  get hasDetached(): boolean {
    return (
      this.#detachedOpen > 0 ||
      this.nodes.some(({ isDetached, hasEnded }) => isDetached && !hasEnded)
    );
  }

  /**
   * Resolves once all detached agents have settled, including agents that were detached meanwhile.
   */
  async whenDetachedSettled(): Promise<void> {
    let awaited: Promise<void> | undefined;
    do {
      awaited = this.#detached;
      await awaited;
    } while (awaited !== this.#detached);
  }

  /** Scopes of the agents that are running. */
  get activeScopes(): readonly EventScope[] {
    return this.nodes.filter(({ isActive }) => isActive).map((node) => node.getScope());
  }

  /** All agents that were started, in order. */
  get nodes(): readonly AgentRuntime[] {
    return [...this.#nodes.values()];
  }

  /**
   * Returns the totals to which a new subagent counts: of the run, and of each agent on the path
   * that has a limit.
   */
  getTotals(parent: AgentRuntime): readonly SubagentTotal[] {
    const maximum = this.limits.maxTotalSubagents;
    const totals: SubagentTotal[] = [{ who: "this run", maximum, started: this.total }];
    for (let at: AgentRuntime | undefined = parent; at !== undefined; at = at.parent) {
      const { maxTotalSubagents: limit } = at.role.limits;
      if (limit === undefined) continue;
      totals.push({ who: at.identity.agentPath, maximum: limit, started: at.subagentsBelow });
    }
    return totals;
  }

  /**
   * Returns the limits that apply below an agent: for each, the tightest on the path from the root.
   */
  findLimits(parent: AgentRuntime): SubagentLimits {
    const maxima = this.getTotals(parent).map(({ maximum }) => maximum);
    return { ...parent.shape, maxTotalSubagents: Math.min(...maxima) };
  }

  /**
   * Admits a subagent below `parent`, after `findStartableRole` has found room. Returns its path.
   */
  admit(parent: AgentRuntime, roleName: string): string {
    this.count(parent, 1);
    return parent.nameChild(roleName);
  }

  /** Undoes the admission of a child whose setup failed. */
  undoAdmission(parent: AgentRuntime): void {
    invariant(parent.childCount > 0, "T3: a place is given back once");
    this.count(parent, -1);
  }

  /** Returns how many more subagents an agent may start now. */
  countSubagentsLeft(parent: AgentRuntime): number {
    const { shape, childCount, identity } = parent;
    if (identity.depth >= shape.maxDepth) return 0;
    const lefts = this.getTotals(parent).map(({ maximum, started }) => maximum - started);
    return Math.max(0, Math.min(shape.maxBreadthPerParent - childCount, ...lefts));
  }

  countRefusal(code: string): void {
    const { counts } = this;
    counts.refusals ??= new Map();
    counts.refusals.set(code, (counts.refusals.get(code) ?? 0) + 1);
  }

  /** Adds to the number of an agent's started subagents. */
  count(parent: AgentRuntime, by: number): void {
    parent.childCount += by;
    for (const at of parent.walkUp()) at.subagentsBelow += by;
    this.total += by;
    const { byDepth } = this.counts;
    const depth = parent.identity.depth + 1;
    byDepth[depth] = (byDepth[depth] ?? 0) + by;
  }
}

/** Returns the key of a delegation. Tasks that differ only in white space are the same. */
function createDelegationKey({ role, task }: Delegation): string {
  return JSON.stringify([role, task.trim().split(/\s+/u)]);
}
