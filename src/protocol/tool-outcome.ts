import type { JsonObject, JsonValue } from "../kernel/json.ts";
import { AttachmentSchema, type Attachment } from "./attachment.ts";
import { AgentIdSchema, type AgentId } from "./ids.ts";
import { JsonObjectSchema, JsonValueSchema } from "./json-value.ts";
import { lazyObject, lazySchema, z } from "./lazy-schema.ts";
import { ToolCallSchema, type ToolCall } from "./message.ts";
import { SpawnRequestSchema, type SpawnRequest } from "./subagent.ts";
import { ToolErrorSeveritySchema, type ToolErrorSeverity } from "./tool-error-record.ts";

/**
 * How a tool call ended. `retry`: the model is asked for a corrected call. `failed`: it came to nothing, and the model reads
 * why. `refused`: policy forbade it. `not_executed`: the agent stopped first. `cancelled`: it had to end; its late result, if any,
 * is discarded.
 */
export type ToolOutcomeType =
  | "succeeded"
  | "retry"
  | "failed"
  | "refused"
  | "not_executed"
  | "cancelled";
const TOOL_OUTCOME_TYPES = [
  "succeeded",
  "retry",
  "failed",
  "refused",
  "not_executed",
  "cancelled",
] as const satisfies readonly ToolOutcomeType[];

/** One tool call with its outcome: exactly one for every call in a history. */
export interface ToolExecution {
  /** As the model wrote it. */
  readonly call: ToolCall;
  /**
   * The arguments as the tool got them: after hooks, an answer that changed them, and coercion, defaults and transforms of the schema; what
   * a schema makes no JSON of, before that. Absent: the call was not run.
   */
  readonly arguments?: JsonValue;
  /** The model's arguments were no JSON until a small slip in them was mended. */
  readonly isRepaired?: true | undefined;
  /** How the call ended. */
  readonly type: ToolOutcomeType;
  /** What the model reads. */
  readonly text: string;
  /** The whole of a result that was too long for the model. */
  readonly fullText?: string | undefined;
  /** The result as data, if the tool gave it by `toolResult`. */
  readonly structured?: JsonValue | undefined;
  /** Images, sounds and files that came with the result. */
  readonly attachments?: readonly Attachment[] | undefined;
  /** No model is shown the attachments: it reads `text` alone. */
  readonly isTextOnly?: true | undefined;
  /** Set unless it succeeded: `unknown_tool`, `invalid_json`, `invalid_arguments`, `tool_error`, a refusal code, … */
  readonly errorCode?: string | undefined;
  /** What it failed with, where `errorCode` is `retry_limit`. */
  readonly causeCode?: string | undefined;
  /** Set unless it succeeded. */
  readonly severity?: ToolErrorSeverity | undefined;
  /** The guard or the hook that denied it. */
  readonly blockedBy?: string | undefined;
  /** What hooks noted about the call. */
  readonly metadata?: JsonObject | undefined;
  /** Subtasks that the tool queued: worked off before the next model call. */
  readonly subtasks?: readonly SpawnRequest[] | undefined;
  /** Subagents that the call started in the background: their results come as messages. */
  readonly startedAgentIds?: readonly AgentId[] | undefined;
  /** Subagents in the background whose results this call gave to the model. */
  readonly reportedAgentIds?: readonly AgentId[] | undefined;
  /** Milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** Milliseconds since the epoch. */
  readonly endedAtMs: number;
}

export const ToolOutcomeTypeSchema = lazySchema(() => z.enum(TOOL_OUTCOME_TYPES));

export const ToolExecutionSchema = lazyObject(() => ({
  call: ToolCallSchema(),
  arguments: JsonValueSchema().exactOptional(),
  isRepaired: z.literal(true).optional(),
  type: ToolOutcomeTypeSchema(),
  text: z.string(),
  fullText: z.string().optional(),
  structured: JsonValueSchema().optional(),
  attachments: z.array(AttachmentSchema()).readonly().optional(),
  isTextOnly: z.literal(true).optional(),
  errorCode: z.string().optional(),
  causeCode: z.string().optional(),
  severity: ToolErrorSeveritySchema().optional(),
  blockedBy: z.string().optional(),
  metadata: JsonObjectSchema().optional(),
  subtasks: z.array(SpawnRequestSchema()).readonly().optional(),
  startedAgentIds: z.array(AgentIdSchema()).readonly().optional(),
  reportedAgentIds: z.array(AgentIdSchema()).readonly().optional(),
  startedAtMs: z.number(),
  endedAtMs: z.number(),
})) satisfies () => z.ZodType<ToolExecution>;
