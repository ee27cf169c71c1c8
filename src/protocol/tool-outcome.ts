import { z } from "zod";

import { JsonObjectSchema } from "./json-value.ts";
import { ToolCallSchema } from "./message.ts";
import { SpawnRequestSchema } from "./subagent.ts";

export const ToolOutcomeTypeSchema = z.enum([
  "succeeded",
  "failed",
  "refused",
  "not_executed",
  "cancelled",
]);
/**
 * How a tool call ended. `failed`: it ran, or could not be understood, and the model is told why. `refused`: policy forbade it.
 * `not_executed`: the agent stopped first. `cancelled`: it was told to end; its late result, if any, is discarded.
 */
export type ToolOutcomeType = z.infer<typeof ToolOutcomeTypeSchema>;

export const ToolExecutionSchema = z.strictObject({
  call: ToolCallSchema,
  type: ToolOutcomeTypeSchema,
  /** What the model is told. */
  text: z.string(),
  /** Set unless it succeeded: `unknown_tool`, `invalid_json`, `invalid_arguments`, `tool_error`, a refusal code, … */
  errorCode: z.string().optional(),
  /** What hooks noted about the call (R82). */
  metadata: JsonObjectSchema.optional(),
  /** Subtasks that the tool queued: worked off before the next model call (R13). */
  subtasks: z.array(SpawnRequestSchema).readonly().optional(),
  startedAtMs: z.number(),
  endedAtMs: z.number(),
});
/** One tool call with its outcome: exactly one for every call in a history (L3). */
export type ToolExecution = Readonly<z.infer<typeof ToolExecutionSchema>>;
