// What a model is shown and what it says. Plain, frozen values; a message never changes once it is in a history.

import { z } from "zod";

import { CallIdSchema } from "./ids.ts";

const MessageOriginSchema = z.enum([
  "instructions",
  "task",
  "inherited",
  "injected",
  "notice",
  "steering",
  "subtask",
  "report",
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
export const AssistantMessageSchema = z.strictObject({
  role: z.literal("assistant"),
  text: z.string(),
  toolCalls: z.array(ToolCallSchema).readonly(),
  /** Set when the model declined to answer, in its own words. */
  refusal: z.string().optional(),
});
const ToolMessageSchema = z.strictObject({
  role: z.literal("tool"),
  callId: CallIdSchema,
  toolName: z.string(),
  text: z.string(),
});

/** What an agent is told before all else. */
export type SystemMessage = Readonly<z.infer<typeof SystemMessageSchema>>;
/** The task, and whatever else an agent is told on the way. */
export type UserMessage = Readonly<z.infer<typeof UserMessageSchema>>;
/** What the model said. */
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
