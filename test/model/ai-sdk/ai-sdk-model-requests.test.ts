// Goal: a request over the AI SDK has the same settings as over the built-in client. Settings that
// the AI SDK does not support are reported.
// Method: the call options that reach a model which records them.

import type { LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { describe, expect, test } from "vitest";

import { aiSdkModel, type AiSdkOptions } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import type { ModelReply, ModelRequest } from "../../../src/model/model.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { proves } from "../../harness/proves.ts";
import { never } from "../../support/openai-calls.ts";
import { ask, finish, saying, text } from "../../support/ai-sdk/fake-model.ts";

interface Exchange {
  readonly options: Omit<LanguageModelV4CallOptions, "abortSignal"> | undefined;
  readonly reply: ModelReply;
}

async function exchange(
  request: Partial<ModelRequest>,
  options: AiSdkOptions = {},
  provider = "fake.chat",
): Promise<Exchange> {
  const fake = saying([...text("ok"), finish()], provider);
  const reply = await ask(aiSdkModel(fake, options), request, never(), KEY);
  const { abortSignal: _signal, ...asked } = fake.asked[0] ?? { prompt: [] };
  return { options: asked, reply };
}

/** The twelfth agent of its role shares a key with the fourth. */
const KEY = { cacheKey: { role: "0123456789ab", agent: 12 } };
const TOOL = { name: "weather", description: "Tells it.", inputSchema: { type: "object" } };
const QUESTION = [{ role: "user", content: [{ type: "text", text: "What is it?" }] }];

proves(
  ["M36"],
  "passes all settings that the AI SDK supports, and warns of the others",
  async () => {
    const { options, reply } = await exchange(
      {
        tools: [TOOL],
        toolChoice: { toolName: "weather" },
        maxOutputTokens: 321,
        temperature: 0.5,
        settings: {
          reasoning: { effort: "high", summary: "auto" },
          verbosity: "low",
          seed: 7,
          stopSequences: ["END"],
          topP: 0.9,
          parallelToolCalls: false,
        },
      },
      { reasoning: "low", headers: { "x-team": "a" }, providerOptions: { fake: { own: 1 } } },
    );
    expect(options).toEqual({
      prompt: QUESTION,
      tools: [{ type: "function", ...TOOL }],
      toolChoice: { type: "tool", toolName: "weather" },
      maxOutputTokens: 321,
      temperature: 0.5,
      topP: 0.9,
      seed: 7,
      stopSequences: ["END"],
      reasoning: "high",
      headers: { "x-team": "a" },
      providerOptions: { fake: { own: 1 } },
      includeRawChunks: true,
    });
    expect(reply.warnings).toEqual(
      ["reasoning.summary", "verbosity", "parallelToolCalls"].map(
        (name) =>
          `The setting ${name} is not passed on. Set it in providerOptions, in the form of the provider.`,
      ),
    );
  },
);

test("contains no further options if none are set", async () => {
  expect((await exchange({ toolChoice: "required" })).options).toEqual({
    prompt: QUESTION,
    maxOutputTokens: 100,
    includeRawChunks: true,
  });
});

test.each(["auto", "none", "required"] as const)(
  "passes the tool choice %s on",
  async (toolChoice) => {
    const { options } = await exchange({ tools: [TOOL], toolChoice });
    expect(options?.toolChoice).toEqual({ type: toolChoice });
  },
);

test("sends only those tools of which one must be called", async () => {
  const tools = [TOOL, { ...TOOL, name: "news" }, { ...TOOL, name: "mail" }];
  const { options } = await exchange({ tools, toolChoice: { toolNames: ["weather", "mail"] } });
  expect([options?.tools?.map(({ name }) => name), options?.toolChoice]).toEqual([
    ["weather", "mail"],
    { type: "required" },
  ]);
});

proves(
  ["M36"],
  "sends a strict tool in the strict form of its schema, and removes the nulls that this adds",
  async () => {
    const inputSchema = {
      type: "object",
      properties: { place: { type: "string" }, day: { type: "string" } },
      required: ["place"],
    };
    const fake = saying([
      {
        type: "tool-call",
        toolCallId: "c",
        toolName: "weather",
        input: '{"place":"here","day":null}',
      },
      finish("tool-calls"),
    ]);
    const tools = [{ ...TOOL, inputSchema, strictSchema: true }];
    const { message } = await ask(aiSdkModel(fake), { tools });
    expect(fake.asked[0]?.tools).toEqual([
      {
        type: "function",
        name: "weather",
        description: "Tells it.",
        inputSchema: {
          type: "object",
          properties: {
            place: { type: "string" },
            day: { anyOf: [{ type: "string" }, { type: "null" }] },
          },
          required: ["place", "day"],
          additionalProperties: false,
        },
        strict: true,
      },
    ]);
    expect(message.toolCalls.map(({ argumentsText }) => argumentsText)).toEqual([
      '{"place":"here"}',
    ]);
  },
);

function called(argumentsText: string, id: string): readonly Message[] {
  const callId = CallIdSchema().parse(id);
  return [
    { role: "assistant", text: "", toolCalls: [{ callId, toolName: "weather", argumentsText }] },
    { role: "tool", callId, toolName: "weather", text: `result of ${id}` },
  ];
}

proves(["M38"], "wraps arguments that are not a JSON object", async () => {
  const written = ['{"a":1}', "", "{'a':1,}", '{"broken', "3", "null", "[1]"];
  const messages = written.flatMap((argumentsText, index) => called(argumentsText, `c${index}`));
  const { options } = await exchange({ messages });
  const inputs = options?.prompt.flatMap(({ role, content }) =>
    role === "assistant" ? content.map((part) => ("input" in part ? part.input : undefined)) : [],
  );
  expect(inputs).toEqual([
    { a: 1 },
    {},
    { a: 1 },
    { invalid: '{"broken' },
    { invalid: "3" },
    { invalid: "null" },
    { invalid: "[1]" },
  ]);
});

test("combines the results of one reply in one message and omits an empty reply", async () => {
  const [reply, ...results] = [...called("{}", "a"), ...called("{}", "b").slice(1)];
  const { options } = await exchange({
    messages: [
      { role: "system", text: "Be brief.", origin: "instructions" },
      ...(reply === undefined ? [] : [reply]),
      ...results,
      { role: "assistant", text: "", toolCalls: [] },
    ],
  });
  const resultOf = (id: string): object => ({
    type: "tool-result",
    toolCallId: id,
    toolName: "weather",
    output: { type: "text", value: `result of ${id}` },
  });
  expect(options?.prompt).toEqual([
    { role: "system", content: "Be brief." },
    {
      role: "assistant",
      content: [{ type: "tool-call", toolCallId: "a", toolName: "weather", input: {} }],
    },
    { role: "tool", content: [resultOf("a"), resultOf("b")] },
  ]);
});

describe("the options of single providers", () => {
  const told = async (
    provider: string,
    options: AiSdkOptions = {},
    request: Partial<ModelRequest> = {},
  ) => (await exchange(request, options, provider)).options?.providerOptions;

  proves(
    ["M36"],
    "store nothing at OpenAI unless requested, and contain the cache key",
    async () => {
      const promptCacheKey = "esp-0123456789ab-4";
      expect([
        await told("openai.responses"),
        await told("openai.responses", { providerOptions: { openai: { store: true } } }),
        await told("openai.chat"),
        await told("azure.responses"),
        await told("azure.responses", { providerOptions: { azure: { user: "u" } } }),
      ]).toEqual([
        { openai: { store: false, promptCacheKey } },
        { openai: { store: true, promptCacheKey } },
        { openai: { promptCacheKey } },
        { openai: { store: false, promptCacheKey } },
        { azure: { store: false, promptCacheKey, user: "u" } },
      ]);
    },
  );

  test("contain reasoning in OpenRouter's own form", async () => {
    const own = { providerOptions: { openrouter: { reasoning: { max_tokens: 50 } } } };
    expect([
      await told("openrouter.chat", { reasoning: "high" }),
      await told("openrouter.chat", { reasoning: "high", ...own }),
      await told("openrouter.chat", { reasoning: "provider-default" }),
    ]).toEqual([
      { openrouter: { reasoning: { effort: "high" } } },
      { openrouter: { reasoning: { max_tokens: 50 } } },
      { openrouter: {} },
    ]);
  });

  proves(["M32"], "contain the cap in Ollama's own form, and no higher one", async () => {
    const own = (num_predict: number): AiSdkOptions => ({
      providerOptions: { ollama: { think: true, options: { num_ctx: 8_192, num_predict } } },
    });
    expect([
      await told("ollama.responses"),
      await told("ollama.responses", own(50)),
      await told("ollama.responses", own(5_000)),
      await told("ollama.responses", own(-1)),
    ]).toEqual([
      { ollama: { options: { num_predict: 100 } } },
      { ollama: { think: true, options: { num_ctx: 8_192, num_predict: 50 } } },
      { ollama: { think: true, options: { num_ctx: 8_192, num_predict: 100 } } },
      { ollama: { think: true, options: { num_ctx: 8_192, num_predict: 100 } } },
    ]);
  });
});
