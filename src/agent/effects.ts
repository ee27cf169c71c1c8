// What an agent waits for, and what that results in: a lease, a model call, a tool call, code of the user's. Each is a plain promise that never
// rejects: failures are data. Where the run is kept, each has a name by its position, and what it came to is known by that (durability/in-flight.ts).

import type { ModelReply } from "../model/model.ts";
import type { Message, ToolCall } from "../protocol/message.ts";
import type { Answer } from "../protocol/question.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { TimeSpan } from "../protocol/step-timing.ts";
import type { ErrorRecord } from "../protocol/stop.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import type { ModelUsage, Usage } from "../protocol/usage.ts";
import type { BoundCall } from "../tools/bind-call.ts";
import type { EffectiveSettings } from "../tools/tool-settings.ts";
import type { Deferral } from "./agent-state.ts";
import type { BudgetRefusal } from "./account-view.ts";

/** The history of an agent so far. Its subagents are shown a part of it. */
export interface ParentHistory {
  readonly messages: readonly Message[];
  /** The completed steps of this execution, oldest first. */
  readonly steps: readonly StepRecord[];
}

/** A call that was checked and admitted, or the reason why it was not. */
export interface PlannedCall {
  readonly call: ToolCall;
  /** From 0, in the order of the reply. */
  readonly index: number;
  readonly bound: BoundCall;
  /** The hook before it that denied it, and why: one more deny among the guards (C43). */
  readonly denial: { readonly by: string; readonly reason: string } | undefined;
  /** The arguments as hooks left them. */
  readonly argumentsText: string;
  readonly settings: EffectiveSettings;
  /** How often in a row the model was asked for a corrected call of this tool, before this reply. */
  readonly retryCount: number;
  /** How often in a row the very same call was made before. */
  readonly identicalCalls: number;
  /** The roles that the delegations of the reply ask for; empty for a call that delegates nothing. */
  readonly delegatedRoles: readonly string[];
  /** At the time of the call. */
  readonly history: ParentHistory;
  /** What it waited for when the run was paused. */
  readonly deferral: Deferral | undefined;
  /** The answer to its question. */
  readonly answer: Answer | undefined;
  /** Called with its end as soon as that is known: before its slot is free, and before anything else of the reply begins. */
  readonly onEnd: (end: CallEnd) => void;
}

/** A call with its result. */
export type ExecutedCall = Timed & {
  readonly type: "executed";
  readonly execution: ToolExecution;
  /** True if its result was cut, and is to be summarised instead. */
  readonly isToSummarize: boolean;
  /** Set when a hook after the call broke: the execution fails. */
  readonly failure?: ErrorRecord;
};

/** A call with its result, or one that waits for an answer from outside. */
export type CallEnd =
  | ExecutedCall
  | (Timed & { readonly type: "deferred"; readonly deferral: Deferral });

/** What the time of an effect went into; left out: it took none, or waited. */
interface Timed {
  readonly spans?: readonly TimeSpan[];
}

/** What a model call came to, and what it has consumed. */
export type InferOutcome = Timed & {
  readonly usage: Usage;
  /** Part of `usage`: of other models of a fallback than the first. Left out: none was asked. */
  readonly otherModels?: readonly ModelUsage[];
} & (
    | { readonly type: "replied"; readonly reply: ModelReply }
    | { readonly type: "failed"; readonly error: ErrorRecord; readonly isRetryable: boolean }
    /** A further attempt was not paid for: no limit on the path leaves room for it. */
    | { readonly type: "refused"; readonly refusal: BudgetRefusal }
    /** The agent had to end. */
    | { readonly type: "cancelled" }
  );

/**
 * What the user's code said. `failed`: it threw, rejected or did not answer in time. `cancelled`: it did so because the agent had
 * to end.
 */
export type Consulted<T> =
  | { readonly type: "returned"; readonly value: T }
  | { readonly type: "cancelled" }
  | { readonly type: "failed"; readonly error: ErrorRecord };
