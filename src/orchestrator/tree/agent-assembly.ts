// What one agent works with, put together from what its run shares.

import { messageOf } from "../../kernel/error.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import type { AgentContext, EventPlace } from "../../agent/agent-context.ts";
import { hookBounds } from "../../agent/hook-bounds.ts";
import { localEffects } from "../../agent/local-effects.ts";
import type { LocalEffectsOptions } from "../../agent/local-options.ts";
import type { Correlation, EventBody, EventDraft } from "../../protocol/event.ts";
import type { AgentId, QuestionId } from "../../protocol/ids.ts";
import type { Answer } from "../../protocol/question.ts";
import type { StopSignal } from "../../protocol/stop.ts";
import type { Usage, UsageReport } from "../../protocol/usage.ts";
import type { RemovedTool } from "../../protocol/tool-rule.ts";
import { namedGuards, type NamedGuard } from "../../tools/tool-guard.ts";
import { narrowed, toolSet, type Narrowing, type ToolSet } from "../../tools/tool-set.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import { questionsOf, type AgentState } from "../../agent/agent-state.ts";
import type { BudgetGate, Lease, LeaseAsk } from "../../agent/budget-gate.ts";
import type { AgentNode } from "./agent-node.ts";
import type { RunShared, TextPiece } from "./run-shared.ts";
import type { RoleRegistry } from "./role-registry.ts";
import { subagentListText } from "./subagent-service.ts";
import { subagentTools } from "./subagent-tools.ts";

/** What an agent may do to subagents. None of it rejects. */
export type Delegations = Pick<
  LocalEffectsOptions,
  | "spawn"
  | "forgo"
  | "resumeChild"
  | "dismissChild"
  | "cancelChildrenOf"
  | "awaitChildren"
  | "detachChild"
  | "delegationsBefore"
  | "refuseSpawn"
  | "forbidSpawn"
  | "subagentsOf"
> & {
  /** Sets children going again that worked in the background when the agent was paused. */
  reviveChildren(childIds: readonly AgentId[]): void;
};

export function agentContext(
  scope: RunShared,
  node: AgentNode,
  delegations: Delegations,
): AgentContext {
  const { identity, role, metadata, signal } = node;
  const { recorder, clock, graceMs, hookTimeoutMs } = scope;
  const placed = (at?: EventPlace): Correlation => ({
    ...identity,
    stepId: at?.stepId ?? null,
    callId: at?.callId ?? null,
    ...(at?.modelCallNumber === undefined ? {} : { modelCallNumber: at.modelCallNumber }),
  });
  const record = (body: EventBody, at?: EventPlace, contents?: EventDraft["contents"]): void =>
    void recorder.record(placed(at), body, contents);
  const keeper = scope.journal?.keeperOf(node);
  const forHooks = {
    identity,
    roleName: role.name,
    metadata,
    signal,
    raise: raiser(scope, node),
    clock,
    hookTimeoutMs,
    graceMs,
  };
  const local = localEffects({
    ...forHooks,
    ...delegations,
    ...sharedParts(scope, node),
    log: keeper?.log,
    record,
    at: (at, work) => recorder.at(placed(at), work),
    within: (at, work) => recorder.within(placed(at), work),
    tell: (at, content) => recorder.tell(placed(at), content),
  });
  const effects = keeper?.around(local) ?? local;
  return new Workplace(scope, node, { effects, record, forHooks, delegations });
}

/** What puts a wish to stop into the inbox of the agent. */
function raiser({ journal }: RunShared, node: AgentNode): (signal: StopSignal) => void {
  if (journal === undefined) return node.raise.bind(node);
  return (signal) => {
    journal.append({ type: "signal", agentId: node.identity.agentId, signal });
    node.raise(signal);
  };
}

/** What one agent works with, as far as it is put together for it. */
interface Fittings {
  readonly effects: AgentContext["effects"];
  readonly record: AgentContext["record"];
  readonly forHooks: Parameters<typeof hookBounds>[0];
  readonly delegations: Delegations;
}

/** A class: a function of its own for each question of each of ten thousand agents is memory that counts. */
class Workplace implements AgentContext {
  readonly identity: AgentContext["identity"];
  readonly role: AgentRole;
  readonly tools: ToolSet;
  readonly removedTools: AgentContext["removedTools"];
  readonly hooks: AgentContext["hooks"];
  readonly definitions: AgentContext["definitions"];
  readonly effects: AgentContext["effects"];
  readonly budget: AgentContext["budget"];
  readonly task: string;
  readonly metadata: AgentContext["metadata"];
  readonly spawnCallId: AgentContext["spawnCallId"];
  readonly retention: AgentContext["retention"];
  readonly inbox: AgentContext["inbox"];
  readonly conditionBounds: AgentContext["conditionBounds"];
  readonly #scope: RunShared;
  readonly #node: AgentNode;
  readonly #fittings: Fittings;

  constructor(scope: RunShared, node: AgentNode, fittings: Fittings) {
    const { identity, role, signal, toolLimits } = node;
    const { clock, graceMs, hookTimeoutMs, ledger } = scope;
    this.identity = identity;
    this.role = role;
    this.tools = narrowed(scope.toolsOf(role), narrowingOf(toolLimits.removed));
    this.removedTools = toolLimits.removed;
    this.hooks = scope.hooksOf(role);
    this.definitions = scope.definitions;
    this.effects = fittings.effects;
    const gate = ledger.gate(identity.agentId);
    this.budget = node.unfinished === undefined ? gate : chargedBefore(gate, node);
    this.task = node.task;
    this.metadata = node.metadata;
    this.spawnCallId = node.spawnCallId;
    this.retention = node.parent === undefined ? scope.session?.settings.retention : undefined;
    this.inbox = node.inbox;
    this.conditionBounds = { signal, clock, graceMs, timeoutMs: hookTimeoutMs };
    this.#scope = scope;
    this.#node = node;
    this.#fittings = fittings;
  }

  /** Says what has happened, unless it was said before the process died (E3). */
  record(...[body, at]: Parameters<AgentContext["record"]>): void {
    if (this.#node.unfinished?.takeTold(body, at) === true) return;
    if (body.type === "signal.raised" && body.signal.reason.code === "error")
      this.#scope.tree.noteFailure(this.identity.agentId);
    this.#fittings.record(body, at);
  }

  /** What was under way when the process died is taken in before an end. */
  get isEnding(): boolean {
    return this.#node.signal.aborted && this.#node.unfinished?.isBeforeStep !== true;
  }

  get isCatchingUp(): boolean {
    return this.#node.unfinished?.isUnderWay === true;
  }

  get strayIds(): readonly AgentId[] {
    return this.#node.unfinished?.childIds ?? [];
  }

  keepStep(state: AgentState): void {
    this.#scope.journal?.stepOpened(this.#node, state);
  }

  reviveSubagents(childIds: readonly AgentId[]): void {
    this.#fittings.delegations.reviveChildren(childIds);
  }

  hasPaused(childIds: readonly AgentId[]): boolean {
    const { tree } = this.#scope;
    return childIds.some((childId) => tree.find(childId)?.rested?.status === "paused");
  }

  subagentList(): ReturnType<AgentContext["subagentList"]> {
    return subagentListText(this.#scope, this.#node);
  }

  hasDueBelow(): boolean {
    return hasDueBelow(this.#scope, this.#node);
  }

  hookBounds(stepNumber: number): ReturnType<AgentContext["hookBounds"]> {
    return hookBounds(this.#fittings.forHooks, { stepNumber });
  }

  answerTo(questionId: QuestionId): Answer | undefined {
    return this.#scope.answers.get(questionId);
  }

  pausedMs(): number {
    return this.#node.pausedMs;
  }

  usage(): UsageReport {
    return this.#scope.ledger.usage(this.identity.agentId);
  }
}

/** Tool calls that were charged before the process died are not charged again, nor are model calls that were settled. */
function chargedBefore(gate: BudgetGate, node: AgentNode): BudgetGate {
  return {
    ...gate,
    settle: (lease, usage) => {
      if (node.unfinished?.isSettled(lease.leaseId) !== true) gate.settle(lease, usage);
    },
    chargeToolCall: () =>
      node.unfinished?.takeCharge() === true ? undefined : gate.chargeToolCall(),
  };
}

/** What the effects of an agent use of its run and its node. */
function sharedParts(scope: RunShared, node: AgentNode) {
  const { identity, role, startSignal } = node;
  const { ledger, slots, pace, retry, desk, tree, onText } = scope;
  const { agentId, agentPath } = identity;
  return {
    model: role.model,
    cacheKey: { role: scope.cacheKeyOf(role), agent: ordinalOf(agentPath) },
    hooks: scope.hooksOf(role),
    guards: guardsOf(scope, node),
    run: tree,
    maxIdenticalDelegations: role.delegation.maxIdenticalDelegations,
    desk,
    slots,
    pace,
    startSignal,
    callSignal: node.signal,
    pauseSignal: tree.pauseSignal,
    retry,
    onText:
      onText === undefined
        ? undefined
        : (text: string) => handText(onText, { agentId, agentPath, text }),
    reserve: (ask: LeaseAsk) => ledger.reserve(agentId, ask, startSignal),
    charge: (lease: Lease, usage: Usage) => ledger.charge(lease, usage),
    payAgain: (lease: Lease, signal: AbortSignal) => ledger.extend(lease, role.model, signal),
    working: () => node.working(),
    asking: () => node.asking(),
  };
}

/** The place of an agent among those of its role: `lead/leaf#2` is the second. */
function ordinalOf(agentPath: string): number {
  const [, ordinal = 1] = /#(\d+)$/.exec(agentPath) ?? [];
  return Number(ordinal);
}

/** The tools of a role, with the one by which it delegates if it may. */
export function toolsOf(role: AgentRole, registry: RoleRegistry): ToolSet {
  const tools = [...role.tools, ...subagentTools(role, registry.subagentsOf(role))];
  return toolSet(role.name, tools, role.toolDefaults);
}

/** What would only be of no use is still found: the call is refused with the limit that it meets (X14). */
function narrowingOf(removed: readonly RemovedTool[]): Narrowing {
  const gone = new Set<string>();
  const hidden = new Set<string>();
  for (const { toolName, rule } of removed)
    (rule === "no_depth_left" ? hidden : gone).add(toolName);
  return { gone, hidden };
}

/** The orchestrator's guards, those of every agent above, from the root down, and those of its own role (T4). */
function guardsOf(scope: RunShared, { role, parent }: AgentNode): readonly NamedGuard[] {
  const above = parent === undefined ? scope.guards : guardsOf(scope, parent);
  return role.guards.length === 0 ? above : [...above, ...namedGuards(role.name, role.guards)];
}

/** Looks at those below alone: when a tree of ten thousand is to pause, every one of them asks. */
function hasDueBelow({ answers }: RunShared, above: AgentNode): boolean {
  for (const { rested, startSignal } of above.livingBelow()) {
    if (rested?.status !== "paused") continue;
    if (startSignal.aborted || questionsOf(rested).some((one) => answers.has(one.questionId)))
      return true;
  }
  return false;
}

/** A listener that throws harms nobody (E2). */
function handText(onText: NonNullable<RunShared["onText"]>, piece: TextPiece): void {
  try {
    onText(piece);
  } catch (cause) {
    warnOnce(onText, `onText threw (${messageOf(cause)}); the run goes on.`);
  }
}
