// Status and reason: the two axes on which an execution ends (C14). A signal is a request to stop; the reason is the winning signal.

import type { JsonObject } from "../kernel/json.ts";
import { JsonObjectSchema } from "./json-value.ts";
import { lazyObject, lazySchema, z } from "./lazy-schema.ts";

/** How an execution ended. */
export type TerminalStatus = "completed" | "stopped" | "failed" | "cancelled";
/** How an execution, or a run, came to rest: at its end, or paused until it is resumed. */
export type SettledStatus = TerminalStatus | "paused";
/** Life of an execution: pending before it begins, running, perhaps paused and running again, then one of the four terminal ones. */
export type Status = SettledStatus | "pending" | "running";

/** Why an execution is paused: a question about a call is open (`answers_needed`), or the caller asked for it (`pause_requested`). */
export type PauseCode = "answers_needed" | "pause_requested";
export const PAUSE_CODES = [
  "answers_needed",
  "pause_requested",
] as const satisfies readonly PauseCode[];

/**
 * A reason that espalier itself gives, the most important first: `error`, `stop_requested`, `cancelled`, `input_refused`, `step_limit`,
 * `token_limit`, `time_limit`, `cost_limit`, `tool_call_limit`, `retry_limit`, `error_budget`, `blocked`, `tool_called`, `finish_reason` or
 * `completed`. When several signals are raised, the earliest in this list wins. A stop condition of your own may declare any other code; it
 * ranks between "blocked" and "finish_reason".
 */
export type StopCode =
  | "error"
  | "stop_requested"
  | "cancelled"
  | "input_refused"
  | "step_limit"
  | "token_limit"
  | "time_limit"
  | "cost_limit"
  | "tool_call_limit"
  | "retry_limit"
  | "error_budget"
  | "blocked"
  | "tool_called"
  | "finish_reason"
  | "completed";
/** All values of `StopCode`, in their order. */
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
  "finish_reason",
  "completed",
] as const satisfies readonly StopCode[];

/** Why an execution ended, or why it is paused. */
export interface StopReason<out Code extends string = string> {
  /** A {@link StopCode}, of a pause a {@link PauseCode}, or the code that a stop condition declared. */
  readonly code: Code;
  /** The same in words. */
  readonly message: string;
  /** The facts behind it, such as `maximum` and `current`. */
  readonly data: JsonObject;
}

/** A typed request to stop. All are kept; the loop reports the highest. */
export interface StopSignal {
  /** What raised it. */
  readonly source: "budget" | "caller" | "hook" | "loop" | "model" | "stop_condition" | "tool";
  /** What it gives as the reason of the end. */
  readonly reason: StopReason;
  /** The name of the stop condition, the hook or the guard behind it. */
  readonly name?: string | undefined;
  /** Set if it only records that a reply went beyond a limit of the budget: it stops nothing, and is never the reason. */
  readonly isOvershoot?: true;
}

/** An error as plain data, as results and events hold it. */
export interface ErrorRecord {
  /** An `ErrorCode`, or the name of an error that is none of ours. */
  readonly code: string;
  /** What was expected, what came, what to do. */
  readonly message: string;
  /** The same as plain values. */
  readonly data: JsonObject;
}

export const TerminalStatusSchema = lazySchema(() =>
  z.enum(["completed", "stopped", "failed", "cancelled"]),
);

export const StopReasonSchema = lazyObject(() => ({
  code: z.string().min(1),
  message: z.string(),
  data: JsonObjectSchema(),
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
