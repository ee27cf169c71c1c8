import type { CallId } from "./ids.ts";
import { lazySchema, z } from "./lazy-schema.ts";

/**
 * What the failure of a call means for what follows. `retryable`: the model is asked for a corrected call, a bounded number of
 * times. `recoverable`: the model reads of it and continues. `fatal`: the same, but this call is not to be made again. `abortive`: nothing
 * further happens; the agent ends.
 */
export type ToolErrorSeverity = "retryable" | "recoverable" | "fatal" | "abortive";

/** A tool call that went wrong, whether or not the model recovered from it. */
export interface ToolErrorRecord {
  readonly callId: CallId;
  /** The name of the tool. */
  readonly toolName: string;
  /** From 1. */
  readonly stepNumber: number;
  /** See `ToolFailureCode`. */
  readonly code: string;
  /** What followed from it for the agent. */
  readonly severity: ToolErrorSeverity;
  /** What the model read. */
  readonly message: string;
}

export const ToolErrorSeveritySchema = lazySchema(() =>
  z.enum(["retryable", "recoverable", "fatal", "abortive"]),
);
