// RunTree: the agents of one run, and what counts against its limits.
// T3: admission is one synchronous step, so limits hold under parallel spawns; a failed set-up gives its place back once.

import { invariant } from "../../kernel/assert.ts";
import type { EventScope } from "../../protocol/event.ts";
import type { AgentId, StepId } from "../../protocol/ids.ts";
import type { StopSignal } from "../../protocol/stop.ts";
import type { SubagentLimits, SubagentTotal } from "../../policies/subagent-limits.ts";
import type { Model } from "../../model/model.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { Delegation } from "../../agent/run-ports.ts";
import type { PriceUsed } from "../../budget/prices-used.ts";
import type { RestoredRun } from "../durability/restored-run.ts";

/** What is known of a run that was paused. */
export type Before = Pick<RestoredRun, "refusalsByCode" | "prices" | "failedIds">;

const NONE: readonly never[] = Object.freeze([]);
/** Subagents that were started and refused. A result keeps it in place of the tree. */
export interface SubagentCounts {
  /** How many were started, by their depth. */
  readonly byDepth: number[];
  /** How many were refused, by the code of the refusal. `undefined` if none was. */
  refusals: Map<string, number> | undefined;
}

/** Returns the counts as results and events have them. */
export function countsOf({ byDepth, refusals }: SubagentCounts) {
  return {
    subagentsByDepth: Object.fromEntries(Object.entries(byDepth).filter(([, count]) => count > 0)),
    refusalsByCode: Object.fromEntries(refusals ?? []),
  };
}

export class RunTree {
  readonly limits: SubagentLimits;
  readonly #nodes = new Map<AgentId, AgentRuntime>();
  readonly counts: SubagentCounts = { byDepth: [], refusals: undefined };
  /** The steps in which each delegation was asked for. */
  #delegations: Map<string, Set<string | null>> | undefined;
  /** Settles once all detached agents have; undefined: there were none. */
  #detached: Promise<void> | undefined;
  #detachedOpen = 0;
  /** Subagents that the tree has started. */
  total = 0;
  #stops: readonly StopSignal[] = NONE;
  #failed: readonly AgentId[];
  /** The prices of the models that had run before the run was paused. */
  readonly pricesBefore: readonly PriceUsed[];

  /** `before`: of a run that was paused. */
  constructor(limits: SubagentLimits, before?: Before) {
    this.limits = limits;
    this.pricesBefore = before?.prices ?? NONE;
    this.#failed = before?.failedIds ?? NONE;
    if (before === undefined) return;
    const refusals = Object.entries(before.refusalsByCode);
    if (refusals.length > 0) this.counts.refusals = new Map(refusals);
  }

  /** An agent fails. */
  noteFailure(agentId: AgentId): void {
    if (!this.#failed.includes(agentId)) this.#failed = [...this.#failed, agentId];
  }

  /** Agents that failed, in the order in which they did: the first cause first. */
  get failedIds(): readonly AgentId[] {
    return this.#failed;
  }

  /** Takes a new agent in. A tree that was asked to stop asks it, too. */
  add(node: AgentRuntime): void {
    const { parent, role, taskText: task } = node;
    const { agentId } = node.identity;
    this.#nodes.set(agentId, node);
    if (node.currentState.status === "pending" && this.#failed.includes(agentId))
      this.#failed = this.#failed.filter((failedId) => failedId !== agentId);
    if (parent !== undefined) {
      parent.enlist(node);
      this.#noteDelegation({ role: role.name, task }, node.facts.spawnStepId ?? null);
    }
    for (const signal of this.#stops) node.requestStop(signal);
  }

  /** Takes out an agent that never ran: it could not be set up whole. Its task stays counted as delegated once. */
  remove(node: AgentRuntime): void {
    this.#nodes.delete(node.identity.agentId);
    node.parent?.delist(node);
    node.close();
  }

  /** Asks every agent that works, or that will be started yet, to stop. Each request is on record with each agent. */
  stop(signal: StopSignal): void {
    this.#stops = [...this.#stops, signal];
    for (const node of this.#nodes.values()) if (!node.hasEnded) node.requestStop(signal);
  }

  find(agentId: AgentId): AgentRuntime | undefined {
    return this.#nodes.get(agentId);
  }

  /** The model of each agent, in the order of their start. */
  get models(): readonly Model[] {
    return Array.from(this.#nodes.values(), ({ model }) => model);
  }

  /** In how many steps other than this one a role was started with this task, anywhere in the run. */
  delegationsBefore(delegation: Delegation, stepId: StepId): number {
    const steps = this.#delegations?.get(delegationKey(delegation));
    return steps === undefined ? 0 : steps.size - (steps.has(stepId) ? 1 : 0);
  }

  /** Tasks that an agent had before the one that it has now, as its history has them: each was given in a step of its own. */
  noteEarlier({ role, identity }: AgentRuntime, tasks: readonly string[]): void {
    for (const [index, task] of tasks.entries())
      this.#noteDelegation({ role: role.name, task }, `${identity.agentId} ${index}`);
  }

  #noteDelegation(delegation: Delegation, stepId: string | null): void {
    const key = delegationKey(delegation);
    this.#delegations ??= new Map();
    const steps = this.#delegations.get(key) ?? new Set();
    this.#delegations.set(key, steps.add(stepId));
  }

  /** Tracks an agent that continues without its parent, until it has settled. */
  trackDetached(settled: Promise<void> | undefined): void {
    this.#detachedOpen += 1;
    const over = Promise.resolve(settled).then(() => {
      this.#detachedOpen -= 1;
    });
    this.#detached = Promise.all([this.#detached, over]).then(() => undefined);
  }

  /** True if an agent that was left to the run has not ended, or its end is not recorded yet. */
  get hasDetached(): boolean {
    return (
      this.#detachedOpen > 0 ||
      this.nodes.some(({ isDetached, hasEnded }) => isDetached && !hasEnded)
    );
  }

  /** Resolves once all detached agents rest, those among them that were detached meanwhile. */
  async detachedSettled(): Promise<void> {
    let awaited: Promise<void> | undefined;
    do {
      awaited = this.#detached;
      await awaited;
    } while (awaited !== this.#detached);
  }

  /** The scopes of the agents that are at work. */
  get activeScopes(): readonly EventScope[] {
    return this.nodes.filter(({ isActive }) => isActive).map((node) => node.scope());
  }

  /** All agents that were ever started, in the order of their start. */
  get nodes(): readonly AgentRuntime[] {
    return [...this.#nodes.values()];
  }

  /** The totals that one more subagent of an agent adds to: of the run, and of each agent from it up that has a limit of its own. */
  totalsAt(parent: AgentRuntime): readonly SubagentTotal[] {
    const maximum = this.limits.maxTotalSubagents;
    const totals: SubagentTotal[] = [{ who: "this run", maximum, started: this.total }];
    for (let at: AgentRuntime | undefined = parent; at !== undefined; at = at.parent) {
      const { maxTotalSubagents: own } = at.role.limits;
      if (own === undefined) continue;
      totals.push({ who: at.identity.agentPath, maximum: own, started: at.subagentsBelow });
    }
    return totals;
  }

  /** The limits that hold for what is started below an agent: on each the tightest from the root down to it. */
  limitsBelow(parent: AgentRuntime): SubagentLimits {
    const maxima = this.totalsAt(parent).map(({ maximum }) => maximum);
    return { ...parent.shape, maxTotalSubagents: Math.min(...maxima) };
  }

  /** Admits a subagent below `parent`, for which there must be room: see `findStartableRole`. Returns its path. */
  admit(parent: AgentRuntime, roleName: string): string {
    this.count(parent, 1);
    return parent.nameChild(roleName);
  }

  /** Undoes the admission of a child that could not be set up. */
  undoAdmission(parent: AgentRuntime): void {
    invariant(parent.childCount > 0, "T3: a place is given back once");
    this.count(parent, -1);
  }

  /** How many subagents an agent may still start, as things stand. */
  subagentsLeft(parent: AgentRuntime): number {
    const { shape, childCount, identity } = parent;
    if (identity.depth >= shape.maxDepth) return 0;
    const lefts = this.totalsAt(parent).map(({ maximum, started }) => maximum - started);
    return Math.max(0, Math.min(shape.maxBreadthPerParent - childCount, ...lefts));
  }

  countRefusal(code: string): void {
    const refusals = (this.counts.refusals ??= new Map());
    refusals.set(code, (refusals.get(code) ?? 0) + 1);
  }

  /** So many more subagents of an agent were started. */
  count(parent: AgentRuntime, by: number): void {
    parent.childCount += by;
    for (const at of parent.pathUp()) at.subagentsBelow += by;
    this.total += by;
    const { byDepth } = this.counts;
    const depth = parent.identity.depth + 1;
    byDepth[depth] = (byDepth[depth] ?? 0) + by;
  }
}

/** Tasks that differ in white space alone are the same. */
function delegationKey({ role, task }: Delegation): string {
  return JSON.stringify([role, task.trim().split(/\s+/u)]);
}
