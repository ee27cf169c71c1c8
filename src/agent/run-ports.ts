// What an agent needs of its run. The ports are owned here, below the tree; the runtime of the run has them, once for all its agents.

import type { AnySignal, CancelSignal } from "../kernel/cancel.ts";
import type { Clock } from "../kernel/clock.ts";
import type { JsonValue } from "../kernel/json.ts";
import type { Release } from "../kernel/semaphore.ts";
import type { Throttle } from "../kernel/throttle.ts";
import type { HookSet } from "../hooks/hook-set.ts";
import type { PriceOf } from "../model/prices.ts";
import type { RetryPolicy } from "../model/retry-policy.ts";
import type { SpendLimits } from "../policies/budget.ts";
import type { MessageRetentionPolicy } from "../policies/retention-policy.ts";
import type { SpanSource } from "../protocol/correlation.ts";
import type { EventScope, EventBody, EventDraft, EventType } from "../protocol/event.ts";
import type { AgentId, CallId, QuestionId, StepId } from "../protocol/ids.ts";
import type { Answer } from "../protocol/question.ts";
import type { SpanContent } from "../protocol/span-content.ts";
import type { FinishReason } from "../protocol/finish-reason.ts";
import type { AssistantMessage } from "../protocol/message.ts";
import type { ModelDelta, ResultBody, PieceSource, ResetReason } from "../protocol/stream-piece.ts";
import type { ErrorRecord } from "../protocol/stop.ts";
import type { SpawnOutcome, SpawnRefusal, SpawnRequest } from "../protocol/subagent.ts";
import type { ContinueRequest, SubagentService } from "../tools/tool-context.ts";
import type { NamedGuard } from "../tools/tool-guard.ts";
import type { ToolSet } from "../tools/tool-set.ts";
import type { PendingAnswers } from "./pending-answers.ts";
import type { EventPosition } from "./agent-identity.ts";
import type { AgentRole } from "./agent-role.ts";
import type { ApprovalHandler } from "./approver.ts";
import type { ParentHistory } from "./effects.ts";
import type { PhaseReport } from "./phase-report.ts";
import type { OutputSchema, ToolSpec } from "../model/model.ts";

/** What holds for all agents of a run. */
export interface AgentSettings {
  readonly graceMs: number;
  readonly retry: RetryPolicy;
  /** What models cost. */
  readonly priceOf: PriceOf;
  /** How long a hook, a guard, a stop condition or a processor may take. */
  readonly hookTimeoutMs: number;
  readonly approvals: ApprovalHandler;
  /** How many runs, delegations and model calls begin, and replies are acted upon, in one turn of the event loop. */
  readonly throttle: Throttle;
  /** The orchestrator's own; those of roles come after. */
  readonly guards: readonly NamedGuard[];
}

/** What the agents of a run share. `Agent`: the runtime of an agent. */
export interface RunPorts<Agent> {
  readonly settings: AgentSettings;
  /** Its time stamps never go back: see `SteadyClock`. */
  readonly clock: Clock;
  readonly recorder: Recorder;
  readonly limiter: Limiter;
  readonly definitions: DefinitionTable;
  readonly subagents: Subagents<Agent>;
  /** Aborted when the run is to pause: questions are waited for no longer. */
  readonly pauseSignal: CancelSignal;
  /** What the user gave with the run for tools, hooks and the like: by reference, never frozen, copied or kept. Undefined: nothing. */
  readonly context: unknown;
  /** How much of the history of its session the root begins with; undefined: it has none. */
  readonly retention: MessageRetentionPolicy | undefined;
  /** The answers with which the run was resumed. `undefined` if it was not. */
  readonly answers: ReadonlyMap<QuestionId, Answer> | undefined;
  /** Where answers are handed in while an approver is asked. */
  readonly pendingAnswers: PendingAnswers;
  /** Undefined: nobody has listened to pieces so far. */
  readonly pieces: Pieces | undefined;
  /** What the agents of a role have in common: made once for all of them. */
  partsOf(role: AgentRole): RoleParts;
  /** Counts failures and refusals: called once with each event that a phase records. */
  count(agentId: AgentId, body: EventBody): void;
  /** A model call failed: the run fails, too, if that was not in the script of the model. */
  noteFailedCall(agentPath: string, error: ErrorRecord): void;
}

/** What the agents of a role have in common. */
export interface RoleParts {
  /** Its tools, with those by which it delegates if it may. */
  readonly tools: ToolSet;
  /** The orchestrator's hooks and those of the role, compiled. */
  readonly hooks: HookSet;
  /** The schema to which their model is held; undefined: they give no typed result, or give it by `Finish`. */
  readonly output: OutputSchema | undefined;
  /** `CacheKey.role`. */
  readonly cacheKey: string;
  /** The role's budget, in the units of the ledger. */
  readonly limits: SpendLimits;
  /** The part of the budget that subagents must leave, in the units of the ledger. */
  readonly reserve: SpendLimits;
}

/** Records what happens, and runs what belongs to a position. */
export interface Recorder extends SpanSource {
  /** True if something reads such an event. */
  isHeard(type: EventType): boolean;
  /** Returns true if something reads such an event: record it then. Otherwise counts an event that nobody makes. */
  announce(type: EventType): boolean;
  /** `contents`: what was said within a span that begins and ends with the event; made only if a trace shows it. */
  record(scope: EventScope, body: EventBody, contents?: EventDraft["contents"]): void;
  /** Runs foreign code that has a span inside that. `correlation()` gives its ids to all that it begins. */
  within<T>(scope: EventScope, work: () => Promise<T>): Promise<T>;
  /** Records content of the span of a scope, which must be open; undefined unless a trace shows it. */
  readonly recordContent: ((scope: EventScope, content: () => SpanContent) => void) | undefined;
}

/** How many model calls and tool bodies run at once. */
export interface Limiter {
  /** Returns the slot of a model call, at once if one is free. `undefined` if `signal` is aborted first. */
  model(signal: AnySignal): Release | undefined | Promise<Release | undefined>;
  /** Returns the slot of a tool body in the same way. */
  tool(signal: AnySignal): Release | undefined | Promise<Release | undefined>;
}

/** The call behind a delegation, with the history that it was made in; a subtask has no call. */
export interface DelegatedCall extends EventPosition {
  readonly callId?: CallId;
  readonly history: ParentHistory;
  /** The roles that the delegations of the reply ask for, this one included; empty for a subtask. */
  readonly delegatedRoles: readonly string[];
  /** Which of the delegations of the call it is, from 0, which is the default; of a subtask: its place in the queue. */
  readonly nth?: number;
  /** No other delegation of the reply starts a subagent. */
  readonly isAlone?: boolean;
}

/** A subagent that is not started, as the event of its call says. */
export type RefusedSpawn = NonNullable<EventBody<"tool.rejected">["spawn"]>;

/** A delegation as it is distinguished from others (X21): what is no text in its task is named there. */
export interface Delegation {
  readonly role: string;
  readonly task: string;
}

/**
 * What an agent does to its subagents. Implemented above, once per run. No method throws. A promise
 * rejects only if a subagent could not be run until it settled.
 */
export interface Subagents<Agent> {
  spawn(parent: Agent, request: SpawnRequest, call: DelegatedCall): Promise<SpawnOutcome>;
  /** Continues a subagent that has ended (X10). */
  continue(parent: Agent, request: ContinueRequest, call: DelegatedCall): Promise<SpawnOutcome>;
  /** A delegation was denied: it starts no subagent (X11). */
  cancelDelegation(parent: Agent, call: DelegatedCall): void;
  /** Continues a paused subagent. */
  resume(parent: Agent, childId: AgentId, at: EventPosition): Promise<SpawnOutcome>;
  /** Ends a subagent that runs or is paused, with all below it. At once if it has ended. */
  dismiss(parent: Agent, childId: AgentId): Promise<void>;
  /** Cancels those that the calls of a step have started. */
  cancelStartedBy(parent: Agent, stepId: StepId): void;
  /** Waits until subagents in the background settle. `news`: no longer than until a message comes, or the agent must end. */
  waitForSettled(
    parent: Agent,
    childIds: readonly AgentId[],
    until: "news" | "rest",
  ): Promise<void>;
  /** Leaves a subagent in the background to the run (X9). */
  detach(parent: Agent, childId: AgentId): Promise<void>;
  /**
   * Why this request starts nothing as things stand; recorded and counted, so that the call is refused before an
   * approver is asked about it (R137). `isReviewed`: a guard, a hook or an approver decides about it first; then those ahead of it in
   * its reply count as started. Undefined: it may start a subagent.
   */
  checkSpawn(
    parent: Agent,
    request: SpawnRequest,
    call: DelegatedCall,
    isReviewed: boolean,
  ): RefusedSpawn | undefined;
  /**
   * Records and counts that a guard, a hook, a rule or a filter forbids what `SpawnSubagent` with these arguments asks for (X14). Undefined:
   * they ask for nothing that can be read.
   */
  forbid(
    parent: Agent,
    input: JsonValue,
    refusal: SpawnRefusal,
    call: DelegatedCall,
  ): RefusedSpawn | undefined;
  /** How often a role was started with this task in the run, calls of the step not counted (X21). */
  delegationsBefore(request: Delegation, stepId: StepId): number;
  /** What a call may do with the agent's subagents. */
  serviceFor(parent: Agent, call: DelegatedCall): Omit<SubagentService, "continue">;
  /** Activates again what worked in the background when the agent was paused. */
  reactivate(parent: Agent, childIds: readonly AgentId[]): void;
  /** True if one of these subagents is paused. */
  hasPaused(childIds: readonly AgentId[]): boolean;
}

/** Holds the loop between two phases until the next one is asked for. */
export interface PhaseStepper {
  step(report: PhaseReport): Promise<void>;
}

/** Emits what agents write, while they write it. Without a listener nothing is emitted of replies under way. No method throws. */
export interface Pieces {
  readonly isHeard: boolean;
  /** A piece of the reply of a step, as the model gives it. */
  take(source: PieceSource, delta: ModelDelta): void;
  /** What was emitted of the reply does not count; it is emitted anew. */
  reset(source: PieceSource, reason: ResetReason): void;
  /** The reply has come: emits what of it was not emitted. */
  arrived(source: PieceSource, message: AssistantMessage): void;
  /** The reply counts, with this message: emits what of it was not emitted. */
  end(source: PieceSource, message: AssistantMessage, finishReason: FinishReason): void;
  /** There will be no reply. */
  drop(source: PieceSource, reason: ResetReason): void;
  /** A call of the step has its result. */
  result(source: PieceSource, result: ResultBody): void;
  /** The agent has settled: what it has said is in its state. */
  settled(agentId: AgentId): void;
}

/** The texts that steps speak of, kept once for the whole run (C28). An agent adds to them and never takes any away. */
export interface DefinitionTable {
  /** Keeps a text, and gives its hash. `hash`: where that is known. */
  define(text: string, hash?: string): string;
  /** Keeps the definitions of tools, as one text; asked again with the same list it only looks up what it said. */
  defineTools(tools: readonly ToolSpec[]): DefinedTools;
  /** The text that was kept under the hash. */
  textOf(hash: string): string | undefined;
}

/** Tools as a step speaks of them. */
export interface DefinedTools {
  readonly names: readonly string[];
  readonly hash: string;
}
