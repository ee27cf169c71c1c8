// AgentRuntime: one agent in the tree, with everything that its execution needs. Owns its identity,
// its cancel signals, its mailbox, its subagents and its state. Reads everything that its run
// shares from the ports of `run`.
//
// Cancellation goes from parent to child, never back: each agent aborts the agents below it that
// have not ended. An agent's own signals do not listen to each other, except the signal for the
// calls of a reply, which listens to `noStartSignal`.

import { invariant } from "../kernel/invariant.ts";
import {
  CancelSignal,
  findCancelReason,
  type TimedBounds,
  type CancelReason,
} from "../kernel/cancel-signal.ts";
import type { JsonObject } from "../kernel/json.ts";
import type { HookSet } from "../hooks/hook-set.ts";
import type { CacheKey, Model, OutputSchema } from "../model/model.ts";
import type { PriceOf } from "../model/prices.ts";
import type { SentRequest } from "../model/request-prefix.ts";
import { describeTimeLimit, toStopSignal } from "../policies/stop-signals.ts";
import { tightenShape, type ShapeLimits } from "../policies/subagent-limits.ts";
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
import { getTimeMaximum } from "../budget/account-time.ts";
import type { BudgetAccount } from "../budget/budget-account.ts";
import { Mailbox } from "./mailbox.ts";
import type { Persistence } from "./persistence.ts";
import type { Phase, PhaseReport } from "./phase-report.ts";
import type { AgentRun } from "./run-ports.ts";
import { SpawnGroup } from "./spawn-group.ts";

/** Facts about an agent that are set when it is created and hold for all its executions. */
export interface AgentFacts {
  /** The task of the agent. */
  readonly task: MessageContent;
  readonly metadata: JsonObject;
  /** The call of its parent that started the agent. */
  readonly spawnCallId?: CallId | undefined;
  /** The step of its parent in which the agent was started. */
  readonly spawnStepId?: StepId | undefined;
  /** The role definition that its parent's model wrote, if the role was created at spawn. */
  readonly roleDefinition?: DynamicRole | undefined;
}

/**
 * The facts with which an agent is created. The runtime stores some of them under its own names.
 */
export interface NewAgentFacts extends AgentFacts {
  readonly role: AgentRole;
  readonly agentPath: string;
  /** Tools that the agent may not use. By default it has all tools of its role. */
  readonly toolLimits?: ToolLimits | undefined;
}

/** The beginning of the first execution or of a further one. */
export interface ExecutionStart {
  readonly agentId: AgentId;
  readonly executionId: ExecutionId;
  /** The model of the role, as returned by `readModel`. */
  readonly model: Model;
  /** The first state, or the state of a paused run. */
  readonly state: PendingState | SettledState;
  readonly account: BudgetAccount;
  /** Facts about the executions before the run was paused. */
  readonly before?: EarlierExecutions;
}

/** Counts and flags of an agent that ran before. */
export interface EarlierExecutions {
  readonly firstStartedAtMs: number;
  /** Number of its subagents, and number of all agents started below it. */
  readonly childCount: number;
  readonly subagentsBelow: number;
  readonly ordinals: Readonly<Record<string, number>>;
  /** The number of this execution of the agent, counted from 1. */
  readonly execution: number;
  /** True if its parent detached it. */
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
  /**
   * Start of its first execution. The start of the current execution is `telemetry.startedAtMs` of
   * the state.
   */
  readonly firstStartedAtMs: number;
  /** The number of this execution of the agent, counted from 1. */
  readonly execution: number;
  /** Limits on the depth and breadth of the tree below the agent. */
  readonly shape: ShapeLimits;
  /** Tools that neither the agent nor any agent below it may use. */
  readonly toolLimits: ToolLimits;
  readonly account: BudgetAccount;
  readonly tools: ToolSet;
  readonly hooks: HookSet;
  /**
   * The schema with which the provider constrains the typed result. `undefined` without a typed
   * result, or if the result is given by `Finish`.
   */
  readonly nativeOutputSchema: OutputSchema | undefined;
  /**
   * The part of its session's history with which the agent begins. `undefined` without a session.
   */
  readonly retention: MessageRetentionPolicy | undefined;
  readonly persistence: Persistence | undefined;
  /** Aborted when the agent, or an agent above it, must end. */
  readonly cancelSignal = new CancelSignal();
  /**
   * Aborted when nothing further of the agent may start: with `cancelSignal`, and with the first
   * stop request.
   */
  readonly noStartSignal = new CancelSignal();
  /** The runtime of its parent, updated when the parent is continued. */
  parent: AgentRuntime | undefined;
  /** True if the run waits for the agent, instead of its parent. */
  isDetached: boolean;
  /**
   * The agent's clock. `undefined` until an agent of the run has a time limit or holds a clock, for
   * an open question, a pause or a wait for a run slot.
   */
  time: AgentTime | undefined;
  /**
   * Number of the agent's own effects in progress: model calls, tool bodies and hooks. Delegations
   * do not count, because the child counts its own effects.
   */
  effectCount = 0;
  /** Number of subagents that the agent has started. */
  childCount: number;
  /** Number of agents started below it, at any depth. */
  subagentsBelow: number;
  /** The state in which the agent has settled. `undefined` before it begins and while it runs. */
  settled: SettledState | undefined;
  /**
   * The first state, the state after the last phase, or the state in which the agent has settled.
   */
  currentState: AgentState;
  /** Results of calls that are not in `currentState` yet. `undefined` for an empty list. */
  endedCalls: ToolExecution[] | undefined;
  /**
   * Stop requests that the loop has not handled yet. The abort of the agent always comes last,
   * whenever it was requested.
   */
  stopRequests: readonly StopSignal[] = NO_REQUESTS;
  /** Created with the first message to the agent, or when the agent first waits for messages. */
  mailbox: Mailbox | undefined;
  /**
   * Settles with the newest execution of a subagent. `undefined` for a root, and before the first
   * execution.
   */
  settling: Promise<unknown> | undefined;
  /**
   * Settles once its parent has its report, or the agent is paused. `undefined` unless the agent
   * works in the background. Never rejects.
   */
  reporting: Promise<void> | undefined;
  /** Steps the loop from phase to phase. `undefined` if the loop runs freely. */
  stepper: { pass(): Promise<void>; step(report: PhaseReport): Promise<void> } | undefined;
  /**
   * The request of the last step, with which the next request is compared. `undefined` if nothing
   * listens to requests.
   */
  lastRequest: SentRequest | undefined;
  /** True while the loop of the agent runs. */
  isActive = false;
  #guards: readonly NamedGuard[] | undefined;
  #aborted: StopSignal | undefined;
  /**
   * The status in which it settled in this process, until it is active again. While the status is
   * `paused`, the clock is held.
   */
  #settledStatus: SettledStatus | undefined;
  // Created on demand: most agents are leaves, and empty maps for ten thousand agents take
  // megabytes.
  /**
   * Agents that its cancellation reaches and that have not ended: its children, or agents detached
   * to the run.
   */
  #followers: Set<AgentRuntime> | undefined;
  #ordinals: Map<string, number> | undefined;
  #children: Map<string, AgentRuntime> | undefined;
  #groups: Map<StepId, SpawnGroup> | undefined;
  /** The step in which a call last returned the result of each subagent. */
  #reported: Map<AgentId, StepId | undefined> | undefined;

  /** `parent` is the agent that starts this one, and `undefined` for the root. */
  constructor(
    run: AgentRun<AgentRuntime>,
    parent: AgentRuntime | undefined,
    options: NewAgentFacts,
    start: ExecutionStart,
  ) {
    const { role, agentPath, toolLimits = NO_TOOL_LIMITS, ...facts } = options;
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
    const { tools, hooks, nativeOutputSchema, roleCacheKey } = run.registry.getParts(role);
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
    this.persistence = run.journal?.createPersistence(this);
    if (this.account.isTimed) run.watchTime();
    if (run.isTimeWatched) this.watchTime();
    // Last: if something throws before, no parent knows an incomplete agent.
    this.#follow();
    if (this.hasEnded) this.close();
    else if (before !== undefined) this.time?.endIfOverdue();
  }

  // Cancellation, stop requests and pauses

  /** Cancels the agent and all agents below it. */
  cancel(message: string): void {
    this.#abort({ type: "cancelled", message, agentId: this.identity.agentId });
  }

  /** Ends the agent and all agents below it, because its deadline has passed. */
  endAtDeadline(deadlineAtMs: number): void {
    const { agentId, agentPath } = this.identity;
    const maximumMs = getTimeMaximum(this.account, deadlineAtMs);
    const message = describeTimeLimit(agentPath, maximumMs);
    this.#abort({ type: "deadline", message, deadlineAtMs, maximumMs, agentId, agentPath });
  }

  /**
   * Ends the agent because its deadline has passed. In a replay, the recording decides when the
   * agent ends.
   */
  onDeadline(deadlineAtMs: number): void {
    if (this.persistence?.onDeadline(deadlineAtMs) !== false) this.endAtDeadline(deadlineAtMs);
  }

  /**
   * Asks the agent to stop. Waits, tool calls and subagents of the open step end at once. The loop
   * moves the request into the state before the next phase.
   */
  requestStop(signal: StopSignal): void {
    const last = this.stopRequests.at(-1);
    this.stopRequests =
      last !== undefined && last === this.#aborted
        ? [...this.stopRequests.slice(0, -1), signal, last]
        : [...this.stopRequests, signal];
    this.noStartSignal.abort(signal);
  }

  /**
   * Returns and removes the pending stop requests. Empty while the agent catches up after a crash.
   */
  takeStopRequests(): readonly StopSignal[] {
    const { persistence, stopRequests: taken } = this;
    if (persistence?.inFlight?.hasWork === true) return NO_REQUESTS;
    this.stopRequests = NO_REQUESTS;
    return persistence === undefined ? taken : persistence.filterUnlogged(taken);
  }

  /** True while stop requests wait to be moved into the state. */
  get hasStopRequest(): boolean {
    return this.stopRequests.length > 0 && this.persistence?.inFlight?.hasWork !== true;
  }

  /** True once the agent must end, so that nothing further needs to begin. */
  get isEnding(): boolean {
    return this.cancelSignal.aborted && this.persistence?.inFlight?.hasWorkBeforeStep !== true;
  }

  /** True if the run was asked to pause. */
  get isPausing(): boolean {
    return this.run.pauseSignal.aborted && this.persistence?.inFlight?.hasWork !== true;
  }

  /**
   * Aborts the signal for new work, the signal for active work, and the agents below, in this
   * order.
   */
  #abort(reason: CancelReason): void {
    if (this.cancelSignal.aborted) return;
    this.#aborted = toStopSignal(reason);
    this.stopRequests = [...this.stopRequests, this.#aborted];
    this.noStartSignal.abort(reason);
    this.cancelSignal.abort(reason);
    for (const agent of this.#followers ?? []) agent.#abort(reason);
  }

  /** The agent whose cancellation reaches this one: its parent, or the root if it is detached. */
  get #cancelParent(): AgentRuntime | undefined {
    return this.isDetached ? this.root : this.parent;
  }

  #follow(): void {
    const above = this.#cancelParent;
    if (above === undefined || above === this) return;
    const reason = findCancelReason(above.cancelSignal);
    if (reason !== undefined) return this.#abort(reason);
    above.#followers ??= new Set();
    above.#followers.add(this);
  }

  #markSettled(status: SettledStatus): void {
    this.#settledStatus = status;
    this.mailbox?.close(status);
  }

  /** Returns the mailbox, and creates it on first use. */
  openMailbox(): Mailbox {
    this.mailbox ??= new Mailbox(this.#settledStatus);
    return this.mailbox;
  }

  // State

  /**
   * Marks the agent as active, and returns the state from which it begins: its first state, or the
   * one in which it was paused.
   */
  activate(): PendingState | PausedState {
    const state = this.currentState;
    invariant(
      !this.isActive && (state.status === "pending" || state.status === "paused"),
      `${this.identity.agentPath} is not active and has not ended`,
    );
    this.isActive = true;
    this.settled = undefined;
    if (this.#settledStatus === "paused") this.releaseClock();
    this.#settledStatus = undefined;
    this.mailbox?.reopen();
    return state;
  }

  /** Stores the progress within a phase, for late readers of the stream. */
  noteState(state: AgentState): void {
    this.currentState = state;
    this.endedCalls = undefined;
  }

  /**
   * Stores the state after a phase. Returns a promise if the caller steps through the phases. The
   * promise resolves once the next phase is requested.
   */
  endPhase(phase: Phase, state: AgentState): Promise<void> | undefined {
    this.currentState = state;
    this.endedCalls = undefined;
    this.persistence?.onPhaseEnd(phase, state);
    return this.stepper?.step({ phase, state });
  }

  /**
   * Stores the state in which the agent settles. An agent that has ended releases its timers and
   * leaves its parent. A paused agent still receives its parent's cancellation.
   */
  settle(state: SettledState): void {
    this.isActive = false;
    this.currentState = state;
    this.settled = state;
    this.run.pieces?.forgetReply(this.identity.agentId);
    if (state.status !== "paused") return this.close();
    this.#markSettled(state.status);
    this.holdClock();
  }

  /**
   * Releases the agent's timers and removes it from the agent whose cancellation reaches it. Called
   * when the agent has ended, could not be set up, or broke before it settled. Also called when its
   * run pauses or is abandoned, possibly while the agent works.
   */
  close(): void {
    if (this.settled !== undefined) this.#markSettled(this.settled.status);
    this.time?.close();
    const above = this.#cancelParent;
    if (above !== undefined) above.#followers?.delete(this);
  }

  get hasEnded(): boolean {
    return this.settled !== undefined && this.settled.status !== "paused";
  }

  /**
   * Resolves once the agent has settled and, if it works in the background, its parent has the
   * result.
   */
  async whenSettled(): Promise<void> {
    await Promise.allSettled([this.settling]);
    await this.reporting;
  }

  // Time

  /** Starts the agent's clock. The clock is paused while the agent waits for an answer. */
  watchTime(): void {
    if (this.time !== undefined || this.hasEnded) return;
    this.time = new AgentTime(this);
    if (this.isDetached) this.time.watchAncestors();
  }

  /** Counts an effect that begins. Call `endWork` exactly once for each. */
  beginWork(): void {
    this.effectCount += 1;
    this.time?.beginWork();
  }

  endWork(): void {
    this.effectCount -= 1;
    this.time?.endWork();
  }

  /** Counts one reason to pause the clock, until `releaseClock` or the end of the agent. */
  holdClock(): void {
    this.run.watchTime();
    this.time?.holdClock();
  }

  releaseClock(): void {
    this.time?.releaseClock();
  }

  // Guards and bounds

  /**
   * The guards of the orchestrator, of every agent above from the root down, and of its own role.
   */
  get guards(): readonly NamedGuard[] {
    if (this.#guards !== undefined) return this.#guards;
    const { name, guards } = this.role;
    const above = this.parent === undefined ? this.run.settings.guards : this.parent.guards;
    this.#guards = guards.length === 0 ? above : [...above, ...assignGuardNames(name, guards)];
    return this.#guards;
  }

  /** The time limits for user code of the agent: a hook, a stop condition or a section. */
  get bounds(): TimedBounds {
    const { cancelSignal: signal, run } = this;
    const { graceMs, hookTimeoutMs: timeoutMs } = run.settings;
    return { signal, clock: run.clock, graceMs, timeoutMs };
  }

  // Events

  /**
   * Returns the ids for an event at a position of the agent, or outside its steps. For events
   * outside its executions, see `createScopeWithoutExecution`.
   */
  getScope(at: EventPosition = {}): EventScope {
    const { runId, agentId, parentAgentId, agentPath, depth, executionId } = this.identity;
    const { stepId = null, callId = null, modelCallNumber } = at;
    const scope = { runId, agentId, parentAgentId, agentPath, depth, executionId, stepId, callId };
    return modelCallNumber === undefined ? scope : { ...scope, modelCallNumber };
  }

  /**
   * Records an event of a phase, or of the wait for its lease, once. A phase that is repeated after
   * a crash does not record it again. The run counts failures and refusals.
   */
  record(body: EventBody, at?: EventPosition): void {
    if (this.persistence?.inFlight?.takeRecorded(body, at) === true) return;
    const { run, identity } = this;
    run.countProblem(identity.agentId, body);
    run.recorder.record(this.getScope(at), body);
  }

  /**
   * Records an event of an attempt at a model call or a tool call. A call that is repeated after a
   * crash is another attempt, and its events are recorded again.
   */
  recordWithinCall(body: EventBody, at: EventPosition, contents?: EventDraft["contents"]): void {
    this.run.recorder.record(this.getScope(at), body, contents);
  }

  /** Records content of the span at a position. `content` is called only if a trace contains it. */
  recordContent(at: EventPosition, content: () => SpanContent): void {
    this.run.recorder.recordContent?.(this.getScope(at), content);
  }

  /** Returns the source of the stream parts of a step. */
  toPartSource({ stepId, stepNumber }: EffectPosition): StreamPartSource {
    const { runId, agentId, agentPath } = this.identity;
    return { runId, agentId, agentPath, stepId, stepNumber };
  }

  /**
   * Runs work that belongs to a position, so that `getCorrelationIds()` returns its ids in all code
   * that the work starts.
   */
  runAt<T>(at: EventPosition, work: () => T): T {
    return runInScope(this.getScope(at), this.run.recorder, work);
  }

  // Position in the tree

  /** The name by which its parent and the parent's model refer to it. */
  get childName(): string {
    return getChildName(this.identity.agentPath);
  }

  get root(): AgentRuntime {
    return this.parent === undefined ? this : this.parent.root;
  }

  /** Yields the agent itself and the agents above it. */
  *walkUp(): Generator<AgentRuntime, void, undefined> {
    for (let at: AgentRuntime | undefined = this; at !== undefined; at = at.parent) yield at;
  }

  /**
   * Detaches the agent from its parent, which may then end first. Cancelling the root still ends
   * the agent.
   */
  detach(): void {
    const above = this.#cancelParent;
    if (above !== undefined) above.#followers?.delete(this);
    this.isDetached = true;
    this.#follow();
    this.time?.watchAncestors();
  }

  /** Yields all agents that its cancellation reaches and that have not ended, at any depth. */
  *walkActiveBelow(): Generator<AgentRuntime, void, undefined> {
    for (const agent of this.#followers ?? []) {
      yield agent;
      yield* agent.walkActiveBelow();
    }
  }

  // Subagents

  /** Its subagents, in the order of their start. */
  get children(): readonly AgentRuntime[] {
    return [...(this.#children?.values() ?? [])];
  }

  /** Returns the subagent with this name, or `undefined`. */
  findChild(childName: string): AgentRuntime | undefined {
    return this.#children?.get(childName);
  }

  /** Adds a subagent, or replaces it by the runtime that continues it. */
  addChild(child: AgentRuntime): void {
    child.parent = this;
    this.#children ??= new Map();
    this.#children.set(child.childName, child);
  }

  /** Removes a subagent that could not be set up completely. */
  removeChild(child: AgentRuntime): void {
    this.#children?.delete(child.childName);
  }

  /** True while it works beside its parent, until its report is in the parent's mailbox. */
  get isInBackground(): boolean {
    return this.reporting !== undefined && !this.isDetached;
  }

  /** Resolves once these subagents have settled and have reported to the agent. */
  async whenBackgroundSettled(childIds: readonly AgentId[]): Promise<void> {
    const children = this.children.filter(({ identity }) => childIds.includes(identity.agentId));
    await Promise.all(children.flatMap(({ reporting }) => reporting ?? []));
  }

  /** Stores that a call of the step has returned the result of this subagent to the agent. */
  noteReported(childId: AgentId, stepId: StepId | undefined): void {
    this.#reported ??= new Map();
    this.#reported.set(childId, stepId);
  }

  /** True if a call of the step has returned the result of the subagent, in this process. */
  wasReported(childId: AgentId, stepId: StepId): boolean {
    return this.#reported?.get(childId) === stepId;
  }

  /** Returns the group of subagents that a step has started, or `undefined`. */
  findGroup(stepId: StepId): SpawnGroup | undefined {
    return this.#groups?.get(stepId);
  }

  /**
   * Returns the group of subagents that a step starts, and creates it on first use. `size` is the
   * number of delegations of the reply that may still start a subagent.
   */
  ensureGroup(stepId: StepId, size: number): SpawnGroup {
    this.#groups ??= new Map();
    const { failurePolicy } = this.role.delegation;
    const group = this.#groups.get(stepId) ?? new SpawnGroup(failurePolicy, size);
    this.#groups.set(stepId, group);
    return group;
  }

  /** Number of subagents named so far, by role. */
  get ordinals(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#ordinals ?? []);
  }

  /**
   * Returns the path of the next child of this role, such as `lead/researcher#2`. Paths are never
   * reused, even if the agent is not set up.
   */
  nameChild(roleName: string): string {
    this.#ordinals ??= new Map();
    const ordinal = (this.#ordinals.get(roleName) ?? 0) + 1;
    this.#ordinals.set(roleName, ordinal);
    return `${this.identity.agentPath}/${roleName}#${ordinal}`;
  }
}

const NO_REQUESTS: readonly StopSignal[] = Object.freeze([]);
