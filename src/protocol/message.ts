// What a model reads and what it replies. Plain, frozen values; a message never changes once it is in a history.

import { isRecord, type JsonObject, type JsonValue } from "../kernel/json.ts";
import {
  ContentSchema,
  contentText,
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

/** Where a message that a model did not write came from. */
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

/** A model's request to use a tool. */
export interface ToolCall {
  readonly callId: CallId;
  /** As the model wrote it: there may be no tool of this name. */
  readonly toolName: string;
  /** As the model wrote it; may be no JSON at all. */
  readonly argumentsText: string;
}

/**
 * One part of a reply, in the order in which the model wrote it; texts and calls are named by their place in the message: the next
 * `length` characters of its text, the next of its calls. `opaque`: something of the provider's own, of a kind that it names.
 * `data` goes back to the provider that wrote it as it came, and no other provider reads it; by provider: `{ anthropic: { signature } }`.
 */
export type ReplyPart =
  | { readonly type: "reasoning"; readonly text: string; readonly data?: JsonObject }
  | { readonly type: "text"; readonly length: number; readonly data?: JsonObject }
  | { readonly type: "call"; readonly callId: CallId; readonly data?: JsonObject }
  | { readonly type: "opaque"; readonly kind: string; readonly data: JsonObject };

export type ProviderData = Extract<ReplyPart, { readonly type: "opaque" }>["data"];

/** What an agent reads before all else. */
export interface SystemMessage {
  /** Which kind of message it is. */
  readonly role: "system";
  /** What it says. */
  readonly text: string;
  /** Where it came from. */
  readonly origin: MessageOrigin;
}

/** The task, and what else an agent reads on the way. */
export interface UserMessage {
  /** Which kind of message it is. */
  readonly role: "user";
  /** With a line for each part of the content that is no text. */
  readonly text: string;
  /** Where it came from. */
  readonly origin: MessageOrigin;
  /** All of it in order, if a part of it is no text. Where it does not say what the text says, the text holds, and what is no text follows. */
  readonly content?: readonly ContentPart[];
}

/** A reply of the model. */
export interface AssistantMessage {
  /** Which kind of message it is. */
  readonly role: "assistant";
  /** What it says. */
  readonly text: string;
  /** What it asks for, in its order. */
  readonly toolCalls: readonly ToolCall[];
  /** Set when the model declined to answer, in its own words. */
  readonly refusal?: string | undefined;
  /**
   * All that the model wrote, in order: reasoning too, and data that must go back to it. Absent: the text, then the calls. Made by
   * `replyMessage`, read by `replyPieces`.
   */
  readonly parts?: readonly ReplyPart[];
  /** The `replayKey` of the model that wrote the parts, which go back to no other; set by the loop. */
  readonly writtenBy?: string;
}

/** The result of one tool call. */
export interface ToolMessage {
  /** Which kind of message it is. */
  readonly role: "tool";
  /** The call that it answers. */
  readonly callId: CallId;
  /** The name of the tool. */
  readonly toolName: string;
  /** What the model reads. */
  readonly text: string;
  /** What belongs to the result and is no text. */
  readonly content?: readonly ContentPart[];
}

/** One entry of a history. */
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage;

/** The message that gives an agent this content. */
export function userMessage(said: MessageContent, origin: MessageOrigin): UserMessage {
  const text = contentText(said);
  return typeof said === "string"
    ? { role: "user", text, origin }
    : { role: "user", text, origin, content: said };
}

/** Where a message of a history came from. Kept beside the message, which goes to the model as it is. */
export interface MessageTag {
  /** The execution that added it; of a boundary, the one that ended there. */
  readonly executionId: ExecutionId;
  /** The step that was open when it came in, or else the last one before; 0: none had begun. */
  readonly stepNumber: number;
  /** From 1, in the order in which its agent added messages. */
  readonly number: number;
  /** The agent that added it. Absent: the one whose history it is in. */
  readonly agentId?: AgentId;
  readonly note?: "left_out" | "boundary";
}

/** A message with where it came from, as results and sessions show it. The ids never go to a model. */
export type StoredMessage = Message & {
  /** Unique in its session, and derived from its place: `<executionId>.m<number>`. */
  readonly messageId: MessageId;
  /** The agent that added it. */
  readonly agentId: AgentId;
  /** The execution that added it; of a boundary, the one that ended there. */
  readonly executionId: ExecutionId;
  /** The step that was open when it came in, or else the last one before. Absent: none had begun. */
  readonly stepId?: StepId;
  /**
   * Set if the message was not written in the execution. `left_out`: it stands for messages that a compaction or a retention left out, as a
   * notice or a summary. `boundary`: it marks where an execution of a session ended.
   */
  readonly note?: "left_out" | "boundary";
};

/** One piece of content: values that the run itself works with, which a tracing must not change. */
export type SpanContent =
  | {
      readonly type: "request";
      readonly messages: readonly Message[];
      /** What the model is offered, as far as a trace may show it. */
      readonly tools: readonly {
        /** The name of the tool. */
        readonly name: string;
        /** What the model reads about it. */
        readonly description: string;
        /** JSON Schema. */
        readonly inputSchema: JsonValue;
      }[];
    }
  | {
      readonly type: "reply";
      readonly message: AssistantMessage;
      /** A `FinishReason`. */
      readonly finishReason: string;
      /** The provider's own text, for example `eos_token`, if it differs. */
      readonly rawFinishReason?: string | undefined;
    }
  /** With which a tool runs, as hooks and answers left them; as text, if they are no JSON. */
  | { readonly type: "arguments"; readonly value: JsonValue }
  /** What the model reads of it. */
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
/** A part that a later release may have written: kept, and never sent. */
const UnknownPartSchema = lazySchema(() =>
  z.custom<ReplyPart>(
    (part) => isRecord(part) && typeof part["type"] === "string" && !PART_TYPES.has(part["type"]),
  ),
);

const said = lazySchema(() => ({ text: z.string(), origin: z.enum(MESSAGE_ORIGINS) }));
const SystemMessageSchema = lazyObject(() => ({
  role: z.literal("system"),
  ...said(),
})) satisfies () => z.ZodType<SystemMessage>;
const content = lazySchema(() => ContentSchema().exactOptional());
const UserMessageSchema = lazyObject(() => ({
  role: z.literal("user"),
  ...said(),
  content: content(),
})) satisfies () => z.ZodType<UserMessage>;
/** A reply without what only its model can read. */
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
