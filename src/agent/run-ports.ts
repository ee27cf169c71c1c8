// What an agent needs of its run. `RunRuntime` (orchestrator/tree) has it, once for all its agents.
// `Agent` is the runtime of an agent, which this file must not import: that one imports it.

import type { CancelSignal } from "../kernel/cancel.ts";
import type { Clock } from "../kernel/clock.ts";
import type { JsonValue } from "../kernel/json.ts";
import type { Throttle } from "../kernel/throttle.ts";
import type { HookSet } from "../hooks/hook-set.ts";
import type { PriceOf } from "../model/prices.ts";
import type { RetryPolicy } from "../model/retry-policy.ts";
import type { SpendLimits } from "../policies/budget.ts";
import type { MessageRetentionPolicy } from "../policies/retention-policy.ts";
import type { TreeShape } from "../policies/subagent-limits.ts";
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
import type { ParentHistory } from "./effects.ts";
import type { EventRecorder } from "../run-services/event-recorder.ts";
import type { RunLimiter } from "../run-services/limiter.ts";
import type { LivePieces } from "../run-services/live-pieces.ts";
import type { RunDefinitions } from "../run-services/run-definitions.ts";
import type { OutputSchema } from "../model/model.ts";

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

/** What the agents of a run share. */
export interface AgentRun<Agent> {
  readonly runId: RunId;
  readonly settings: AgentSettings;
  /** Its time stamps never go back: see `SteadyClock`. */
  readonly clock: Clock;
  readonly recorder: EventRecorder;
  readonly limiter: RunLimiter;
  readonly definitions: RunDefinitions;
  readonly supervisor: AgentSupervisor<Agent>;
  /** Undefined: the run is kept nowhere. */
  readonly journal: { persistenceOf(agent: Agent): Persistence } | undefined;
  readonly registry: {
    /** What the agents of a role have in common: made once for all of them. */
    partsOf(role: AgentRole): RoleParts;
  };
  readonly tree: {
    readonly limits: TreeShape;
    /** In how many steps other than this one a role was started with this task, anywhere in the run. */
    delegationsBefore(delegation: Delegation, stepId: StepId): number;
  };
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
  readonly pieces: LivePieces | undefined;
  /** Counts a failure or a refusal, and no other event. Called once for each; these are recorded unconditionally. */
  countProblem(agentId: AgentId, body: EventBody): void;
  /** A model call failed: the run fails, too, if that was not in the script of the model. */
  noteFailedCall(agentPath: string, error: ErrorRecord): void;
  /** The clocks of its agents run. */
  readonly isTimeWatched: boolean;
  /** Starts the clocks of all its agents. */
  watchTime(): void;
}

/** What the agents of a role have in common. */
export interface RoleParts {
  /** Its tools, with those by which it delegates if it may. */
  readonly tools: ToolSet;
  /** The orchestrator's hooks and those of the role, compiled. */
  readonly hooks: HookSet;
  /** The schema to which the provider holds their result; undefined: they give no typed result, or give it by `Finish`. */
  readonly nativeOutputSchema: OutputSchema | undefined;
  /** `CacheKey.role`. */
  readonly roleCacheKey: string;
  /** The role's budget, in the units of the ledger. */
  readonly spendLimits: SpendLimits;
  /** The part of the budget that subagents must leave, in the units of the ledger. */
  readonly keptForSelf: SpendLimits;
}

/** The call behind a delegation, with the history that it was made in; a subtask has no call. */
export interface DelegatedCall extends EventPosition {
  readonly history: ParentHistory;
  /** The roles that the delegations of the reply ask for, this one included; empty for a subtask. */
  readonly delegatedRoles: readonly string[];
  /** Which of the delegations of the call it is, from 0, which is the default; of a subtask: its place in the queue. */
  readonly nth?: number;
  /** No other delegation of the reply starts a subagent. */
  readonly isAlone?: boolean;
}

/** A delegation as it is distinguished from others: what is no text in its task is named there. */
export interface Delegation {
  readonly role: string;
  readonly task: string;
}

/**
 * What an agent does to its subagents. Implemented above, once per run. No method throws. A promise
 * rejects only if a subagent could not be run until it settled.
 */
export interface AgentSupervisor<Agent> {
  spawn(parent: Agent, request: SpawnRequest, call: DelegatedCall): Promise<SpawnOutcome>;
  /** Continues a subagent that has ended. */
  continue(parent: Agent, request: ContinueRequest, call: DelegatedCall): Promise<SpawnOutcome>;
  /** A delegation was denied: it starts no subagent. */
  cancelDelegation(parent: Agent, call: DelegatedCall): void;
  /** Continues a paused subagent. */
  resume(parent: Agent, childId: AgentId, at: EventPosition): Promise<SpawnOutcome>;
  /** Ends a subagent that runs or is paused, with all below it. If it has ended, waits until its end is recorded. */
  dismiss(parent: Agent, childId: AgentId): Promise<void>;
  /** Cancels those that the calls of a step have started. */
  cancelStartedBy(parent: Agent, stepId: StepId): void;
  /** Leaves a subagent in the background to the run. */
  detach(parent: Agent, childId: AgentId): Promise<void>;
  /**
   * Why this request starts nothing as things stand; recorded and counted, so that the call is refused before an
   * approver is asked about it. `isReviewed`: a guard, a hook or an approver decides about it first; then
   * those ahead of it in its reply count as started. Undefined: it may start a subagent, and its place in the
   * group of its reply is reserved.
   */
  refuseSpawnEarly(
    parent: Agent,
    request: SpawnRequest,
    call: DelegatedCall,
    isReviewed: boolean,
  ): RefusedSpawn | undefined;
  /**
   * Records and counts that a guard, a hook, a rule or a filter forbids what `SpawnSubagent` with these arguments asks for. Undefined:
   * they ask for nothing that can be read.
   */
  recordForbiddenSpawn(
    parent: Agent,
    input: JsonValue,
    refusal: SpawnRefusal,
    call: DelegatedCall,
  ): RefusedSpawn | undefined;
  /** What a call may do with the agent's subagents. */
  serviceFor(parent: Agent, call: DelegatedCall): Omit<SubagentService, "continue">;
  /** Activates again what worked in the background when the agent was paused. */
  reactivate(parent: Agent, childIds: readonly AgentId[]): void;
}
