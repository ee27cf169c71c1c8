// The interface that an agent needs of its run. `RunRuntime` (orchestrator/tree) implements it,
// once for all agents. `Agent` is the type of an agent's runtime. This file must not import that
// type, which imports this file.

import type { CancelSignal } from "../kernel/cancel-signal.ts";
import type { Clock } from "../kernel/clock.ts";
import type { JsonValue } from "../kernel/json.ts";
import type { Throttle } from "../kernel/throttle.ts";
import type { HookSet } from "../hooks/hook-set.ts";
import type { PriceOf } from "../model/prices.ts";
import type { RetryPolicy } from "../model/retry-policy.ts";
import type { SpendLimits } from "../policies/budget.ts";
import type { MessageRetentionPolicy } from "../policies/retention-policy.ts";
import type { ShapeLimits } from "../policies/subagent-limits.ts";
import type { EventBody } from "../protocol/event.ts";
import type { AgentId, QuestionId, RunId, StepId } from "../protocol/ids.ts";
import type { Answer } from "../protocol/question.ts";
import type { ErrorRecord } from "../protocol/stop.ts";
import type { SpawnOutcome, SpawnRefusal, SpawnRequest } from "../protocol/subagent.ts";
import type { ContinueRequest, SubagentService } from "../tools/tool-context.ts";
import type { NamedGuard } from "../tools/tool-guard.ts";
import type { ToolSet } from "../tools/tool-set.ts";
import type { PendingAnswers } from "./pending-answers.ts";
import type { Persistence } from "./persistence.ts";
import type { RefusedSpawn } from "./tool-calls/call-outcome.ts";
import type { EventPosition } from "./agent-identity.ts";
import type { AgentRole } from "./agent-role.ts";
import type { ApprovalHandler } from "./approver.ts";
import type { ParentHistory } from "./effect-outcomes.ts";
import type { EventRecorder } from "../run-services/event-recorder.ts";
import type { RunLimiter } from "../run-services/run-limiter.ts";
import type { PartEmitter } from "../run-services/part-emitter.ts";
import type { RunDefinitions } from "../run-services/run-definitions.ts";
import type { OutputSchema } from "../model/model.ts";

/** Settings shared by all agents of a run. */
export interface AgentSettings {
  readonly graceMs: number;
  readonly retryPolicy: RetryPolicy;
  /** Prices of models. */
  readonly priceOf: PriceOf;
  /** Time limit for a hook, a guard, a stop condition or a processor. */
  readonly hookTimeoutMs: number;
  readonly approvals: ApprovalHandler;
  /**
   * Limits how many runs, delegations and model calls begin, and how many replies are processed, in
   * one turn of the event loop.
   */
  readonly throttle: Throttle;
  /** Guards of the orchestrator. Guards of roles run after them. */
  readonly guards: readonly NamedGuard[];
}

/** Services shared by the agents of a run. */
export interface AgentRun<Agent> {
  readonly runId: RunId;
  readonly settings: AgentSettings;
  /** Its time stamps never decrease: see `SteadyClock`. */
  readonly clock: Clock;
  readonly recorder: EventRecorder;
  readonly limiter: RunLimiter;
  readonly definitions: RunDefinitions;
  readonly supervisor: AgentSupervisor<Agent>;
  /** `undefined` if the run is not persisted. */
  readonly journal: { createPersistence(agent: Agent): Persistence } | undefined;
  readonly registry: {
    /** Returns the parts shared by all agents of a role. Created once. */
    getParts(role: AgentRole): RoleParts;
  };
  readonly tree: {
    readonly limits: ShapeLimits;
    /**
     * Counts the steps, other than this one, in which a role was started with this task, anywhere
     * in the run.
     */
    countDelegations(delegation: Delegation, stepId: StepId): number;
  };
  /** Aborted when the run is asked to pause, so that nothing waits for answers any longer. */
  readonly pauseSignal: CancelSignal;
  /**
   * The user's context for tools, hooks and other code. Passed by reference, and never frozen,
   * copied or persisted. `undefined` if none was passed.
   */
  readonly context: unknown;
  /**
   * The part of its session's history with which the root begins. `undefined` without a session.
   */
  readonly retention: MessageRetentionPolicy | undefined;
  /** The answers with which the run was resumed. `undefined` if it was not. */
  readonly answers: ReadonlyMap<QuestionId, Answer> | undefined;
  /** Receives answers from outside while an approver is asked. */
  readonly pendingAnswers: PendingAnswers;
  /** `undefined` if nothing has subscribed to stream parts yet. */
  readonly pieces: PartEmitter | undefined;
  /**
   * Counts a failure or a refusal, and ignores other events. Called once for each event, because
   * such events are always recorded.
   */
  countProblem(agentId: AgentId, body: EventBody): void;
  /**
   * Notes a failed model call. The run fails as well if the error is a mismatch with the script of
   * a scripted model.
   */
  noteFailedCall(agentPath: string, error: ErrorRecord): void;
  /** True if the clocks of the agents run. */
  readonly isTimeWatched: boolean;
  /** Starts the clocks of all agents. */
  watchTime(): void;
}

/** Parts shared by the agents of a role. */
export interface RoleParts {
  /** Tools of the role, including the delegation tools if it may delegate. */
  readonly tools: ToolSet;
  /** The compiled hooks of the orchestrator and of the role. */
  readonly hooks: HookSet;
  /**
   * The schema with which the provider constrains the typed result. `undefined` without a typed
   * result, or if the result is given by `Finish`.
   */
  readonly nativeOutputSchema: OutputSchema | undefined;
  /** As `CacheKey.role`. */
  readonly roleCacheKey: string;
  /** The role's budget, in the units of the ledger. */
  readonly spendLimits: SpendLimits;
  /** The part of the budget that subagents must leave, in the units of the ledger. */
  readonly reserve: SpendLimits;
}

/** The call of a delegation, with the history at that time. A subtask has no call. */
export interface DelegatedCall extends EventPosition {
  readonly history: ParentHistory;
  /**
   * The roles requested by the delegations of the reply, including this one. Empty for a subtask.
   */
  readonly delegatedRoles: readonly string[];
  /**
   * Index among the delegations of the call, or position of a subtask in the queue.
   *
   * @default 0
   */
  readonly nth?: number;
  /** True if no other delegation of the reply starts a subagent. */
  readonly isAlone?: boolean;
}

/** The properties that identify a delegation. Non-text parts of the task are named in its text. */
export interface Delegation {
  readonly role: string;
  readonly task: string;
}

/**
 * Operations of an agent on its subagents. Implemented in the orchestrator, once per run. No method
 * throws. A promise rejects only if a subagent could not be run until it settled.
 */
export interface AgentSupervisor<Agent> {
  spawn(parent: Agent, request: SpawnRequest, call: DelegatedCall): Promise<SpawnOutcome>;
  /** Continues a subagent that has ended. */
  continue(parent: Agent, request: ContinueRequest, call: DelegatedCall): Promise<SpawnOutcome>;
  /** Gives the place of a denied spawn back, and tells its group that no member follows. */
  noteDeniedSpawn(parent: Agent, call: DelegatedCall): void;
  /** Continues a paused subagent. */
  resume(parent: Agent, childId: AgentId, at: EventPosition): Promise<SpawnOutcome>;
  /**
   * Ends an active or paused subagent and all agents below it. If it has already ended, waits until
   * its end is recorded.
   */
  dismiss(parent: Agent, childId: AgentId): Promise<void>;
  /** Cancels the subagents that the calls of a step have started. */
  cancelStartedBy(parent: Agent, stepId: StepId): void;
  /** Detaches a background subagent from its parent. */
  detach(parent: Agent, childId: AgentId): Promise<void>;
  /**
   * Reserves a place in the group of the reply for a request that may start a subagent. Otherwise
   * records, counts and returns the refusal, so that no approver is asked. `isReviewed` is true if
   * a guard, a hook or an approver decides first. Then the places of earlier calls count as started
   * subagents.
   */
  reserveSpawn(
    parent: Agent,
    request: SpawnRequest,
    call: DelegatedCall,
    isReviewed: boolean,
  ): RefusedSpawn | undefined;
  /**
   * Records and counts that a guard, a hook, a rule, a filter or a stop forbids a delegation.
   * `undefined` if its arguments name no role and no subagent.
   */
  recordForbiddenSpawn(
    parent: Agent,
    input: JsonValue,
    refusal: SpawnRefusal,
    call: DelegatedCall,
  ): RefusedSpawn | undefined;
  /** Returns the operations of a call on the agent's subagents. */
  createService(parent: Agent, call: DelegatedCall): Omit<SubagentService, "continue">;
  /** Reactivates the subagents that worked in the background when the agent was paused. */
  reactivate(parent: Agent, childIds: readonly AgentId[]): void;
}
