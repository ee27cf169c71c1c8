import { z } from "zod";

import { AttachmentSchema } from "./attachment.ts";
import { AgentIdSchema } from "./ids.ts";
import { JsonObjectSchema, JsonValueSchema } from "./json-value.ts";
import { ToolCallSchema } from "./message.ts";
import { SpawnRequestSchema } from "./subagent.ts";
import { ToolErrorSeveritySchema } from "./tool-error-record.ts";

export const ToolOutcomeTypeSchema = z.enum([
  "succeeded",
  "retry",
  "failed",
  "refused",
  "not_executed",
  "cancelled",
]);
/**
 * How a tool call ended (R108). `retry`: the model is asked for a corrected call. `failed`: it came to nothing, and the model reads
 * why. `refused`: policy forbade it. `not_executed`: the agent stopped first. `cancelled`: it had to end; its late result, if any,
 * is discarded.
 */
export type ToolOutcomeType = z.infer<typeof ToolOutcomeTypeSchema>;

export const ToolExecutionSchema = z.strictObject({
  /** As the model wrote it. */
  call: ToolCallSchema,
  /**
   * The arguments as the tool got them: after hooks, an answer that changed them, and coercion, defaults and transforms of the schema; what
   * a schema makes no JSON of, before that. Absent: the call was not run, or an earlier release wrote this.
   */
  arguments: JsonValueSchema.exactOptional(),
  type: ToolOutcomeTypeSchema,
  /** What the model reads. */
  text: z.string(),
  /** The whole of a result that was too long for the model (R111). */
  fullText: z.string().optional(),
  /** The result as data, if the tool gave it by `toolResult`. */
  structured: JsonValueSchema.optional(),
  /** Images, sounds and files that came with the result; the model reads of them in `text`. */
  attachments: z.array(AttachmentSchema).readonly().optional(),
  /** Set unless it succeeded: `unknown_tool`, `invalid_json`, `invalid_arguments`, `tool_error`, a refusal code, … */
  errorCode: z.string().optional(),
  /** What it failed with, where `errorCode` is `retry_limit`. */
  causeCode: z.string().optional(),
  /** Set unless it succeeded. */
  severity: ToolErrorSeveritySchema.optional(),
  /** The guard or the hook that denied it (R87). */
  blockedBy: z.string().optional(),
  /** What hooks noted about the call (R82). */
  metadata: JsonObjectSchema.optional(),
  /** Subtasks that the tool queued: worked off before the next model call (R13). */
  subtasks: z.array(SpawnRequestSchema).readonly().optional(),
  /** Subagents that the call started in the background: their results come as messages (X10). */
  startedIds: z.array(AgentIdSchema).readonly().optional(),
  /** Subagents in the background whose results this call gave to the model. */
  reportedIds: z.array(AgentIdSchema).readonly().optional(),
  startedAtMs: z.number(),
  endedAtMs: z.number(),
});
/** One tool call with its outcome: exactly one for every call in a history (L3). */
export type ToolExecution = Readonly<z.infer<typeof ToolExecutionSchema>>;
