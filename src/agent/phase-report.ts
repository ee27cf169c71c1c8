// The report of a completed phase, for callers that step through a run with `run.iterate()`.

import type { JsonValue } from "../kernel/json.ts";
import type { FinishReason } from "../protocol/finish-reason.ts";
import type { ExecutionId, StepId } from "../protocol/ids.ts";
import type { AssistantMessage, Message } from "../protocol/message.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { ErrorRecord, SettledStatus, StopReason, StopSignal } from "../protocol/stop.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import type { Usage } from "../protocol/usage.ts";

/**
 * A completed phase of the agent loop, with the state after it. The state is frozen.
 * `run.iterate()` yields one after each phase.
 *
 * @example
 * ```ts
 * for await (const { phase, state } of run.iterate())
 *   console.log(phase, state.status, `${state.log.steps.length} steps`);
 * ```
 */
export interface PhaseReport {
  /**
   * The completed phase of a step, or `"paused"` or `"ended"` when the agent has left the loop.
   *
   * 1. `"prepare"`: the request was built, and its tokens were reserved from the budget.
   * 2. `"infer"`: the model replied.
   * 3. `"evaluate"`: the tool calls of the reply were checked against the budget.
   * 4. `"execute"`: the tool calls were executed. Absent for a reply without calls.
   * 5. `"applyToolResults"`: the results were added to the history.
   * 6. `"decide"`: the step was completed, and stop conditions were checked.
   */
  readonly phase:
    | "prepare"
    | "infer"
    | "evaluate"
    | "execute"
    | "applyToolResults"
    | "decide"
    | "paused"
    | "ended";
  /** The state of the agent between two phases. */
  readonly state: {
    /** Status of the agent. `"pending"` before the execution begins. */
    readonly status: SettledStatus | "pending" | "running";
    /** The current execution. Absent before the execution begins. */
    readonly executionId?: ExecutionId;
    /** The reason of a pause or an end. Absent while the agent runs. */
    readonly reason?: StopReason;
    /** The history of the agent. */
    readonly conversation: {
      /** Messages of the history, oldest first, including the instructions. */
      readonly messages: readonly Message[];
    };
    /** Records of this execution. */
    readonly log: {
      /** Completed steps, oldest first. */
      readonly steps: readonly StepRecord[];
      /** Stop signals in the order of their arrival. */
      readonly signals: readonly StopSignal[];
      /** Errors of the agent, oldest first. */
      readonly errors: readonly ErrorRecord[];
      /** The typed result. `undefined` until the model has given a valid one. */
      readonly output?: JsonValue | undefined;
    };
    /** Consumption and times of this execution. */
    readonly telemetry: {
      /** Consumption of the agent itself, without its subagents. */
      readonly usage: Usage;
      /** Start in milliseconds since the epoch. `undefined` before the execution begins. */
      readonly startedAtMs?: number | undefined;
      /** End in milliseconds since the epoch. `undefined` until the execution has ended. */
      readonly endedAtMs?: number | undefined;
      /** Milliseconds spent waiting for budget that other calls had reserved. */
      readonly budgetWaitMs: number;
    };
    /** The open step. `undefined` between two steps. */
    readonly step?:
      | {
          /** The id of the step. */
          readonly stepId: StepId;
          /** The number of the step, counted from 1. */
          readonly number: number;
          /** Start of the step in milliseconds since the epoch. */
          readonly startedAtMs: number;
          /** The model's reply. `undefined` until it has arrived. */
          readonly reply?:
            | {
                /** The text of the reply, with its tool calls. */
                readonly message: AssistantMessage;
                /** The reason for which the reply ended. */
                readonly finishReason: FinishReason;
              }
            | undefined;
          /** Tool calls that have a result, in the order of the calls. */
          readonly executions: readonly ToolExecution[];
          /** Consumption of the step so far. */
          readonly usage: Usage;
          /** The error that ended the step. `undefined` if there was none. */
          readonly error?: ErrorRecord | undefined;
        }
      | undefined;
  };
}

/** A phase of the agent loop, or the way in which the agent left it. */
export type Phase = PhaseReport["phase"];
/** The state of an agent between two phases. */
export type PhaseState = PhaseReport["state"];
