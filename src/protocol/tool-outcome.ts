import type { JsonObject, JsonValue } from "../kernel/json.ts";
import { AttachmentSchema, type Attachment } from "./attachment.ts";
import { AgentIdSchema, type AgentId } from "./ids.ts";
import { JsonObjectSchema, JsonValueSchema } from "./json-value.ts";
import { lazyObject, z } from "./lazy-schema.ts";
import { ToolCallSchema, type ToolCall } from "./message.ts";
import { SpawnRequestSchema, type SpawnRequest } from "./subagent.ts";
import {
  ToolErrorSeveritySchema,
  ToolFailureCodeSchema,
  ToolOutcomeTypeSchema,
  type ToolErrorSeverity,
  type ToolFailureCode,
  type ToolOutcomeType,
} from "./tool-failure.ts";

/**
 * Tool call with its outcome. Each call of a history has exactly one.
 *
 * @example
 * ```ts
 * for (const { tools } of result.steps)
 *   for (const { call, type, text, errorCode } of tools.executions)
 *     console.log(call.toolName, type, errorCode ?? text);
 * ```
 */
export interface ToolExecution {
  /** Call as the model wrote it. */
  readonly call: ToolCall;
  /**
   * Arguments as the tool received them, after hooks, answers, and the schema. Absent if the call
   * did not run.
   *
   * If the schema makes values that are not JSON, these are the arguments before the schema.
   */
  readonly arguments?: JsonValue;
  /** True if the model's arguments were invalid JSON and were repaired. */
  readonly isRepaired?: true | undefined;
  /** Outcome of the call. */
  readonly type: ToolOutcomeType;
  /** Text that the model reads. */
  readonly text: string;
  /** Full result, if it was too long for the model. */
  readonly fullText?: string | undefined;
  /** Result as data, if the tool returned it with `toolResult`. */
  readonly structured?: JsonValue | undefined;
  /** Images, audio and other files of the result. */
  readonly attachments?: readonly Attachment[] | undefined;
  /** True if the attachments are never sent to a model, which then reads `text` only. */
  readonly isTextOnly?: true | undefined;
  /** Failure code. Absent on success. */
  readonly errorCode?: ToolFailureCode | undefined;
  /** Code of the last failure, if `errorCode` is `retry_limit`. */
  readonly causeCode?: ToolFailureCode | undefined;
  /** Consequence for the agent. Absent on success. */
  readonly severity?: ToolErrorSeverity | undefined;
  /** Name of the guard or hook that denied the call. */
  readonly blockedBy?: string | undefined;
  /** Metadata that `afterTool` hooks added. */
  readonly metadata?: JsonObject | undefined;
  /** Subtasks that the tool queued. They run before the next model call. */
  readonly subtasks?: readonly SpawnRequest[] | undefined;
  /** Background subagents that the call started. Their results arrive as messages. */
  readonly startedAgentIds?: readonly AgentId[] | undefined;
  /** Background subagents whose results this call returned to the model. */
  readonly reportedAgentIds?: readonly AgentId[] | undefined;
  /** Start of the call, in milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** End of the call, in milliseconds since the epoch. */
  readonly endedAtMs: number;
}

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
  errorCode: ToolFailureCodeSchema().optional(),
  causeCode: ToolFailureCodeSchema().optional(),
  severity: ToolErrorSeveritySchema().optional(),
  blockedBy: z.string().optional(),
  metadata: JsonObjectSchema().optional(),
  subtasks: z.array(SpawnRequestSchema()).readonly().optional(),
  startedAgentIds: z.array(AgentIdSchema()).readonly().optional(),
  reportedAgentIds: z.array(AgentIdSchema()).readonly().optional(),
  startedAtMs: z.number(),
  endedAtMs: z.number(),
})) satisfies () => z.ZodType<ToolExecution>;
