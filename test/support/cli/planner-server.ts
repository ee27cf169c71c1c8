// Serves the offline planner in the wire formats of OpenAI, for a demo that is configured with this
// server.

import { z } from "zod";

import { createOfflinePlanner } from "../../../src/cli/survey/offline-planner.ts";
import type { Message } from "../../../src/index.ts";
import type { ModelRequest } from "../../../src/extend.ts";
import { JsonObjectSchema } from "../../../src/protocol/json-value.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import { hashText } from "../../../src/protocol/definition.ts";
import { functionCall, message, reasoning } from "../../fixtures/streams/response-events.ts";
import { OpenAiServer, type ServerReply, type WireRequest } from "../openai-server.ts";
import { responds } from "../responses-replies.ts";

/**
 * The same over Responses. Each call comes with encrypted reasoning, which the next request must
 * contain before that call.
 */
export async function plannerOverResponses(): Promise<OpenAiServer> {
  const planner = createOfflinePlanner();
  const { signal } = new AbortController();
  return await OpenAiServer.start(
    async (request): Promise<ServerReply> => {
      const unsealed = unsealedCalls(request.body);
      if (unsealed.length > 0) {
        const said = `Item '${unsealed.join()}' was provided without its required 'reasoning' item`;
        return { type: "status", status: 400, body: { error: { message: said } } };
      }
      const reply = await planner.generate(responsesRequestOf(request), { signal });
      const { text, toolCalls } = reply.message;
      const items = toolCalls.flatMap(({ callId, toolName, argumentsText }) => [
        reasoning([], sealOf(argumentsText), { id: `rs_${callId}` }),
        functionCall(callId, toolName, argumentsText),
      ]);
      return responds(request, text === "" ? items : [...items, message(text)]);
    },
    { takesAnyMessages: true },
  );
}

const sealOf = (argumentsText: string): string => `gAAAA${hashText(argumentsText)}`;

const wireItem = z.union([
  z.object({ role: z.enum(["developer", "user", "assistant"]), content: z.string() }),
  z.object({ type: z.literal("reasoning"), encrypted_content: z.string() }),
  z.object({
    type: z.literal("function_call"),
    call_id: CallIdSchema(),
    name: z.string(),
    arguments: z.string(),
  }),
  z.object({
    type: z.literal("function_call_output"),
    call_id: CallIdSchema(),
    output: z.string(),
  }),
]);
const responsesBody = z.object({
  input: z.array(wireItem),
  tools: z
    .array(z.object({ name: z.string(), description: z.string(), parameters: JsonObjectSchema() }))
    .default([]),
});

/** Returns calls without the thought that was encrypted with them. */
function unsealedCalls(body: unknown): readonly string[] {
  const { input } = responsesBody.parse(body);
  return input.flatMap((item, index) => {
    if (!("arguments" in item)) return [];
    const before = input[index - 1];
    const sealed =
      before !== undefined && "encrypted_content" in before ? before.encrypted_content : "";
    return sealed === sealOf(item.arguments) ? [] : [item.call_id];
  });
}

function responsesRequestOf({ body }: WireRequest): ModelRequest {
  const { input, tools } = responsesBody.parse(body);
  return {
    messages: joined(input.flatMap(itemMessages)),
    tools: tools.map(({ name, description, parameters }) => ({
      name,
      description,
      inputSchema: parameters,
    })),
    maxOutputTokens: Infinity,
  };
}

/** Items of one reply are one message. */
function joined(messages: readonly Message[]): readonly Message[] {
  return messages.reduce<readonly Message[]>((before, message) => {
    const last = before.at(-1);
    if (message.role !== "assistant" || last?.role !== "assistant") return [...before, message];
    const text = last.text + message.text;
    const toolCalls = [...last.toolCalls, ...message.toolCalls];
    return [...before.slice(0, -1), { role: "assistant", text, toolCalls }];
  }, []);
}

function itemMessages(item: z.infer<typeof wireItem>): readonly Message[] {
  if ("encrypted_content" in item) return [];
  if ("output" in item)
    return [{ role: "tool", callId: item.call_id, toolName: "", text: item.output }];
  if ("arguments" in item) {
    const { call_id: callId, name: toolName, arguments: argumentsText } = item;
    return [{ role: "assistant", text: "", toolCalls: [{ callId, toolName, argumentsText }] }];
  }
  const { role, content: text } = item;
  if (role === "developer") return [{ role: "system", text, origin: "instructions" }];
  if (role === "user") return [{ role: "user", text, origin: "task" }];
  return [{ role: "assistant", text, toolCalls: [] }];
}

/** Starts the server. It replies as the planner would to the same messages and tools. */
export async function plannerServer(): Promise<OpenAiServer> {
  const planner = createOfflinePlanner();
  const { signal } = new AbortController();
  return await OpenAiServer.start(async (request): Promise<ServerReply> => {
    const { message: said, usage } = await planner.generate(requestOf(request), { signal });
    const toolCalls = said.toolCalls.map(({ callId: id, toolName: name, argumentsText }) => ({
      id,
      name,
      arguments: argumentsText,
    }));
    const prompt_tokens = usage?.inputTokens ?? 0;
    const completion_tokens = usage?.outputTokens ?? 0;
    const total_tokens = prompt_tokens + completion_tokens;
    return {
      type: "says",
      text: said.text,
      toolCalls,
      usage: { prompt_tokens, completion_tokens, total_tokens },
    };
  });
}

const wireCall = z.object({
  id: CallIdSchema(),
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
  z.object({ role: z.literal("tool"), content: z.string(), tool_call_id: CallIdSchema() }),
]);

const wireBody = z.object({
  messages: z.array(wireMessage),
  tools: z.array(
    z.object({
      function: z.object({
        name: z.string(),
        description: z.string(),
        parameters: JsonObjectSchema(),
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

function messageOf(wired: z.infer<typeof wireMessage>): Message {
  switch (wired.role) {
    case "system":
      return { role: "system", text: wired.content, origin: "instructions" };
    case "user":
      return { role: "user", text: wired.content, origin: "task" };
    case "tool":
      return { role: "tool", callId: wired.tool_call_id, toolName: "", text: wired.content };
    case "assistant": {
      const toolCalls = wired.tool_calls.map((call) => ({
        callId: call.id,
        toolName: call.function.name,
        argumentsText: call.function.arguments,
      }));
      return { role: "assistant", text: wired.content ?? "", toolCalls };
    }
  }
}
