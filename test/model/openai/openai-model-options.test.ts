// Goal: a model that cannot work is reported before its first use, and no invalid option is
// ignored.
// Method: valid and invalid definitions and environments, and where it matters the requests that a
// server receives.

import { afterEach, describe, expect, test, vi } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { proves } from "../../harness/proves.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import { openai, type OpenAiOptions } from "../../../src/model/openai/openai-model.ts";
import { API_KEY, modelAt, MODES, rejection, reply } from "../../support/openai-calls.ts";
import { OpenAiServer, says } from "../../support/openai-server.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

function environment(variables: { readonly key?: string; readonly url?: string }): void {
  vi.stubEnv("OPENAI_API_KEY", variables.key);
  vi.stubEnv("OPENAI_BASE_URL", variables.url);
}

function thrownBy(use: () => unknown): { readonly code: string; readonly message: string } {
  try {
    use();
  } catch (thrown) {
    if (EspalierError.is(thrown)) return { code: thrown.code, message: thrown.message };
    throw thrown;
  }
  throw new Error("Expected an error, got none.");
}

const NO_KEY = {
  code: "missing_api_key",
  message:
    "Expected an API key for the model gpt-5-mini, got none. Set the environment variable OPENAI_API_KEY or the option apiKey; for a server that needs no key, set OPENAI_BASE_URL or the option baseUrl.",
};

test("rejects an API key that a header cannot contain, without quoting the key", () => {
  for (const apiKey of ["sk-one\nsk-two", "sk-\u043a\u043b\u044e\u0447"])
    expect(thrownBy(() => openai("gpt-5-mini", { apiKey }).assertReady?.())).toMatchObject({
      code: "invalid_argument",
      message:
        'Expected openai.apiKey to be characters that HTTP allows in a header, got "others". Copy the key again, on one line.',
    });
});

test("creates a frozen model with its provider, its id and its price", () => {
  const price = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };
  const model = openai("gpt-5-mini", { price });
  expect({
    provider: model.provider,
    id: model.id,
    price: model.price,
    isFrozen: Object.isFrozen(model),
  }).toEqual({
    provider: "openai",
    id: "gpt-5-mini",
    price,
    isFrozen: true,
  });
});

describe("the API key", () => {
  test("is read when the model is used, not when the model is defined", () => {
    environment({});
    const model = openai("gpt-5-mini");
    expect(thrownBy(() => model.assertReady?.())).toEqual(NO_KEY);
    environment({ key: API_KEY });
    expect(model.assertReady?.()).toBe(undefined);
  });

  test.each<[string, OpenAiOptions, { key?: string; url?: string }]>([
    ["neither option nor variable", {}, {}],
    ["an empty variable", {}, { key: " " }],
    ["an empty option, whatever the variable", { apiKey: " " }, { key: API_KEY }],
  ])("is reported as missing with %s", async (_what, options, variables) => {
    environment(variables);
    const model = openai("gpt-5-mini", options);
    expect(thrownBy(() => model.assertReady?.())).toEqual(NO_KEY);
    for (const mode of MODES) expect(await rejection(reply(model, mode))).toMatchObject(NO_KEY);
  });

  test("may be omitted if a base URL is given by option or variable", async () => {
    await using server = await OpenAiServer.start(() => says("ok"));
    environment({});
    await reply(openai("m", { baseUrl: server.baseUrl }), "whole");
    environment({ url: server.baseUrl });
    await reply(openai("m"), "streamed");
    await reply(openai("m", { apiKey: " " }), "whole");
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([
      "Bearer none",
      "Bearer none",
      "Bearer none",
    ]);
  });

  test("is taken from the option, else from the environment", async () => {
    await using server = await OpenAiServer.start(() => says("ok"));
    environment({ key: "sk-environment", url: server.baseUrl });
    await reply(openai("m"), "whole");
    await reply(openai("m", { apiKey: "sk-option" }), "whole");
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([
      "Bearer sk-environment",
      "Bearer sk-option",
    ]);
  });
});

test("takes the base URL from the option, else from the environment", async () => {
  await using first = await OpenAiServer.start(() => says("first"));
  await using second = await OpenAiServer.start(() => says("second"));
  environment({ url: first.baseUrl });
  const texts = [
    await reply(openai("m"), "whole"),
    await reply(openai("m", { baseUrl: `${second.baseUrl}/` }), "whole"),
  ];
  expect(texts.map(({ reply: { message } }) => message.text)).toEqual(["first", "second"]);
  expect(second.request(1).path).toBe("/v1/chat/completions");
});

test("ignores an empty base URL in the environment", () => {
  environment({ key: API_KEY, url: " " });
  expect(openai("m").assertReady?.()).toBe(undefined);
});

test("rejects an invalid base URL in the environment before the first request", () => {
  environment({ key: API_KEY, url: "localhost:8080" });
  expect(thrownBy(() => openai("m").assertReady?.())).toEqual({
    code: "invalid_argument",
    message:
      'Expected OPENAI_BASE_URL to be an http or https URL, got "localhost:8080". Add the scheme: http://localhost:8080, or https://.',
  });
});

proves(
  ["S7.37"],
  "reports a base URL without a scheme with its correction, including when a run starts",
  () => {
    environment({ key: API_KEY, url: "localhost:11434/v1" });
    const role = defineAgent({ name: "solo", instructions: "Work.", model: openai("m") });
    const advice = "Add the scheme: http://localhost:11434/v1, or https://.";
    expect(thrownBy(() => new Orchestrator().start(role, "Do it."))).toEqual({
      code: "invalid_argument",
      message: `Expected OPENAI_BASE_URL to be an http or https URL, got "localhost:11434/v1". ${advice}`,
    });
    expect(thrownBy(() => openai("m", { baseUrl: "localhost:11434/v1" }))).toEqual({
      code: "invalid_argument",
      message: `Expected openai.baseUrl to be an http or https URL, got "localhost:11434/v1". ${advice}`,
    });
  },
);

test.each<[object, string]>([
  [
    { apikey: "x" },
    'Expected openai.apikey to be one of apiKey, baseUrl, price, countTokens, timeoutMs, limits, maxTokensField, reasoningField, inputModalities, headers, proxy, fetch, api, provider, serviceTier, promptCacheKey, strictTools, supportsStructuredOutputs, extraBody, reasoning, verbosity, seed, stopSequences, topP, parallelToolCalls, got "apikey". Use apiKey.',
  ],
  [
    { apiKey: 7 },
    'Expected openai.apiKey to be text, got "number". Leave it out to use OPENAI_API_KEY.',
  ],
  [
    { baseUrl: "localhost" },
    'Expected openai.baseUrl to be an http or https URL, got "localhost". Add the scheme: http://localhost, or https://.',
  ],
  [
    { baseUrl: "ftp://localhost" },
    'Expected openai.baseUrl to be an http or https URL, got "ftp://localhost". Pass the URL without /chat/completions.',
  ],
  [
    { baseUrl: "http://" },
    'Expected openai.baseUrl to be an http or https URL, got "http://". Pass the URL without /chat/completions.',
  ],
  [
    { price: { inputUsdPerMillion: -1, outputUsdPerMillion: 1 } },
    "Expected openai.price.inputUsdPerMillion to be a number from 0 to 1000000, got -1. Set US dollars per million tokens, or leave an unknown price out.",
  ],
  [
    { timeoutMs: 0 },
    "Expected openai.timeoutMs to be a whole number from 1 up, got 0. Leave it out for ten minutes.",
  ],
  [
    { timeoutMs: Infinity },
    "Expected openai.timeoutMs to be a whole number from 1 up, got Infinity. Leave it out for ten minutes.",
  ],
  [
    { maxTokensField: "max" },
    'Expected openai.maxTokensField to be max_completion_tokens or max_tokens, got "max". Leave it out to go by the base URL.',
  ],
  [
    { headers: { "bad name": "x" } },
    "Expected openai.headers to be names and values that HTTP allows, got an object. Correct them.",
  ],
  [
    { fetch: "fetch" },
    'Expected openai.fetch to be a function like fetch, got "fetch". Leave it out for the built-in transport.',
  ],
])("rejects the options %j", (options, message) => {
  expect(thrownBy(() => Reflect.apply(openai, undefined, ["m", options]))).toEqual({
    code: "invalid_argument",
    message,
  });
});

test("rejects an empty model id", () => {
  expect(thrownBy(() => openai(" "))).toEqual({
    code: "invalid_argument",
    message: 'Expected openai.modelId to be a non-empty string, got " ". Pass some text.',
  });
});

describe.each(MODES)("a custom fetch for a reply that comes %s", (mode) => {
  test("sends the requests and receives the abort signal", async () => {
    await using server = await OpenAiServer.start(() => says("It is a tree."));
    const sent: { url: string; method: string | undefined; hasSignal: boolean }[] = [];
    const watched: typeof globalThis.fetch = (url, init) => {
      sent.push({
        url: url instanceof Request ? url.url : url.toString(),
        method: init?.method,
        hasSignal: init?.signal instanceof AbortSignal,
      });
      return fetch(url, init);
    };
    const { reply: result, pieces } = await reply(modelAt(server, { fetch: watched }), mode);
    expect({ text: result.message.text, pieces }).toEqual({
      text: "It is a tree.",
      pieces: mode === "whole" ? [] : ["It i", "s a ", "tree", "."],
    });
    expect(sent).toEqual([
      { url: `${server.baseUrl}/chat/completions`, method: "POST", hasSignal: true },
    ]);
  });

  test("closes its socket when the call is aborted", async () => {
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
    const { promise: never } = Promise.withResolvers<ReturnType<typeof says>>();
    await using server = await OpenAiServer.start(() => {
      arrive();
      return never;
    });
    const caller = new AbortController();
    const call = rejection(
      reply(modelAt(server, { fetch: globalThis.fetch }), mode, caller.signal),
    );
    await arrived;
    caller.abort("enough");
    expect([await call, await server.request(1).ended]).toEqual(["enough", "closed early"]);
  });
});
