import { z } from "zod";

import { CallIdSchema } from "./ids.ts";

export const ToolErrorSeveritySchema = z.enum(["retryable", "recoverable", "fatal", "abortive"]);
/**
 * What the failure of a call means for what follows (R159). `retryable`: the model is asked for a corrected call, a bounded number of
 * times. `recoverable`: the model reads of it and continues. `fatal`: the same, but this call is not to be made again. `abortive`: nothing
 * further happens; the agent ends.
 */
export type ToolErrorSeverity = z.infer<typeof ToolErrorSeveritySchema>;

export const ToolErrorRecordSchema = z.strictObject({
  callId: CallIdSchema,
  toolName: z.string(),
  /** From 1. */
  stepNumber: z.int().positive(),
  /** See `ToolFailureCode`. */
  code: z.string(),
  severity: ToolErrorSeveritySchema,
  /** What the model read. */
  message: z.string(),
});
/** A tool call that went wrong, whether or not the model recovered from it (R168). */
export type ToolErrorRecord = Readonly<z.infer<typeof ToolErrorRecordSchema>>;
