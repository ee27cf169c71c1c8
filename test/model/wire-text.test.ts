// Goal: half of a surrogate pair never makes a request invalid, wherever it comes from.
// Method: requests with lone surrogates in every text, over each adapter; the sent body is
// compared, or searched for lone surrogates.

import { expect, test } from "vitest";
import { z } from "zod";

import { aiSdkModel } from "../../src/model/ai-sdk/ai-sdk-model.ts";
import type { ModelRequest } from "../../src/model/model.ts";
import { openai } from "../../src/model/openai/openai-model.ts";
import type { OpenAiApi } from "../../src/model/openai/answer-options.ts";
import { createWellFormed } from "../../src/model/wire-text.ts";
import { toCallId } from "../../src/model/call-id.ts";
import { ask, finish, saying, text } from "../support/ai-sdk/fake-model.ts";
import { proves } from "../harness/proves.ts";
import { API_KEY, never } from "../support/openai-calls.ts";

const HALF = "Bad \uD83D cut";
const MENDED = "Bad \uFFFD cut";
/** Not a surrogate: six characters that spell an escape, as in a text about JSON. */
const LITERAL = String.raw`Write \ud83d for it, not 🌳.`;

const callId = toCallId("call_1");
const REQUEST: ModelRequest = {
  messages: [
    { role: "system", text: HALF, origin: "instructions" },
    { role: "user", text: LITERAL, origin: "task" },
    {
      role: "assistant",
      text: HALF,
      toolCalls: [{ callId, toolName: "look", argumentsText: JSON.stringify({ q: LITERAL }) }],
    },
    { role: "tool", callId, toolName: "look", text: HALF },
  ],
  tools: [{ name: "look", description: HALF, inputSchema: { type: "object", title: HALF } }],
  maxOutputTokens: 100,
};

const halves = (json: string): number => {
  let count = 0;
  JSON.parse(json, (_key, value: unknown) => {
    if (typeof value === "string" && !value.isWellFormed()) count += 1;
    return value;
  });
  return count;
};

async function sentOver(api: OpenAiApi): Promise<string> {
  let body = "";
  const fetch: typeof globalThis.fetch = async (_url, init) => {
    body = z.string().parse(init?.body);
    return await Promise.reject(new TypeError("no network"));
  };
  const baseUrl = "https://api.example.com/v1";
  const model = openai("m", { api, fetch, baseUrl, apiKey: API_KEY });
  await model.generate(REQUEST, { signal: never() }).catch(() => undefined);
  return body;
}

async function sentByAiSdk(): Promise<string> {
  const fake = saying([...text("ok"), finish()]);
  await ask(aiSdkModel(fake), REQUEST);
  const { abortSignal: _signal, ...asked } = fake.asked[0] ?? { prompt: [] };
  return JSON.stringify(asked);
}

const ADAPTERS = {
  "Chat Completions": () => sentOver("chat_completions"),
  Responses: () => sentOver("responses"),
  "the AI SDK": sentByAiSdk,
};

for (const [name, sent] of Object.entries(ADAPTERS)) {
  proves(
    ["D304"],
    `replaces lone surrogates by U+FFFD over ${name} and changes nothing else`,
    async () => {
      expect(halves(JSON.stringify(REQUEST))).toBe(5);
      const body = await sent();
      expect(halves(body)).toBe(0);
      expect(body.split(MENDED).length - 1).toBe(5);
      expect(body).toContain(JSON.stringify(LITERAL));
    },
  );
}

test("returns a well-formed value unchanged and preserves values that are not plain data", () => {
  const bytes = new Uint8Array([1]);
  const whole = { a: ["🌳", { b: bytes }], c: null, d: 1 };
  expect(createWellFormed(whole)).toBe(whole);
  expect(createWellFormed({ [HALF]: [bytes, HALF] })).toEqual({ [MENDED]: [bytes, MENDED] });
});
