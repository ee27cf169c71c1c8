// What a model reads and what it replies. Plain, frozen values; a message never changes once it is in a history.

import { z } from "zod";

import { isRecord, type JsonObject } from "../kernel/json.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  ExecutionIdSchema,
  MessageIdSchema,
  StepIdSchema,
} from "./ids.ts";
import { JsonObjectSchema } from "./json-value.ts";

const MessageOriginSchema = z.enum([
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
]);
/** Where a message that a model did not write came from. */
export type MessageOrigin = z.infer<typeof MessageOriginSchema>;

export const ToolCallSchema = z.strictObject({
  callId: CallIdSchema,
  toolName: z.string(),
  /** As the model wrote it; may be no JSON at all. */
  argumentsText: z.string(),
});
/** A model's wish to use a tool. */
export type ToolCall = z.infer<typeof ToolCallSchema>;

const SystemMessageSchema = z.strictObject({
  role: z.literal("system"),
  text: z.string(),
  origin: MessageOriginSchema,
});
const UserMessageSchema = z.strictObject({
  role: z.literal("user"),
  text: z.string(),
  origin: MessageOriginSchema,
});

/** What goes back to the provider that wrote it as it came, and that no other provider reads; by provider: `{ anthropic: { signature } }`. */
export type ProviderData = JsonObject;

const data = JsonObjectSchema.exactOptional();
export const ReplyPartSchema = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("reasoning"), text: z.string(), data }),
  /** The next `length` characters of the message's text. */
  z.strictObject({ type: z.literal("text"), length: z.int().nonnegative(), data }),
  /** The next call of the message. */
  z.strictObject({ type: z.literal("call"), callId: CallIdSchema, data }),
  /** Something of the provider's own, of a kind that it names. */
  z.strictObject({ type: z.literal("opaque"), kind: z.string(), data: JsonObjectSchema }),
]);
/** One part of a reply, in the order in which the model wrote it; texts and calls are named by their place in the message. */
export type ReplyPart = Readonly<z.infer<typeof ReplyPartSchema>>;

const PART_TYPES: ReadonlySet<unknown> = new Set(["reasoning", "text", "call", "opaque"]);
/** A part that a later release may have written: kept, and never sent. */
const UnknownPartSchema = z.custom<ReplyPart>(
  (part) => isRecord(part) && typeof part["type"] === "string" && !PART_TYPES.has(part["type"]),
);

export const AssistantMessageSchema = z.strictObject({
  role: z.literal("assistant"),
  text: z.string(),
  toolCalls: z.array(ToolCallSchema).readonly(),
  /** Set when the model declined to answer, in its own words. */
  refusal: z.string().optional(),
  /**
   * All that the model wrote, in order: reasoning too, and data that must go back to it. Absent: the text, then the calls. Made by
   * `replyMessage`, read by `replyPieces`.
   */
  parts: z
    .array(z.union([ReplyPartSchema, UnknownPartSchema]))
    .readonly()
    .exactOptional(),
  /** The `replayKey` of the model that wrote the parts, which go back to no other; set by the loop. */
  writtenBy: z.string().exactOptional(),
});
const ToolMessageSchema = z.strictObject({
  role: z.literal("tool"),
  callId: CallIdSchema,
  toolName: z.string(),
  text: z.string(),
});

/** What an agent reads before all else. */
export type SystemMessage = Readonly<z.infer<typeof SystemMessageSchema>>;
/** The task, and what else an agent reads on the way. */
export type UserMessage = Readonly<z.infer<typeof UserMessageSchema>>;
/** A reply of the model. */
export type AssistantMessage = Readonly<z.infer<typeof AssistantMessageSchema>>;
/** The result of one tool call. */
export type ToolMessage = Readonly<z.infer<typeof ToolMessageSchema>>;
/** One entry of a history. */
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage;

export const MessageSchema = z.discriminatedUnion("role", [
  SystemMessageSchema,
  UserMessageSchema,
  AssistantMessageSchema,
  ToolMessageSchema,
]);

const NoteSchema = z.enum(["left_out", "boundary"]);
/**
 * A message that was not written in an execution: `left_out`, it stands for messages that a compaction or a retention left out, as a notice or
 * a summary; `boundary`, it marks where an execution of a session ended.
 */
export type MessageNote = z.infer<typeof NoteSchema>;

export const MessageTagSchema = z.strictObject({
  /** The execution that added it; of a boundary, the one that ended there. */
  executionId: ExecutionIdSchema,
  /** The step that was open when it came in, or else the last one before; 0: none had begun. */
  stepNumber: z.int().nonnegative(),
  /** From 1, in the order in which its agent added messages. */
  number: z.int().positive(),
  /** The agent that added it. Absent: the one whose history it is in. */
  agentId: AgentIdSchema.exactOptional(),
  note: NoteSchema.exactOptional(),
});
/** Where a message of a history came from. Kept beside the message, which goes to the model as it is (R98). */
export type MessageTag = Readonly<z.infer<typeof MessageTagSchema>>;

const ids = {
  /** Unique in its session, and derived from its place: `<executionId>.m<number>`. */
  messageId: MessageIdSchema,
  /** The agent that added it. */
  agentId: AgentIdSchema,
  /** The execution that added it; of a boundary, the one that ended there. */
  executionId: ExecutionIdSchema,
  /** The step that was open when it came in, or else the last one before. Absent: none had begun. */
  stepId: StepIdSchema.exactOptional(),
  /** Set if it was not written in the execution. */
  note: NoteSchema.exactOptional(),
};

export const StoredMessageSchema = z.discriminatedUnion("role", [
  SystemMessageSchema.extend(ids),
  UserMessageSchema.extend(ids),
  AssistantMessageSchema.extend(ids),
  ToolMessageSchema.extend(ids),
]);
/** A message with where it came from, as results and sessions show it. The ids never go to a model. */
export type StoredMessage = Readonly<z.infer<typeof StoredMessageSchema>>;
