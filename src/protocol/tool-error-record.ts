import type { CallId } from "./ids.ts";
import {
  ToolErrorSeveritySchema,
  ToolFailureCodeSchema,
  type ToolErrorSeverity,
  type ToolFailureCode,
} from "./tool-failure.ts";
import { lazyObject, z } from "./lazy-schema.ts";

/**
 * Error of a tool call that did not succeed, as events contain it.
 *
 * @example
 * ```ts
 * for await (const event of run.events())
 *   if (event.type === "tool.ended" && event.error !== undefined)
 *     console.warn(event.toolName, event.error.code, event.error.message);
 * ```
 */
export interface ToolFailure {
  /** Failure code. */
  readonly code: ToolFailureCode;
  /** Explanation without secrets, in the tool's own words if it has any. At most 500 characters. */
  readonly message: string;
  /** Consequence for the agent. */
  readonly severity: ToolErrorSeverity;
  /** Class name of the error that the tool threw, for example `TypeError`. */
  readonly name?: string;
}

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

export const ToolFailureSchema = lazyObject(() => ({
  code: ToolFailureCodeSchema(),
  message: z.string(),
  severity: ToolErrorSeveritySchema(),
  name: z.string().exactOptional(),
})) satisfies () => z.ZodType<ToolFailure>;
