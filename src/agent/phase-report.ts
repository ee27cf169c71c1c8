// What a caller that steps through a run sees of it: each phase that is over, and how the agent stands then.

import type { JsonValue } from "../kernel/json.ts";
import type { FinishReason } from "../protocol/finish-reason.ts";
import type { ExecutionId, StepId } from "../protocol/ids.ts";
import type { AssistantMessage, Message } from "../protocol/message.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { ErrorRecord, SettledStatus, StopReason, StopSignal } from "../protocol/stop.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import type { Usage } from "../protocol/usage.ts";

/** A phase that has just ended, with the state it left. The state is frozen; the loop makes new ones. */
export interface PhaseReport {
  /** The phase of a step, or the way in which the agent left the loop. */
  readonly phase:
    | "prepare"
    | "infer"
    | "evaluate"
    | "execute"
    | "incorporate"
    | "decide"
    | "paused"
    | "ended";
  /** How the agent stands between two phases. */
  readonly state: {
    /** `pending` before the execution begins. */
    readonly status: SettledStatus | "pending" | "running";
    /** Absent before the execution begins. */
    readonly executionId?: ExecutionId;
    /** Why it is paused or has ended. */
    readonly reason?: StopReason;
    /** What was said. */
    readonly conversation: { readonly messages: readonly Message[] };
    /** What was done and decided in this execution. */
    readonly log: {
      /** The completed steps, oldest first. */
      readonly steps: readonly StepRecord[];
      readonly signals: readonly StopSignal[];
      readonly errors: readonly ErrorRecord[];
      /** The typed result, once the model has given one that fits. */
      readonly output?: JsonValue | undefined;
    };
    /** What this execution consumed. */
    readonly telemetry: {
      readonly usage: Usage;
      /** Milliseconds since the epoch; undefined: it has not begun. */
      readonly startedAtMs?: number | undefined;
      /** Milliseconds since the epoch; undefined: it has not ended. */
      readonly endedAtMs?: number | undefined;
      /** Time spent waiting for a lease. */
      readonly budgetWaitMs: number;
    };
    /** The step that is open, and what it has gathered so far. */
    readonly step?:
      | {
          readonly stepId: StepId;
          /** From 1. */
          readonly number: number;
          /** Milliseconds since the epoch. */
          readonly startedAtMs: number;
          /** What the model answered; undefined: it has not yet. */
          readonly reply?:
            | { readonly message: AssistantMessage; readonly finishReason: FinishReason }
            | undefined;
          /** Calls that have a result, in call order. */
          readonly executions: readonly ToolExecution[];
          readonly usage: Usage;
          readonly error?: ErrorRecord | undefined;
        }
      | undefined;
  };
}

export type Phase = PhaseReport["phase"];
export type PhaseState = PhaseReport["state"];
