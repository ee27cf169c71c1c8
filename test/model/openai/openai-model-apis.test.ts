// Goal: openai() uses the interface of its server with the settings of the model and the request.
// Otherwise the error names the interface that is needed.
// Method: valid and invalid options; requests to a server that records them; failures in the words
// of real servers.

import type { ChatCompletionCreateParamsNonStreaming } from "openai/resources/chat/completions";
import type { ResponseCreateParamsNonStreaming } from "openai/resources/responses/responses";
import { afterEach, describe, expect, test, vi } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { GenerateOptions, ModelRequest } from "../../../src/model/model.ts";
import { openai, type OpenAiOptions } from "../../../src/model/openai/openai-model.ts";
import type { ModelSettings } from "../../../src/protocol/model-settings.ts";
import { proves } from "../../harness/proves.ts";
import {
  API_KEY,
  failure,
  modelAt,
  never,
  QUESTION,
  rejection,
  reply,
} from "../../support/openai-calls.ts";
import { OpenAiServer, says, type ServerReply } from "../../support/openai-server.ts";
import { rejectionOf, thrownBy } from "../../support/thrown.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

async function addressAt(
  baseUrl: string | undefined,
  options: OpenAiOptions = {},
): Promise<string> {
  let address = "";
  const fetch: typeof globalThis.fetch = (url) => {
    address = url instanceof Request ? url.url : url.toString();
    return Promise.reject(new TypeError("no network"));
  };
  const at = baseUrl === undefined ? {} : { baseUrl };
  await rejection(reply(openai("m", { apiKey: API_KEY, fetch, ...at, ...options }), "whole"));
  return new URL(address).pathname;
}

proves(
  ["M16"],
  "uses Responses at OpenAI and its regions, and Chat Completions elsewhere, unless `api` is set",
  async () => {
    vi.stubEnv("OPENAI_BASE_URL", undefined);
    expect({
      none: await addressAt(undefined),
      openai: await addressAt("https://api.openai.com/v1"),
      region: await addressAt("https://eu.api.openai.com/v1"),
      lookalike: await addressAt("https://api.openai.com.evil.org/v1"),
      azure: await addressAt("https://mine.openai.azure.com/openai/v1"),
      azureTold: await addressAt("https://mine.openai.azure.com/openai/v1", { api: "responses" }),
      local: await addressAt("http://127.0.0.1:11434/v1"),
      told: await addressAt(undefined, { api: "chat_completions" }),
    }).toEqual({
      none: "/v1/responses",
      openai: "/v1/responses",
      region: "/v1/responses",
      lookalike: "/v1/chat/completions",
      azure: "/openai/v1/chat/completions",
      azureTold: "/openai/v1/responses",
      local: "/v1/chat/completions",
      told: "/v1/chat/completions",
    });
  },
);

test("sets `minOutputTokens` by the interface, which the environment may decide", () => {
  vi.stubEnv("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1");
  const model = openai("m");
  const least = [model.minOutputTokens, openai("m", { api: "responses" }).minOutputTokens];
  vi.stubEnv("OPENAI_BASE_URL", undefined);
  expect([...least, model.minOutputTokens]).toEqual([1, 16, 16]);
});

test("derives the provider from the host unless `provider` is set", () => {
  vi.stubEnv("OPENAI_BASE_URL", undefined);
  const at = (baseUrl: string): string => openai("m", { baseUrl }).provider;
  expect([
    openai("m").provider,
    at("https://eu.api.openai.com/v1"),
    at("https://mine.openai.azure.com/openai/v1"),
    at("https://api.deepseek.com"),
    at("https://openrouter.ai/api/v1"),
    at("http://localhost:11434/v1"),
    openai("m", { baseUrl: "http://localhost:11434/v1", provider: "ollama" }).provider,
  ]).toEqual(["openai", "openai", "azure.ai.openai", "deepseek", "openrouter", "openai", "ollama"]);
});

const TOOLS = ["add", "list"].map((name) => ({
  name,
  description: "Does it.",
  inputSchema: { type: "object" },
}));

/** Returns the body of a request without the fields that every request has. */
async function fieldsOf(
  options: OpenAiOptions,
  more: Partial<ModelRequest>,
  generation: Partial<GenerateOptions> = {},
): Promise<object> {
  await using server = await OpenAiServer.start(() => says("ok"));
  const request = { ...QUESTION, tools: TOOLS, ...more };
  await modelAt(server, options)
    .generate(request, { signal: never(), ...generation })
    .catch(() => undefined); // The server answers in the format of Chat Completions.
  const own = ["model", "messages", "input", "tools", "max_tokens", "max_output_tokens"];
  const { body } = server.request(1);
  return Object.fromEntries(Object.entries(body).filter(([name]) => !own.includes(name)));
}

const ALWAYS = { store: false, include: ["reasoning.encrypted_content"] } as const;
const SETTINGS = {
  reasoning: { effort: "low" },
  verbosity: "high",
  topP: 0.5,
  parallelToolCalls: false,
  serviceTier: "flex",
} as const satisfies OpenAiOptions;

type Responses = Partial<ResponseCreateParamsNonStreaming>;
type Chat = Partial<ChatCompletionCreateParamsNonStreaming>;

proves(
  ["M17"],
  "sends settings as fields of the request in the format of its interface",
  async () => {
    const summary = { reasoning: { effort: "low", summary: "auto" } } as const;
    expect(await fieldsOf({ api: "responses", ...SETTINGS, ...summary }, {})).toEqual({
      top_p: 0.5,
      reasoning: { effort: "low", summary: "auto" },
      text: { verbosity: "high" },
      parallel_tool_calls: false,
      service_tier: "flex",
      ...ALWAYS,
      include: [...ALWAYS.include],
    } satisfies Responses);
    expect(await fieldsOf({ ...SETTINGS, seed: 7, stopSequences: ["END"] }, {})).toEqual({
      top_p: 0.5,
      seed: 7,
      stop: ["END"],
      reasoning_effort: "low",
      verbosity: "high",
      parallel_tool_calls: false,
      service_tier: "flex",
    } satisfies Chat);
  },
);

proves(
  ["M17"],
  "overrides settings of the model with those of the request, one by one",
  async () => {
    const settings = { reasoning: { summary: "auto" }, verbosity: "low" } as const;
    expect(await fieldsOf({ api: "responses", ...SETTINGS }, { settings })).toMatchObject({
      reasoning: { effort: "low", summary: "auto" },
      text: { verbosity: "low" },
      top_p: 0.5,
    });
  },
);

const CHOICES = [
  ["auto", "auto", "auto"],
  ["none", "none", "none"],
  ["required", "required", "required"],
  [
    { toolName: "add" },
    { type: "function", name: "add" },
    { type: "function", function: { name: "add" } },
  ],
  [
    { toolNames: ["add", "list"] },
    {
      type: "allowed_tools",
      mode: "required",
      tools: [
        { type: "function", name: "add" },
        { type: "function", name: "list" },
      ],
    },
    {
      type: "allowed_tools",
      allowed_tools: {
        mode: "required",
        tools: [
          { type: "function", function: { name: "add" } },
          { type: "function", function: { name: "list" } },
        ],
      },
    },
  ],
] as const satisfies readonly (readonly [
  ModelRequest["toolChoice"],
  Responses["tool_choice"],
  Chat["tool_choice"],
])[];

proves(["M16"], "selects the interface by ESPALIER_OPENAI_API unless `api` is set", () => {
  const least = (options: OpenAiOptions = {}): number | undefined =>
    openai("m", { baseUrl: "http://127.0.0.1/v1", ...options }).minOutputTokens;
  vi.stubEnv("ESPALIER_OPENAI_API", "responses");
  expect([least(), least({ api: "chat_completions" })]).toEqual([16, 1]);
  vi.stubEnv("ESPALIER_OPENAI_API", "completions");
  const model = openai("m", { baseUrl: "http://127.0.0.1/v1" });
  expect(thrownBy(() => model.assertReady?.()).message).toBe(
    'Expected ESPALIER_OPENAI_API to be "responses" or "chat_completions", got "completions". Leave it out to go by the base URL.',
  );
});

test.each(CHOICES)(
  "sends the tool choice %j in the format of each interface",
  async (toolChoice, responses, chat) => {
    expect(await fieldsOf({ api: "responses" }, { toolChoice })).toEqual({
      tool_choice: responses,
      ...ALWAYS,
    });
    expect(await fieldsOf({}, { toolChoice })).toEqual({ tool_choice: chat });
  },
);

proves(
  ["M41"],
  "sends a prompt cache key to OpenAI, and to other servers only if `promptCacheKey` is set",
  async () => {
    const key = { cacheKey: { role: "0123456789ab", agent: 12 } };
    const sent = [
      await fieldsOf({ api: "responses" }, {}, key),
      await fieldsOf({ api: "responses", promptCacheKey: "agent" }, {}, key),
      await fieldsOf({ api: "responses", promptCacheKey: false }, {}, key),
      await fieldsOf({ promptCacheKey: "role" }, {}, key),
      await fieldsOf({}, {}, key),
    ];
    expect(sent).toEqual([
      { prompt_cache_key: "esp-0123456789ab-4", ...ALWAYS },
      { prompt_cache_key: "esp-0123456789ab-12", ...ALWAYS },
      ALWAYS,
      { prompt_cache_key: "esp-0123456789ab-4" },
      {},
    ]);
  },
);

proves(
  ["M40"],
  "rejects a role's setting that its interface does not support in `defineAgent`",
  () => {
    const define = (options: OpenAiOptions, modelSettings: ModelSettings) => (): unknown =>
      defineAgent({
        name: "solo",
        instructions: "Work.",
        model: openai("m", { apiKey: "k", ...options }),
        modelSettings,
      });
    expect(define({ api: "chat_completions" }, { seed: 7 })).not.toThrow();
    expect(thrownBy(define({ api: "responses" }, { seed: 7 })).message).toBe(
      'Expected modelSettings.seed to be left out, got 7. Responses has no such field. Leave it out, or set api: "chat_completions".',
    );
  },
);

test("merges `extraBody` last, over its own fields", async () => {
  const extraBody = { metadata: { run: "1" }, include: [], service_tier: "priority" };
  expect(await fieldsOf({ api: "responses", ...SETTINGS, extraBody }, {})).toMatchObject({
    metadata: { run: "1" },
    include: [],
    service_tier: "priority",
    store: false,
  });
  const chat = await fieldsOf({ serviceTier: "flex", extraBody }, {});
  expect(chat).toEqual({ service_tier: "priority", metadata: { run: "1" }, include: [] });
});

test("copies its options, so later changes have no effect", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  const extraBody: { metadata: { run: string } } = { metadata: { run: "1" } };
  const reasoning: { effort: "low" | "high" } = { effort: "low" };
  const model = modelAt(server, { extraBody, reasoning });
  await reply(model, "whole");
  extraBody.metadata.run = "2";
  reasoning.effort = "high";
  await reply(model, "whole");
  expect(server.request(2).body).toEqual(server.request(1).body);
});

test.each<readonly [OpenAiOptions, string]>([
  [
    { api: "responses", seed: 1 },
    'Expected openai.seed to be left out, got 1. Responses has no such field. Leave it out, or set api: "chat_completions".',
  ],
  [
    { api: "responses", stopSequences: ["END"] },
    'Expected openai.stopSequences to be left out, got an array. Responses has no such field. Leave it out, or set api: "chat_completions".',
  ],
  [
    { api: "chat_completions", reasoning: { summary: "auto" } },
    'Expected openai.reasoning.summary to be left out, got "auto". Chat Completions has no summaries. Leave it out, or set api: "responses".',
  ],
  [
    { extraBody: { store: true } },
    "Expected openai.extraBody.store to be left out, got true. Use the option of the model, or the field of the request, for that.",
  ],
  [
    { extraBody: { max_tokens: 1 } },
    "Expected openai.extraBody.max_tokens to be left out, got 1. Use the option of the model, or the field of the request, for that.",
  ],
  [
    { topP: 0 },
    "Expected openai.topP to be a number over 0, up to 1, got 0. Leave it out for the provider's default.",
  ],
  [
    { stopSequences: [] },
    "Expected openai.stopSequences to be an array of 1 to 4 non-empty strings, got an array. Leave it out for the provider's default.",
  ],
  [
    { seed: 0.5 },
    "Expected openai.seed to be a whole number, got 0.5. Leave it out for the provider's default.",
  ],
])("rejects the options %j", (options, message) => {
  expect(thrownBy(() => openai("m", options))).toMatchObject({ code: "invalid_argument", message });
});

test.each<readonly [object, string]>([
  [{ api: "assistants" }, 'openai.api to be "responses" or "chat_completions", got "assistants"'],
  [{ reasoning: { effort: "hard" } }, 'openai.reasoning.effort to be one of "none"'],
  [{ reasoning: { efort: "low" } }, "openai.reasoning.efort to be one of effort, summary"],
  [{ verbosity: "much" }, 'openai.verbosity to be one of "low", "medium", "high", got "much"'],
  [{ parallelToolCalls: "no" }, 'openai.parallelToolCalls to be true or false, got "no"'],
  [{ extraBody: [] }, "openai.extraBody to be a plain object, got an array"],
  [{ extraBody: { at: new Date(0) } }, "openai.extraBody to be plain JSON, but .at is a date"],
])("rejects the options %j that violate their type", (options, message) => {
  expect(() => {
    Reflect.apply(openai, undefined, ["m", options]);
  }).toThrow(message);
});

proves(
  ["M17"],
  "rejects an unsupported setting once the environment has decided the interface, and in a request",
  async () => {
    vi.stubEnv("OPENAI_BASE_URL", undefined);
    vi.stubEnv("OPENAI_API_KEY", API_KEY);
    const seeded = openai("m", { seed: 1 });
    expect(thrownBy(() => seeded.assertReady?.()).message).toMatch(/^Expected openai\.seed/);
    await using server = await OpenAiServer.start(() => says("ok"));
    const request = { ...QUESTION, settings: { seed: 1 } };
    const asked = modelAt(server, { api: "responses" }).generate(request, { signal: never() });
    expect(await rejectionOf(asked)).toMatchObject({
      code: "model_invalid_request",
      message:
        'Expected settings.seed to be left out, got 1. Responses has no such field. Leave it out, or set api: "chat_completions".',
    });
    expect(server.requests).toEqual([]);
  },
);

describe("a server with only one of the interfaces", () => {
  const status = (code: number, body: unknown): ServerReply => ({
    type: "status",
    status: code,
    body,
  });

  /** Returns the error code, and whether the message ends with this advice. */
  async function failureOn(
    answer: ServerReply,
    options: OpenAiOptions,
    advice = "",
  ): Promise<readonly [string, boolean]> {
    await using server = await OpenAiServer.start(() => answer);
    const { code, message } = await failure(modelAt(server, options), "streamed");
    return [code, message.endsWith(advice)];
  }

  proves(["M11"], "is reported with the option to set", async () => {
    const advice =
      'The server at this address has no Responses API. Set api: "chat_completions", or correct the base URL.';
    for (const answer of [
      status(404, "404 page not found"),
      status(404, { detail: "Not Found" }),
      status(404, { error: { code: 404, message: "File Not Found", type: "not_found_error" } }),
      status(405, { detail: "Method Not Allowed" }),
    ])
      expect(await failureOn(answer, { api: "responses" }, advice)).toEqual([
        "model_protocol_error",
        true,
      ]);
    const refused = status(400, {
      error: {
        message:
          "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please use /v1/responses instead.",
      },
    });
    const other =
      'Leave api out at OpenAI itself, set api: "responses" elsewhere, or set reasoning: { effort: "none" }.';
    expect(await failureOn(refused, {}, other)).toEqual(["model_invalid_request", true]);
  });

  proves(["M11"], "is not confused with a server that lacks the model", async () => {
    for (const error of [
      { message: "The requested model 'm' does not exist.", code: "model_not_found" },
      {
        message: "The API deployment for this resource does not exist.",
        code: "DeploymentNotFound",
      },
      { message: 'model "m" not found, try pulling it first', code: null },
    ])
      expect(await failureOn(status(404, { error }), { api: "responses" })).toEqual([
        "model_invalid_request",
        true,
      ]);
  });

  test("is recognized by a body in the format of the other interface", async () => {
    const body: ServerReply = { type: "raw", body: '{"choices":[]}' };
    const advice = 'with the Responses API, or set api: "chat_completions".';
    expect(await failureOn(body, { api: "responses" }, advice)).toEqual([
      "model_protocol_error",
      true,
    ]);
  });
});
