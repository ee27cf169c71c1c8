// Status and reason: the two axes of the end of an execution. A signal requests a stop; the reason
// is that of the winning signal.

import type { JsonObject } from "../kernel/json.ts";
import type { BudgetAxis } from "./account.ts";
import { JsonObjectSchema } from "./json-value.ts";
import { lazyObject, lazySchema, z } from "./lazy-schema.ts";

/**
 * Final status of an execution.
 *
 * - `completed`: the agent gave its answer.
 * - `stopped`: a limit, a stop condition or `requestStop` ended it before its answer.
 * - `failed`: an error ended it.
 * - `cancelled`: `cancel`, or the end of its parent, ended it.
 *
 * @example
 * ```ts
 * for await (const event of run.events())
 *   if (event.type === "agent.ended" && event.status === "failed")
 *     console.error(event.agentPath, event.error?.message);
 * ```
 */
export type TerminalStatus = "completed" | "stopped" | "failed" | "cancelled";
/**
 * Status of an execution or a run that is not running: a terminal status, or `paused`.
 *
 * @example
 * ```ts
 * const isFinal = (status: SettledStatus): boolean => status !== "paused";
 * console.log(isFinal(result.status));
 * ```
 */
export type SettledStatus = TerminalStatus | "paused";
/**
 * Status of an execution: pending, then running, possibly paused and running again, then one of the
 * four terminal statuses.
 */
export type Status = SettledStatus | "pending" | "running";

/**
 * Reason of a pause: a question is open (`input_required`), or `requestPause` was called
 * (`pause_requested`).
 *
 * @example
 * ```ts
 * if (result.status === "paused" && result.reason.code === "input_required")
 *   console.log(`${result.questions.length} questions are open.`);
 * ```
 */
export type PauseCode = "input_required" | "pause_requested";
export const PAUSE_CODES = [
  "input_required",
  "pause_requested",
] as const satisfies readonly PauseCode[];

/**
 * Built-in reason code of an end. When several signals are raised, the first in this list wins.
 *
 * - Status `failed`: `error`.
 * - Status `cancelled`: `cancelled`.
 * - Status `completed`: `completed`.
 * - Status `stopped`, by the budget: `step_limit`, `token_limit`, `time_limit`, `cost_limit`,
 *   `tool_call_limit`.
 * - Status `stopped`, by failed or denied calls: `retry_limit`, `error_budget`, `blocked`.
 * - Status `stopped`, by the model, whose reply was cut off, filtered or declined, or by a
 *   `hasFinishReason` condition: `finish_reason`.
 * - Status `stopped`, by a request, a hook or a condition: `stop_requested`, `input_refused`,
 *   `tool_called`, `step_count`.
 *
 * A custom stop condition may declare any other code. It ranks between `blocked` and
 * `finish_reason`.
 *
 * @example
 * ```ts
 * if (result.reason.code === "cost_limit") console.log("Grant more budget:", result.reason.data);
 * ```
 */
export type StopCode =
  /** An error ended the agent. */
  | "error"
  /** The caller or a hook called `requestStop`. */
  | "stop_requested"
  /** The agent was cancelled. */
  | "cancelled"
  /** A `userInput` hook refused the task. */
  | "input_refused"
  /** The budget of `steps` is used up. */
  | "step_limit"
  /** A token budget is used up. */
  | "token_limit"
  /** `timeMs` or `deadlineAtMs` has passed. */
  | "time_limit"
  /** The budget of `costUsd` is used up. */
  | "cost_limit"
  /** The budget of `toolCalls` is used up. */
  | "tool_call_limit"
  /** A call still failed after all its corrections, and the `errorPolicy` stops the agent. */
  | "retry_limit"
  /** The `errorBudget` of the role is used up. */
  | "error_budget"
  /** A guard or a hook denied a call, and the `errorPolicy` stops the agent. */
  | "blocked"
  /** A `hasToolCall` stop condition matched. */
  | "tool_called"
  /** An `isStepCount` stop condition matched. */
  | "step_count"
  /** The reply was cut off, filtered or declined, or a `hasFinishReason` stop condition matched. */
  | "finish_reason"
  /** The agent gave its answer. */
  | "completed";
/** List of all values of `StopCode`, highest rank first. */
export const STOP_CODES = [
  "error",
  "stop_requested",
  "cancelled",
  "input_refused",
  "step_limit",
  "token_limit",
  "time_limit",
  "cost_limit",
  "tool_call_limit",
  "retry_limit",
  "error_budget",
  "blocked",
  "tool_called",
  "step_count",
  "finish_reason",
  "completed",
] as const satisfies readonly StopCode[];

/** The codes of the reasons with which an execution stops when an axis refuses a call. */
export const STOP_CODES_BY_AXIS: Readonly<Record<BudgetAxis, StopCode>> = {
  steps: "step_limit",
  costUsd: "cost_limit",
  toolCalls: "tool_call_limit",
  timeMs: "time_limit",
  totalTokens: "token_limit",
  inputTokens: "token_limit",
  cachedInputTokens: "token_limit",
  outputTokens: "token_limit",
};
/** The codes of the reasons with which a budget stops an execution. */
export const BUDGET_STOP_CODES: ReadonlySet<string> = new Set(Object.values(STOP_CODES_BY_AXIS));

/**
 * Reason why an execution ended or paused.
 *
 * @example
 * ```ts
 * const { code, message, data } = result.reason;
 * console.log(`${code}: ${message}`, data);
 * ```
 */
export interface StopReason<out Code extends string = string> {
  /**
   * Code to match on: a {@link StopCode}, a {@link PauseCode}, or the code of a custom stop
   * condition.
   */
  readonly code: Code;
  /** Explanation for people. */
  readonly message: string;
  /** Details by name, such as `maximum` and `current`. */
  readonly data: JsonObject;
}

/**
 * Request to stop an agent. The agent ends with the highest-ranking of all its signals.
 *
 * @example
 * ```ts
 * for (const { source, reason, name } of result.signals)
 *   console.log(source, name ?? "-", reason.code, reason.message);
 * ```
 */
export interface StopSignal {
  /** Component that raised the signal. */
  readonly source: "budget" | "caller" | "hook" | "loop" | "model" | "stop_condition" | "tool";
  /** Reason that the signal gives. */
  readonly reason: StopReason;
  /** Name of the stop condition, hook or guard that raised the signal. */
  readonly name?: string | undefined;
  /**
   * True if the signal only records that a reply exceeded a budget limit. Such a signal stops
   * nothing.
   */
  readonly isOvershoot?: true;
}

/**
 * Error as plain data, as results and events contain it.
 *
 * @example
 * ```ts
 * if (result.status === "failed")
 *   for (const { code, message } of result.errors) console.error(`${code}: ${message}`);
 * ```
 */
export interface ErrorRecord {
  /** Code to match on: an `ErrorCode`, or the name of an error from outside espalier. */
  readonly code: string;
  /** Explanation with the remedy. */
  readonly message: string;
  /** Details by name. */
  readonly data: JsonObject;
}

export const TerminalStatusSchema = lazySchema(() =>
  z.enum(["completed", "stopped", "failed", "cancelled"]),
);

export const StopReasonSchema = lazyObject(() => ({
  code: z.string().min(1),
  message: z.string(),
  data: JsonObjectSchema().default({}),
})) satisfies () => z.ZodType<StopReason>;

export const StopSignalSchema = lazyObject(() => ({
  source: z.enum(["budget", "caller", "hook", "loop", "model", "stop_condition", "tool"]),
  reason: StopReasonSchema(),
  name: z.string().optional(),
  isOvershoot: z.literal(true).exactOptional(),
})) satisfies () => z.ZodType<StopSignal>;

export const ErrorRecordSchema = lazyObject(() => ({
  code: z.string(),
  message: z.string(),
  data: JsonObjectSchema(),
})) satisfies () => z.ZodType<ErrorRecord>;
