// The offline planner behind the Chat Completions wire format: a server that the demo can be
// pointed at instead.

import { z } from "zod";

import { offlinePlanner } from "../../examples/survey/offline-planner.ts";
import type { Message, ModelRequest } from "../../src/index.ts";
import { JsonObjectSchema } from "../../src/protocol/json-value.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import { OpenAiServer, type ServerReply, type WireRequest } from "../support/openai-server.ts";

/** Starts it. What it answers is what the planner would say to the same messages and tools. */
export async function plannerServer(): Promise<OpenAiServer> {
  const planner = offlinePlanner();
  const { signal } = new AbortController();
  return await OpenAiServer.start(async (request): Promise<ServerReply> => {
    const { message, usage } = await planner.generate(requestOf(request), { signal });
    const toolCalls = message.toolCalls.map(({ callId: id, toolName: name, argumentsText }) => ({
      id,
      name,
      arguments: argumentsText,
    }));
    const prompt_tokens = usage?.inputTokens ?? 0;
    const completion_tokens = usage?.outputTokens ?? 0;
    const total_tokens = prompt_tokens + completion_tokens;
    return {
      type: "says",
      text: message.text,
      toolCalls,
      usage: { prompt_tokens, completion_tokens, total_tokens },
    };
  });
}

const wireCall = z.object({
  id: CallIdSchema,
  function: z.object({ name: z.string(), arguments: z.string() }),
});

const wireMessage = z.discriminatedUnion("role", [
  z.object({ role: z.literal("system"), content: z.string() }),
  z.object({ role: z.literal("user"), content: z.string() }),
  z.object({
    role: z.literal("assistant"),
    content: z.string().nullish(),
    tool_calls: z.array(wireCall).default([]),
  }),
  z.object({ role: z.literal("tool"), content: z.string(), tool_call_id: CallIdSchema }),
]);

const wireBody = z.object({
  messages: z.array(wireMessage),
  tools: z.array(
    z.object({
      function: z.object({
        name: z.string(),
        description: z.string(),
        parameters: JsonObjectSchema,
      }),
    }),
  ),
});

function requestOf({ body }: WireRequest): ModelRequest {
  const { messages, tools } = wireBody.parse(body);
  return {
    messages: messages.map(messageOf),
    tools: tools.map((tool) => {
      const { name, description, parameters } = tool.function;
      return { name, description, inputSchema: parameters };
    }),
    maxOutputTokens: Infinity,
  };
}

function messageOf(message: z.infer<typeof wireMessage>): Message {
  switch (message.role) {
    case "system":
      return { role: "system", text: message.content, origin: "instructions" };
    case "user":
      return { role: "user", text: message.content, origin: "task" };
    case "tool":
      return { role: "tool", callId: message.tool_call_id, toolName: "", text: message.content };
    case "assistant": {
      const toolCalls = message.tool_calls.map((call) => ({
        callId: call.id,
        toolName: call.function.name,
        argumentsText: call.function.arguments,
      }));
      return { role: "assistant", text: message.content ?? "", toolCalls };
    }
  }
}
