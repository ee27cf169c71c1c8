// Status and reason: the two axes on which an execution ends (C14). A signal is a wish to stop; the reason is the winning signal.

import { z } from "zod";

import { JsonObjectSchema } from "./json-value.ts";

const StatusSchema = z.enum([
  "pending",
  "running",
  "paused",
  "completed",
  "stopped",
  "failed",
  "cancelled",
]);
/** Life of an execution: pending before its first step, running, perhaps paused and running again, then one of the four terminal ones. */
export type Status = z.infer<typeof StatusSchema>;

export const TerminalStatusSchema = StatusSchema.extract([
  "completed",
  "stopped",
  "failed",
  "cancelled",
]);
/** How an execution ended. */
export type TerminalStatus = z.infer<typeof TerminalStatusSchema>;
/** How an execution, or a run, came to rest: at its end, or paused until it is resumed. */
export type RestStatus = TerminalStatus | "paused";

/** Reasons for a pause (R26). */
export const PAUSE_CODES = ["answers_needed", "pause_requested"] as const;
/** Why an execution is paused: a question about a call is open, or the caller asked for it. */
export type PauseCode = (typeof PAUSE_CODES)[number];

/**
 * Reasons that espalier itself gives, most important first: when several signals are raised, the earliest in this list wins (C3).
 * A stop condition of your own may declare any other code; it ranks between `blocked` and `finish_reason`.
 */
export const STOP_CODES = [
  "error",
  "stop_requested",
  "cancelled",
  "input_refused",
  "steps_limit",
  "token_limit",
  "time_limit",
  "cost_limit",
  "tool_calls_limit",
  "retry_limit",
  "error_budget",
  "blocked",
  "tool_called",
  "finish_reason",
  "completed",
] as const;
/** A reason that espalier itself gives. */
export type StopCode = (typeof STOP_CODES)[number];

export const StopReasonSchema = z.strictObject({
  /** One of {@link STOP_CODES}, a {@link PAUSE_CODES} of a pause, or the code that a stop condition declared. */
  code: z.string().min(1),
  message: z.string(),
  /** The facts behind it, such as `maximum` and `current`. */
  data: JsonObjectSchema,
});
/** Why an execution ended, or why it is paused. */
export type StopReason = Readonly<z.infer<typeof StopReasonSchema>>;

export const StopSignalSchema = z.strictObject({
  /** Who raised it. */
  source: z.enum(["budget", "caller", "hook", "loop", "model", "stop_condition", "tool"]),
  reason: StopReasonSchema,
  /** The name of the stop condition, the hook or the guard behind it (R87). */
  name: z.string().optional(),
  /** Set if it only records that a reply went beyond a limit of the budget: it stops nothing, and is never the reason (C36). */
  isOvershoot: z.literal(true).exactOptional(),
});
/** A typed wish to stop. All are kept; the loop reports the highest. */
export type StopSignal = Readonly<z.infer<typeof StopSignalSchema>>;

export const ErrorRecordSchema = z.strictObject({
  code: z.string(),
  message: z.string(),
  data: JsonObjectSchema,
});
/** An error as plain data, as results and events hold it. */
export type ErrorRecord = Readonly<z.infer<typeof ErrorRecordSchema>>;
