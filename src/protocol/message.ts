// Messages to and from a model. Plain, frozen values. A message never changes once it is in a
// history.

import { isRecord, type JsonObject, type JsonValue } from "../kernel/json.ts";
import type { FinishReason } from "./finish-reason.ts";
import {
  ContentSchema,
  formatContent,
  type ContentPart,
  type MessageContent,
} from "./message-content.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  ExecutionIdSchema,
  MessageIdSchema,
  StepIdSchema,
  type AgentId,
  type CallId,
  type ExecutionId,
  type MessageId,
  type StepId,
} from "./ids.ts";
import { JsonObjectSchema } from "./json-value.ts";
import { lazyObject, lazySchema, lazyUnion, z } from "./lazy-schema.ts";

/**
 * Source of a system or user message.
 *
 * - `instructions`: the system prompt of the role.
 * - `task`: the task of the agent.
 * - `inherited`: a message of the parent, passed on to a subagent.
 * - `injected`: other context of the parent, passed on to a subagent.
 * - `notice`: a hint by espalier, such as the remaining budget.
 * - `steering`: sent with `steer`, or by another agent.
 * - `subtask`: a task that a tool queued.
 * - `report`: the result of a background subagent.
 * - `section`: a section of the request.
 * - `summary`: a summary of older messages.
 *
 * @example
 * ```ts
 * const visible = result.messages.filter(
 *   (one) => one.role === "assistant" || (one.role === "user" && one.origin === "task"),
 * );
 * ```
 */
export type MessageOrigin =
  | "instructions"
  | "task"
  | "inherited"
  | "injected"
  | "notice"
  | "steering"
  | "subtask"
  | "report"
  | "section"
  | "summary";
const MESSAGE_ORIGINS = [
  "instructions",
  "task",
  "inherited",
  "injected",
  "notice",
  "steering",
  "subtask",
  "report",
  "section",
  "summary",
] as const satisfies readonly MessageOrigin[];

/**
 * Tool call as the model wrote it.
 *
 * @example
 * ```ts
 * for (const message of result.messages)
 *   if (message.role === "assistant")
 *     for (const call of message.toolCalls) console.log(call.toolName, call.argumentsText);
 * ```
 */
export interface ToolCall {
  /** Id of the call. Unique within its step. */
  readonly callId: CallId;
  /** Tool name as the model wrote it. A tool of this name may not exist. */
  readonly toolName: string;
  /** Arguments as the model wrote them. They may be invalid JSON. */
  readonly argumentsText: string;
}

/**
 * Part of a reply, in the order of the model. Narrow it by `type`.
 *
 * A `text` part represents the next `length` UTF-16 code units of the message's text, and a `call`
 * part for its next tool call. An `opaque` part is provider-specific, such as a call that the
 * provider itself ran.
 *
 * `data` is returned unchanged to the provider that wrote it, and to no other. It is keyed by
 * provider, for example `{ anthropic: { signature } }`.
 *
 * @example
 * ```ts
 * function reasoningOf({ parts = [] }: AssistantMessage): string {
 *   return parts.map((part) => (part.type === "reasoning" ? part.text : "")).join("");
 * }
 * ```
 */
export type ReplyPart =
  /** Reasoning of the model. */
  | { readonly type: "reasoning"; readonly text: string; readonly data?: JsonObject }
  /** Text: the next `length` UTF-16 code units of the message's text. */
  | { readonly type: "text"; readonly length: number; readonly data?: JsonObject }
  /** Tool call: the next one of the message. */
  | { readonly type: "call"; readonly callId: CallId; readonly data?: JsonObject }
  /** Provider-specific part. `kind` is chosen by the adapter. */
  | { readonly type: "opaque"; readonly kind: string; readonly data: JsonObject };

export type ProviderData = Extract<ReplyPart, { readonly type: "opaque" }>["data"];

/**
 * System prompt of an agent, or another system message.
 *
 * @example
 * ```ts
 * const message: SystemMessage = {
 *   role: "system",
 *   text: "You are a careful reviewer.",
 *   origin: "instructions",
 * };
 * ```
 */
export interface SystemMessage {
  /** Discriminant of the message kinds. */
  readonly role: "system";
  /** Text of the message. */
  readonly text: string;
  /** Source of the message. */
  readonly origin: MessageOrigin;
}

/**
 * Message to the model: the task, or later input.
 *
 * @example
 * ```ts
 * const message: UserMessage = { role: "user", text: "Summarize the report.", origin: "task" };
 * ```
 */
export interface UserMessage {
  /** Discriminant of the message kinds. */
  readonly role: "user";
  /** Text of the message, with one line for each part that is not text. */
  readonly text: string;
  /** Source of the message. */
  readonly origin: MessageOrigin;
  /**
   * All parts, in order. Absent if the message is only text. If `text` was changed, `text` is used,
   * and the non-text parts follow it.
   */
  readonly content?: readonly ContentPart[];
}

/**
 * Reply of a model.
 *
 * @example
 * ```ts
 * const message: AssistantMessage = { role: "assistant", text: "It is sunny.", toolCalls: [] };
 * ```
 */
export interface AssistantMessage {
  /** Discriminant of the message kinds. */
  readonly role: "assistant";
  /** Text of the reply. Empty if the model wrote none. */
  readonly text: string;
  /** Tool calls of the reply, in order. */
  readonly toolCalls: readonly ToolCall[];
  /** Refusal text, if the model declined to answer. */
  readonly refusal?: string | undefined;
  /**
   * All parts of the reply in order, including reasoning and provider data. Absent if the reply is
   * a text followed by tool calls.
   *
   * Create parts with `buildReplyMessage`, and read them with `getReplyPieces`.
   */
  readonly parts?: readonly ReplyPart[];
  /**
   * `replayKey` of the model that wrote the parts. They are sent to no other model. The loop sets
   * this field.
   */
  readonly writtenBy?: string;
}

/**
 * Result of a tool call, as the model reads it.
 *
 * @example
 * ```ts
 * for (const message of result.messages)
 *   if (message.role === "tool") console.log(message.toolName, message.text);
 * ```
 */
export interface ToolMessage {
  /** Discriminant of the message kinds. */
  readonly role: "tool";
  /** Id of the call that the message answers. */
  readonly callId: CallId;
  /** Tool name. */
  readonly toolName: string;
  /** Text that the model reads. */
  readonly text: string;
  /** Non-text parts of the result. Absent without such parts. */
  readonly content?: readonly ContentPart[];
}

/**
 * Message of a history. Narrow it by `role`.
 *
 * @example
 * ```ts
 * function speaker(message: Message): string {
 *   return message.role === "tool" ? message.toolName : message.role;
 * }
 * ```
 */
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage;

/** Returns a user message with this content. */
export function createUserMessage(content: MessageContent, origin: MessageOrigin): UserMessage {
  const text = formatContent(content);
  return typeof content === "string"
    ? { role: "user", text, origin }
    : { role: "user", text, origin, content };
}

/** Origin of a history message. Stored beside the message, which is sent to the model unchanged. */
export interface MessageTag {
  /** The execution that added the message. For a boundary, the execution that ended there. */
  readonly executionId: ExecutionId;
  /**
   * The step that was open when the message arrived, otherwise the last step before. 0 before the
   * first step.
   */
  readonly stepNumber: number;
  /** Number in the order in which the agent added messages, from 1. */
  readonly number: number;
  /** The agent that added the message. Absent for the owner of the history. */
  readonly agentId?: AgentId;
  readonly note?: "left_out" | "boundary";
}

/**
 * Message with its ids, as results and sessions contain it. The ids are never sent to a model.
 *
 * @example
 * ```ts
 * for (const { messageId, role, text } of result.newMessages) console.log(messageId, role, text);
 * ```
 */
export type StoredMessage = Message & {
  /** Id of the message: `<executionId>.m<number>`. Unique in its session. */
  readonly messageId: MessageId;
  /** Id of the agent that added the message. */
  readonly agentId: AgentId;
  /**
   * Id of the execution that added the message. For a `boundary`, the execution that ended there.
   */
  readonly executionId: ExecutionId;
  /** Id of the step during or after which the message was added. Absent before the first step. */
  readonly stepId?: StepId;
  /**
   * Kind of a message that no agent wrote. `left_out` replaces messages that a compaction or the
   * retention dropped. `boundary` marks the end of an execution in a session.
   */
  readonly note?: "left_out" | "boundary";
};

/**
 * Message that another program wrote, for `session.importMessages`. Every `Message` is one, except a
 * system message.
 *
 * @example
 * ```ts
 * const messages: ImportedMessage[] = [
 *   { role: "user", text: "Where is my order?" },
 *   { role: "assistant", text: "It is on its way." },
 * ];
 * ```
 */
export type ImportedMessage =
  /** Message of a user. The default of `origin` is `task`. */
  | (Omit<UserMessage, "origin"> & { readonly origin?: MessageOrigin })
  /** Reply of a model. Each call needs a result. */
  | (Omit<AssistantMessage, "toolCalls"> & {
      readonly toolCalls?: readonly (Omit<ToolCall, "callId"> & { readonly callId: string })[];
    })
  /** Result of a call. It follows its reply. */
  | (Omit<ToolMessage, "callId"> & { readonly callId: string });

/**
 * Content of a span, as `Tracing.recordContent` receives it. Do not modify the values. Narrow it by
 * `type`.
 *
 * @example
 * ```ts
 * function lengthOf(content: SpanContent): number {
 *   return content.type === "result" ? content.text.length : JSON.stringify(content).length;
 * }
 * ```
 */
export type SpanContent =
  /** Messages and tools of a model request. */
  | {
      readonly type: "request";
      /** Messages of the request. */
      readonly messages: readonly Message[];
      /** Tools offered to the model, in request order. */
      readonly tools: readonly {
        /** Tool name. */
        readonly name: string;
        /** Tool description that the model reads. */
        readonly description: string;
        /** JSON Schema of the arguments. */
        readonly inputSchema: JsonValue;
      }[];
    }
  /** Reply of a model. */
  | {
      readonly type: "reply";
      readonly message: AssistantMessage;
      /** Finish reason of the reply. */
      readonly finishReason: FinishReason;
      /**
       * Finish reason in the provider's vocabulary, such as `eos_token`. Absent if it is the same.
       */
      readonly rawFinishReason?: string | undefined;
    }
  /** Arguments of a tool call, after hooks and answers. A string if they are invalid JSON. */
  | { readonly type: "arguments"; readonly value: JsonValue }
  /** Result of a tool call, as the model reads it. */
  | { readonly type: "result"; readonly text: string };

export const ToolCallSchema = lazyObject(() => ({
  callId: CallIdSchema(),
  toolName: z.string(),
  argumentsText: z.string(),
})) satisfies () => z.ZodType<ToolCall>;

const data = lazySchema(() => JsonObjectSchema().exactOptional());
export const ReplyPartSchema = lazyUnion("type", () => [
  z.strictObject({ type: z.literal("reasoning"), text: z.string(), data: data() }),
  z.strictObject({ type: z.literal("text"), length: z.int().nonnegative(), data: data() }),
  z.strictObject({ type: z.literal("call"), callId: CallIdSchema(), data: data() }),
  z.strictObject({ type: z.literal("opaque"), kind: z.string(), data: JsonObjectSchema() }),
]) satisfies () => z.ZodType<ReplyPart>;

const PART_TYPES: ReadonlySet<unknown> = new Set(["reasoning", "text", "call", "opaque"]);
/** A part that a later release may have written. Persisted, and never sent. */
const UnknownPartSchema = lazySchema(() =>
  z.custom<ReplyPart>(
    (part) => isRecord(part) && typeof part["type"] === "string" && !PART_TYPES.has(part["type"]),
  ),
);

const textFields = lazySchema(() => ({ text: z.string(), origin: z.enum(MESSAGE_ORIGINS) }));
const SystemMessageSchema = lazyObject(() => ({
  role: z.literal("system"),
  ...textFields(),
})) satisfies () => z.ZodType<SystemMessage>;
const content = lazySchema(() => ContentSchema().exactOptional());
const UserMessageSchema = lazyObject(() => ({
  role: z.literal("user"),
  ...textFields(),
  content: content(),
})) satisfies () => z.ZodType<UserMessage>;
/** A reply without the parts that only its model can read. */
export const PlainAssistantMessageSchema = lazyObject(() => ({
  role: z.literal("assistant"),
  text: z.string(),
  toolCalls: z.array(ToolCallSchema()).readonly(),
  refusal: z.string().optional(),
}));
export const AssistantMessageSchema = lazySchema(
  () =>
    PlainAssistantMessageSchema().extend({
      parts: z
        .array(z.union([ReplyPartSchema(), UnknownPartSchema()]))
        .readonly()
        .exactOptional(),
      writtenBy: z.string().exactOptional(),
    }) satisfies z.ZodType<AssistantMessage>,
);
const ToolMessageSchema = lazyObject(() => ({
  role: z.literal("tool"),
  callId: CallIdSchema(),
  toolName: z.string(),
  text: z.string(),
  content: content(),
})) satisfies () => z.ZodType<ToolMessage>;

export const MessageSchema = lazyUnion("role", () => [
  SystemMessageSchema(),
  UserMessageSchema(),
  AssistantMessageSchema(),
  ToolMessageSchema(),
]) satisfies () => z.ZodType<Message>;

export const ImportedMessageSchema = lazyUnion("role", () => [
  UserMessageSchema().extend({ origin: z.enum(MESSAGE_ORIGINS).default("task") }),
  AssistantMessageSchema().extend({ toolCalls: z.array(ToolCallSchema()).readonly().default([]) }),
  ToolMessageSchema(),
]) satisfies () => z.ZodType<Message>;

const NoteSchema = lazySchema(
  () => z.enum(["left_out", "boundary"]) satisfies z.ZodType<StoredMessage["note"]>,
);

export const MessageTagSchema = lazyObject(() => ({
  executionId: ExecutionIdSchema(),
  stepNumber: z.int().nonnegative(),
  number: z.int().positive(),
  agentId: AgentIdSchema().exactOptional(),
  note: NoteSchema().exactOptional(),
})) satisfies () => z.ZodType<MessageTag>;

const ids = lazySchema(() => ({
  messageId: MessageIdSchema(),
  agentId: AgentIdSchema(),
  executionId: ExecutionIdSchema(),
  stepId: StepIdSchema().exactOptional(),
  note: NoteSchema().exactOptional(),
}));

export const StoredMessageSchema = lazyUnion("role", () => [
  SystemMessageSchema().extend(ids()),
  UserMessageSchema().extend(ids()),
  AssistantMessageSchema().extend(ids()),
  ToolMessageSchema().extend(ids()),
]) satisfies () => z.ZodType<StoredMessage>;
