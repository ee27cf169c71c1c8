// AgentRuntime: one agent in the tree, and everything that its execution works with. Owns its identity,
// its cancel signals, its mailbox, its subagents and its state. Has its run from the ports of `run`.
//
// Cancellation runs from parent to child, never back (R148): each agent aborts those below it that have not ended. Of its own signals only
// that of the calls of a reply listens to another: to `noStartSignal`.

import { invariant } from "../kernel/assert.ts";
import {
  CancelSignal,
  findCancelReason,
  type Bounds,
  type CancelReason,
} from "../kernel/cancel.ts";
import type { JsonObject } from "../kernel/json.ts";
import type { HookSet } from "../hooks/hook-set.ts";
import type { CacheKey, Model, OutputSchema } from "../model/model.ts";
import type { PriceOf } from "../model/prices.ts";
import type { SentRequest } from "../model/request-prefix.ts";
import { describeTimeLimit, toStopSignal } from "../policies/stop-signals.ts";
import { tightenShape, type TreeShape } from "../policies/subagent-limits.ts";
import type { MessageRetentionPolicy } from "../policies/retention-policy.ts";
import { runInScope } from "../protocol/correlation.ts";
import type { EventScope, EventBody, EventDraft } from "../protocol/event.ts";
import { formatContent, type MessageContent } from "../protocol/message-content.ts";
import type { AgentId, CallId, ExecutionId, StepId } from "../protocol/ids.ts";
import type { SpanContent } from "../protocol/message.ts";
import type { StreamPartSource } from "../protocol/stream-part.ts";
import type { SettledStatus, StopSignal } from "../protocol/stop.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import type { DynamicRole } from "../protocol/subagent.ts";
import { NO_TOOL_LIMITS, type ToolLimits } from "../protocol/tool-rule.ts";
import { assignGuardNames, type NamedGuard } from "../tools/tool-guard.ts";
import { excludeRemovedTools, type ToolSet } from "../tools/tool-set.ts";
import {
  getChildName,
  parseOrdinal,
  type AgentIdentity,
  type EffectPosition,
  type EventPosition,
} from "./agent-identity.ts";
import type { AgentRole } from "./agent-role.ts";
import type { AgentState, PausedState, PendingState, SettledState } from "./agent-state.ts";
import { AgentTime } from "./agent-time.ts";
import type { BudgetAccount } from "../budget/budget-account.ts";
import { Mailbox } from "./mailbox.ts";
import type { Persistence } from "./persistence.ts";
import type { Phase, PhaseReport } from "./phase-report.ts";
import type { AgentRun } from "./run-ports.ts";
import { SpawnGroup } from "./spawn-group.ts";

/** What is known of an agent when it is created, and holds for one execution or more. */
export interface AgentFacts {
  /** What it is to do. */
  readonly task: MessageContent;
  readonly metadata: JsonObject;
  /** The call in its parent that starts it. */
  readonly spawnCallId?: CallId | undefined;
  /** The step of its parent in which it is started. */
  readonly spawnStepId?: StepId | undefined;
  /** What its parent's model wrote, where its role was made at spawn. */
  readonly roleDefinition?: DynamicRole | undefined;
}

/** The facts with which an agent is created. The runtime has those of its own under names of their own. */
export interface NewAgentFacts extends AgentFacts {
  readonly role: AgentRole;
  readonly agentPath: string;
  /** What it may not use. Default: it has all tools of its role. */
  readonly toolLimits?: ToolLimits | undefined;
}

/** With what an agent begins, for the first time or once more. */
export interface ExecutionStart {
  readonly agentId: AgentId;
  readonly executionId: ExecutionId;
  /** The model of the role, as `readModel` returns it. */
  readonly model: Model;
  /** Its first state, or that of a paused run. */
  readonly state: PendingState | SettledState;
  readonly account: BudgetAccount;
  /** Of an agent that ran before the run was paused. */
  readonly before?: EarlierExecutions;
}

/** Counts and marks of an agent that ran before. */
export interface EarlierExecutions {
  readonly firstStartedAtMs: number;
  /** Subagents that it has started, and how many were started below it in all. */
  readonly childCount: number;
  readonly subagentsBelow: number;
  readonly ordinals: Readonly<Record<string, number>>;
  /** Which execution of it this is, from 1. */
  readonly execution: number;
  /** It was left to the run by its parent. */
  readonly isDetached: boolean;
}

export class AgentRuntime {
  readonly run: AgentRun<AgentRuntime>;
  readonly identity: AgentIdentity;
  readonly role: AgentRole;
  readonly model: Model;
  readonly priceOf: PriceOf;
  readonly cacheKey: CacheKey;
  readonly facts: AgentFacts;
  /** The text of its task, with a line for each attachment. */
  readonly taskText: string;
  /** The start of its first execution. `telemetry.startedAtMs` of a state is that of the execution. */
  readonly firstStartedAtMs: number;
  /** Which execution of the agent this is, from 1. */
  readonly execution: number;
  /** How deep and how broad the tree below it may be. */
  readonly shape: TreeShape;
  /** What it may not use, and nothing below it. */
  readonly toolLimits: ToolLimits;
  readonly account: BudgetAccount;
  readonly tools: ToolSet;
  readonly hooks: HookSet;
  /** The schema to which its provider holds the result; undefined: it gives no typed result, or gives it by `Finish`. */
  readonly nativeOutputSchema: OutputSchema | undefined;
  /** How much of the history of its session it begins with; undefined: it has none. */
  readonly retention: MessageRetentionPolicy | undefined;
  readonly persistence: Persistence | undefined;
  /** Aborted when the agent, or one above it, must end. */
  readonly cancelSignal = new CancelSignal();
  /** Aborted when nothing further of the agent may start: with `cancelSignal`, and with the first stop request. */
  readonly noStartSignal = new CancelSignal();
  /** The agent that started it, as it is now. */
  parent: AgentRuntime | undefined;
  /** The run keeps it, not its parent. */
  isDetached: boolean;
  /** Undefined while nothing in the run has limited time or held a clock: an open question, a pause, or the wait for a run slot. */
  time: AgentTime | undefined;
  /** Effects of its own that are under way: model calls, tool bodies, hooks. A delegation is none, since its child counts for itself. */
  effectCount = 0;
  /** Subagents that it has started. */
  childCount: number;
  /** Subagents that were started below it, at any depth. */
  subagentsBelow: number;
  /** The state in which it has settled; undefined while it has not begun, or runs. */
  settled: SettledState | undefined;
  /** The state from which it begins next, in which its last phase has left it, or in which it has settled. */
  currentState: AgentState;
  /** Results of calls that are not in `currentState` yet; undefined: there are none. */
  endedCalls: ToolExecution[] | undefined;
  /** Stop requests that the loop has not handled yet; the abort of the agent is the last of them, whenever it came. */
  stopRequests: readonly StopSignal[] = NO_REQUESTS;
  /** Made when something is first written to the agent, or first waits for its mail. */
  mailbox: Mailbox | undefined;
  /** Settles with the newest execution of a subagent. `undefined` for a root, and before the first. */
  settling: Promise<unknown> | undefined;
  /** Settles once its parent has its report, or it is paused. `undefined` while it does not work in the background. Never rejects. */
  reporting: Promise<void> | undefined;
  /** Steps its loop from phase to phase; undefined: it runs freely. */
  stepper: { pass(): Promise<void>; step(report: PhaseReport): Promise<void> } | undefined;
  /** The request of the last step, with which the next is compared. `undefined` if nothing hears of requests. */
  lastRequest: SentRequest | undefined;
  /** True while its loop runs. */
  isActive = false;
  #scope: EventScope | undefined;
  #guards: readonly NamedGuard[] | undefined;
  #aborted: StopSignal | undefined;
  /** The status in which it has settled in this process, until it is active again. While it is paused, its time stands still. */
  #restStatus: SettledStatus | undefined;
  // Made when needed: most agents are leaves, and empty maps for each of ten thousand are megabytes.
  /** Those that its cancel reaches: its children, or those that were left to it, as far as they have not ended. */
  #followers: Set<AgentRuntime> | undefined;
  #ordinals: Map<string, number> | undefined;
  #children: Map<string, AgentRuntime> | undefined;
  #groups: Map<StepId, SpawnGroup> | undefined;
  /** In which step a call of its own last gave it the result of a subagent. */
  #reported: Map<AgentId, StepId | undefined> | undefined;

  /** `parent`: the agent that starts it; undefined for the root. */
  constructor(
    run: AgentRun<AgentRuntime>,
    parent: AgentRuntime | undefined,
    given: NewAgentFacts,
    start: ExecutionStart,
  ) {
    const { role, agentPath, toolLimits = NO_TOOL_LIMITS, ...facts } = given;
    const { agentId, executionId, state, before } = start;
    this.run = run;
    this.facts = facts;
    this.identity = Object.freeze({
      runId: run.runId,
      agentId,
      parentAgentId: parent?.identity.agentId ?? null,
      agentPath,
      depth: parent === undefined ? 0 : parent.identity.depth + 1,
      executionId,
    });
    this.role = role;
    this.model = start.model;
    this.priceOf = run.settings.priceOf;
    const { tools, hooks, nativeOutputSchema, roleCacheKey } = run.registry.partsOf(role);
    this.cacheKey = { role: roleCacheKey, agent: parseOrdinal(agentPath) };
    this.taskText = formatContent(facts.task);
    this.shape = tightenShape(parent?.shape ?? run.tree.limits, role.limits);
    this.toolLimits = toolLimits;
    this.account = start.account;
    const { removed } = toolLimits;
    this.tools = removed.length === 0 ? tools : excludeRemovedTools(tools, removed);
    this.hooks = hooks;
    this.nativeOutputSchema = nativeOutputSchema;
    this.firstStartedAtMs = before?.firstStartedAtMs ?? run.clock.nowMs();
    this.execution = before?.execution ?? 1;
    this.parent = parent;
    this.currentState = state;
    this.settled = state.status === "pending" ? undefined : state;
    this.childCount = before?.childCount ?? 0;
    this.subagentsBelow = before?.subagentsBelow ?? 0;
    this.isDetached = before?.isDetached ?? false;
    if (before !== undefined) this.#ordinals = new Map(Object.entries(before.ordinals));
    this.retention = parent === undefined ? run.retention : undefined;
    this.persistence = run.journal?.persistenceOf(this);
    if (this.account.isTimed) run.watchTime();
    if (run.isTimeWatched) this.watchTime();
    this.#follow(); // Last: if something throws before, no parent knows an incomplete agent.
    if (this.hasEnded) this.close();
    else if (before !== undefined) this.time?.endIfOverdue();
  }

  // What happens to it

  /** Cancels the agent and all below it. */
  cancel(message: string): void {
    this.#abort({ type: "cancelled", message, agentId: this.identity.agentId });
  }

  /** Ends the agent and all below it, since its time is over. */
  endAt(deadlineAtMs: number): void {
    const { agentId, agentPath } = this.identity;
    const maximumMs = this.account.getTimeMaximum(deadlineAtMs);
    const message = describeTimeLimit(agentPath, maximumMs);
    this.#abort({ type: "deadline", message, deadlineAtMs, maximumMs, agentId, agentPath });
  }

  /** Its time is over: that ends it, unless a replay decides when it ends. */
  deadlineReached(deadlineAtMs: number): void {
    if (this.persistence?.deadlineReached(deadlineAtMs) !== false) this.endAt(deadlineAtMs);
  }

  /**
   * Asks the agent to stop. Waits, tool calls and subagents of the open step end at once. The loop takes
   * the request into the state before the next phase.
   */
  requestStop(signal: StopSignal): void {
    const last = this.stopRequests.at(-1);
    this.stopRequests =
      last !== undefined && last === this.#aborted
        ? [...this.stopRequests.slice(0, -1), signal, last]
        : [...this.stopRequests, signal];
    this.noStartSignal.abort(signal);
  }

  /** The stop requests that came since this was asked last; none while the agent catches up after a crash. */
  takeStopRequests(): readonly StopSignal[] {
    const { persistence, stopRequests: taken } = this;
    if (persistence?.inFlight?.isUnderWay === true) return NO_REQUESTS;
    this.stopRequests = NO_REQUESTS;
    return persistence === undefined ? taken : persistence.unlogged(taken);
  }

  /** True while stop requests wait for the loop to take them into the state. */
  get hasStopRequest(): boolean {
    return this.stopRequests.length > 0 && this.persistence?.inFlight?.isUnderWay !== true;
  }

  /** True once the agent must end: nothing further is worth beginning. */
  get isEnding(): boolean {
    return this.cancelSignal.aborted && this.persistence?.inFlight?.isBeforeStep !== true;
  }

  /** True if the run is to pause. */
  get isPausing(): boolean {
    return this.run.pauseSignal.aborted && this.persistence?.inFlight?.isUnderWay !== true;
  }

  /** Aborts what it would start, what it has under way, and all that follow it, in this order. */
  #abort(reason: CancelReason): void {
    if (this.cancelSignal.aborted) return;
    this.#aborted = toStopSignal(reason);
    this.stopRequests = [...this.stopRequests, this.#aborted];
    this.noStartSignal.abort(reason);
    this.cancelSignal.abort(reason);
    for (const agent of this.#followers ?? []) agent.#abort(reason);
  }

  /** The agent whose cancel reaches it: its parent, or the root once it was left to the run. */
  get #above(): AgentRuntime | undefined {
    return this.isDetached ? this.root : this.parent;
  }

  #follow(): void {
    const above = this.#above;
    if (above === undefined || above === this) return;
    const reason = findCancelReason(above.cancelSignal);
    if (reason === undefined) (above.#followers ??= new Set()).add(this);
    else this.#abort(reason);
  }

  #rest(status: SettledStatus): void {
    this.#restStatus = status;
    this.mailbox?.close(status);
  }

  /** Where to write to it. */
  openMailbox(): Mailbox {
    return (this.mailbox ??= new Mailbox(this.#restStatus));
  }

  // Its state

  /** The agent is active from now on, from the state that this gives: its first, or the one in which it was paused. */
  activate(): PendingState | PausedState {
    const state = this.currentState;
    invariant(
      !this.isActive && (state.status === "pending" || state.status === "paused"),
      `${this.identity.agentPath} is not active and has not ended`,
    );
    this.isActive = true;
    this.settled = undefined;
    if (this.#restStatus === "paused") this.releaseClock();
    this.#restStatus = undefined;
    this.mailbox?.reopen();
    return state;
  }

  /** Notes how far it has come within a phase: late readers of pieces are shown that. */
  noteState(state: AgentState): void {
    this.currentState = state;
    this.endedCalls = undefined;
  }

  /**
   * A phase has ended with this state. Gives a promise if the caller steps through the phases: it resolves
   * once the next one is asked for.
   */
  phaseOver(phase: Phase, state: AgentState): Promise<void> | undefined {
    this.currentState = state;
    this.endedCalls = undefined;
    this.persistence?.phaseOver(phase, state);
    return this.stepper?.step({ phase, state });
  }

  /** Notes the state in which it settles. One that has ended releases its timers and its parent; a paused one still follows it. */
  settle(state: SettledState): void {
    this.isActive = false;
    this.currentState = state;
    this.settled = state;
    this.run.pieces?.settled(this.identity.agentId);
    if (state.status !== "paused") return this.close();
    this.#rest(state.status);
    this.holdClock();
  }

  /**
   * Releases its timers and its place below the agent whose cancel reaches it. Called when it has ended, could
   * not be set up, or broke before it settled. Called also when its run pauses or is abandoned; then it may be at work.
   */
  close(): void {
    if (this.settled !== undefined) this.#rest(this.settled.status);
    this.time?.close();
    const above = this.#above;
    if (above !== undefined) above.#followers?.delete(this);
  }

  get hasEnded(): boolean {
    return this.settled !== undefined && this.settled.status !== "paused";
  }

  /** Resolves once it has settled and, if it works in the background, its parent has its result. */
  async whenSettled(): Promise<void> {
    await Promise.allSettled([this.settling]);
    await this.reporting;
  }

  // Its time

  /** From now on its clock runs, and stands still while it waits for an answer. */
  watchTime(): void {
    if (this.time !== undefined || this.hasEnded) return;
    this.time = new AgentTime(this);
    if (this.isDetached) this.time.standAlone();
  }

  /** An effect is under way. It ends with `endWork`, once. */
  beginWork(): void {
    this.effectCount += 1;
    this.time?.beginWork();
  }

  endWork(): void {
    this.effectCount -= 1;
    this.time?.endWork();
  }

  /** Counts one reason for the clock to stand still, until `releaseClock` or the end of the agent. */
  holdClock(): void {
    this.run.watchTime();
    this.time?.holdClock();
  }

  releaseClock(): void {
    this.time?.releaseClock();
  }

  // What it works with

  /** The orchestrator's guards, those of every agent above, from the root down, and those of its own role. */
  get guards(): readonly NamedGuard[] {
    if (this.#guards !== undefined) return this.#guards;
    const { name, guards } = this.role;
    const above = this.parent === undefined ? this.run.settings.guards : this.parent.guards;
    this.#guards = guards.length === 0 ? above : [...above, ...assignGuardNames(name, guards)];
    return this.#guards;
  }

  /** How long foreign code of the agent may take: a hook, a stop condition, a section. */
  get bounds(): Bounds & { readonly timeoutMs: number } {
    const { cancelSignal: signal, run } = this;
    const { graceMs, hookTimeoutMs: timeoutMs } = run.settings;
    return { signal, clock: run.clock, graceMs, timeoutMs };
  }

  // Events

  /** The ids that an event at a position of the agent carries, or one outside of its steps. Outside of its executions: `scopeOutsideExecutions`. */
  scope(at?: EventPosition): EventScope {
    if (at === undefined) return (this.#scope ??= this.scope({}));
    const { runId, agentId, parentAgentId, agentPath, depth, executionId } = this.identity;
    const { stepId = null, callId = null, modelCallNumber } = at;
    const scope = { runId, agentId, parentAgentId, agentPath, depth, executionId, stepId, callId };
    return modelCallNumber === undefined ? scope : { ...scope, modelCallNumber };
  }

  /**
   * Records an event of a phase, or of the wait for its lease, once: a phase that is repeated after a crash
   * does not record it again. The run counts it if it is a failure or a refusal.
   */
  record(body: EventBody, at?: EventPosition): void {
    if (this.persistence?.inFlight?.takeRecorded(body, at) === true) return;
    const { run, identity } = this;
    run.countProblem(identity.agentId, body);
    run.recorder.record(this.scope(at), body);
  }

  /** Records an event of an attempt at a model call or a tool call. A call that is repeated after a crash is another attempt, and records it again. */
  recordWithinCall(body: EventBody, at: EventPosition, contents?: EventDraft["contents"]): void {
    this.run.recorder.record(this.scope(at), body, contents);
  }

  /** Records content of the span of a position; `content` is made only if a trace shows it. */
  recordContent(at: EventPosition, content: () => SpanContent): void {
    this.run.recorder.recordContent?.(this.scope(at), content);
  }

  /** Whose pieces those of a step are. */
  pieceSource({ stepId, stepNumber }: EffectPosition): StreamPartSource {
    const { runId, agentId, agentPath } = this.identity;
    return { runId, agentId, agentPath, stepId, stepNumber };
  }

  /** Runs what belongs to a position: `getCorrelationIds()` gives its ids to all that it begins. */
  at<T>(at: EventPosition, work: () => T): T {
    return runInScope(this.scope(at), this.run.recorder, work);
  }

  // Its place in the tree

  /** Returns what its parent, and the model of that, call it. */
  get childName(): string {
    return getChildName(this.identity.agentPath);
  }

  get root(): AgentRuntime {
    return this.parent === undefined ? this : this.parent.root;
  }

  /** Yields the agent itself and those above it. */
  *pathUp(): Generator<AgentRuntime, void, undefined> {
    for (let at: AgentRuntime | undefined = this; at !== undefined; at = at.parent) yield at;
  }

  /** Leaves it to the run: its parent may end. A cancel of the root still reaches it. */
  detach(): void {
    const above = this.#above;
    if (above !== undefined) above.#followers?.delete(this);
    this.isDetached = true;
    this.#follow();
    this.time?.standAlone();
  }

  /** All that follow it and have not ended, at any depth. */
  *activeBelow(): Generator<AgentRuntime, void, undefined> {
    for (const agent of this.#followers ?? []) {
      yield agent;
      yield* agent.activeBelow();
    }
  }

  // Its subagents

  /** Its subagents, in the order of their start. */
  get children(): readonly AgentRuntime[] {
    return [...(this.#children?.values() ?? [])];
  }

  /** The subagent of this name. */
  subagent(childName: string): AgentRuntime | undefined {
    return this.#children?.get(childName);
  }

  /** Takes in a subagent, or the one that continues in its place. */
  enlist(child: AgentRuntime): void {
    child.parent = this;
    (this.#children ??= new Map()).set(child.childName, child);
  }

  /** Takes out a subagent that could not be set up whole. */
  delist(child: AgentRuntime): void {
    this.#children?.delete(child.childName);
  }

  /** True while it works beside its parent, until its report is in the parent's mailbox. */
  get isInBackground(): boolean {
    return this.reporting !== undefined && !this.isDetached;
  }

  /** Resolves once these of its subagents have settled, and it has their reports. */
  async backgroundSettled(childIds: readonly AgentId[]): Promise<void> {
    const children = this.children.filter(({ identity }) => childIds.includes(identity.agentId));
    await Promise.all(children.flatMap(({ reporting }) => reporting ?? []));
  }

  /** A call of the step has given the agent the result of this subagent. */
  noteReported(childId: AgentId, stepId: StepId | undefined): void {
    (this.#reported ??= new Map()).set(childId, stepId);
  }

  /** True if a call of the step has given it the result of the subagent, in this process. */
  wasReported(childId: AgentId, stepId: StepId): boolean {
    return this.#reported?.get(childId) === stepId;
  }

  /** The subagents that a step of it has started. */
  findGroup(stepId: StepId): SpawnGroup | undefined {
    return this.#groups?.get(stepId);
  }

  /** The subagents that a step of it starts. `size`: how many delegations of the reply may still start one. */
  groupOf(stepId: StepId, size: number): SpawnGroup {
    const groups = (this.#groups ??= new Map<StepId, SpawnGroup>());
    const group = groups.get(stepId) ?? new SpawnGroup(this.role.delegation.failurePolicy, size);
    groups.set(stepId, group);
    return group;
  }

  /** How many subagents of each role were numbered. */
  get ordinals(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#ordinals ?? []);
  }

  /** Gives the next child of this role its path in the tree: `lead/researcher#2`. No two agents share a path, also if one is never set up. */
  nameChild(roleName: string): string {
    this.#ordinals ??= new Map();
    const ordinal = (this.#ordinals.get(roleName) ?? 0) + 1;
    this.#ordinals.set(roleName, ordinal);
    return `${this.identity.agentPath}/${roleName}#${ordinal}`;
  }
}

const NO_REQUESTS: readonly StopSignal[] = Object.freeze([]);
