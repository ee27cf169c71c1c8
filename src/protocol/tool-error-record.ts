import type { CallId } from "./ids.ts";
import type { ToolFailureCode } from "./tool-failure-code.ts";
import { lazySchema, z } from "./lazy-schema.ts";

/**
 * Consequence of a failed tool call.
 *
 * - `retryable`: the model is asked for a corrected call, a limited number of times.
 * - `recoverable`: the model reads the error and continues.
 * - `fatal`: the model reads the error, and must not repeat the call.
 * - `abortive`: the agent ends.
 *
 * @example
 * ```ts
 * for await (const event of run.events())
 *   if (event.type === "tool.ended" && event.severity === "abortive")
 *     console.error(`${event.toolName} ended ${event.agentPath}: ${event.message ?? ""}`);
 * ```
 */
export type ToolErrorSeverity = "retryable" | "recoverable" | "fatal" | "abortive";

/**
 * Failed tool call, whether or not the model recovered.
 *
 * @example
 * ```ts
 * for (const { agentPath, toolErrors } of result.agents)
 *   for (const { toolName, code, message } of toolErrors)
 *     console.warn(agentPath, toolName, code, message);
 * ```
 */
export interface ToolErrorRecord {
  /** Id of the tool call. */
  readonly callId: CallId;
  /** Tool name. */
  readonly toolName: string;
  /** Number of the step in its execution, from 1. */
  readonly stepNumber: number;
  /** Failure code. */
  readonly code: ToolFailureCode;
  /** Consequence for the agent. */
  readonly severity: ToolErrorSeverity;
  /** Message that the model read. */
  readonly message: string;
}

export const ToolErrorSeveritySchema = lazySchema(() =>
  z.enum(["retryable", "recoverable", "fatal", "abortive"]),
);
