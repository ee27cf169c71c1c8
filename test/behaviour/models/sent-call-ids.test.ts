// Goal: a history with calls can be sent to every provider, whatever ids its calls have.
// Method: calls with ids in the formats of several servers, over each adapter; the ids that are
// sent.

import { expect } from "vitest";
import { z } from "zod";

import { aiSdkModel } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import { toCallId } from "../../../src/model/call-id.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { openai } from "../../../src/model/openai/openai-model.ts";
import type { OpenAiApi } from "../../../src/model/openai/answer-options.ts";
import { ask, finish, saying, text } from "../../support/ai-sdk/fake-model.ts";
import { proves } from "../../harness/proves.ts";
import { API_KEY, never } from "../../support/openai-calls.ts";

/** Ids of Claude, of Kimi, of a server that sends none, and one of the greatest length. */
const IDS = ["toolu_01A", "functions.look:0", "chatcmpl-1.0", `call_${"x".repeat(60)}`];

const MESSAGES: readonly Message[] = [
  { role: "user", text: "Look.", origin: "task" },
  {
    role: "assistant",
    text: "",
    toolCalls: IDS.map((id) => ({
      callId: toCallId(id),
      toolName: "look",
      argumentsText: "{}",
    })),
  },
  ...IDS.map((id): Message => ({
    role: "tool",
    callId: toCallId(id),
    toolName: "look",
    text: "Seen.",
  })),
];
const REQUEST = { messages: MESSAGES, tools: [], maxOutputTokens: 100 };

/** Returns the ids in a request, of calls and then of results, under any of their field names. */
function idsIn(json: string): readonly string[] {
  const ids: string[] = [];
  JSON.parse(json, (key, value: unknown) => {
    if (/^(id|call_id|tool_call_id|toolCallId)$/.test(key)) ids.push(z.string().parse(value));
    return value;
  });
  return ids;
}

async function bodyTo(baseUrl: string, api: OpenAiApi, messages = MESSAGES): Promise<string> {
  let body = "";
  const fetch: typeof globalThis.fetch = async (_url, init) => {
    body = z.string().parse(init?.body);
    return await Promise.reject(new TypeError("no network"));
  };
  const model = openai("m", { api, fetch, baseUrl, apiKey: API_KEY, inputModalities: ["image"] });
  await model.generate({ ...REQUEST, messages }, { signal: never() }).catch(() => undefined);
  return body;
}

const sentTo = async (
  baseUrl: string,
  api: OpenAiApi = "chat_completions",
): Promise<readonly string[]> => idsIn(await bodyTo(baseUrl, api));

async function sentOverAiSdk(provider: string): Promise<readonly string[]> {
  const fake = saying([...text("ok"), finish()], provider);
  await ask(aiSdkModel(fake), REQUEST);
  return idsIn(JSON.stringify(fake.asked[0]?.prompt));
}

const CLAUDE = /^[a-zA-Z0-9_-]{1,64}$/;
const MISTRAL = /^[a-zA-Z0-9]{9}$/;
const CHAT = /^.{1,40}$/;
const RESPONSES = /^.{1,64}$/;

const STRICT = {
  "Claude over the AI SDK": [CLAUDE, () => sentOverAiSdk("anthropic.messages")],
  "Claude at Vertex": [CLAUDE, () => sentOverAiSdk("vertex.anthropic.messages")],
  Bedrock: [CLAUDE, () => sentOverAiSdk("amazon-bedrock")],
  "Claude over Chat Completions": [CLAUDE, () => sentTo("https://api.anthropic.com/v1")],
  Mistral: [MISTRAL, () => sentTo("https://api.mistral.ai/v1")],
  "Mistral over the AI SDK": [MISTRAL, () => sentOverAiSdk("mistral.chat")],
  "OpenAI over Chat Completions": [CHAT, () => sentTo("https://api.openai.com/v1")],
  "OpenAI over Responses": [RESPONSES, () => sentTo("https://api.openai.com/v1", "responses")],
  "OpenAI's Responses over the AI SDK": [RESPONSES, () => sentOverAiSdk("openai.responses")],
} as const;

for (const [name, [form, sent]] of Object.entries(STRICT)) {
  proves(["D305"], `replaces only the ids that the provider would refuse: ${name}`, async () => {
    const ids = await sent();
    const ofCalls = ids.slice(0, IDS.length);
    expect(ids.slice(IDS.length), "results have the ids of their calls").toEqual(ofCalls);
    expect(ofCalls.filter((id) => !form.test(id))).toEqual([]);
    expect(new Set(ofCalls).size).toBe(IDS.length);
    const kept = IDS.map((id, index) => (form.test(id) ? id : ofCalls[index]));
    expect(ofCalls, "the others go out as they are").toEqual(kept);
    expect(await sent(), "always the same").toEqual(ids);
  });
}

proves(["D305"], "sends ids unchanged to any other server", async () => {
  expect([
    await sentTo("https://api.moonshot.ai/v1"),
    await sentTo("http://127.0.0.1:8000/v1"),
    await sentOverAiSdk("moonshotai.chat"),
  ]).toEqual(Array.from({ length: 3 }, () => [...IDS, ...IDS]));
});

proves(
  ["D305"],
  "names the call of an attachment that follows a result by the id that was sent",
  async () => {
    const image = { type: "image", mediaType: "image/png", data: "iVBORw0KGgo=" } as const;
    const seen = MESSAGES.map((message) =>
      message.role === "tool" ? { ...message, content: [image] } : message,
    );
    const body = await bodyTo("https://api.mistral.ai/v1", "chat_completions", seen);
    const named = [...body.matchAll(/result of look \((\w+)\):/g)].map(([, id]) => id);
    expect(named).toEqual(idsIn(body).slice(IDS.length));
    expect(named.filter((id = "") => !MISTRAL.test(id))).toEqual([]);
  },
);
