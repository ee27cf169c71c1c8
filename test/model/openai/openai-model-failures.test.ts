// Goal: every failure has the right code, states whether a retry may help and what it cost, and
// never contains the API key.
// Method: the real client against a server that fails in every way, whole and streamed where both
// can happen.

import { describe, expect, test } from "vitest";

import { ModelError } from "../../../src/model/model-error.ts";
import { freePort } from "../../support/free-port.ts";
import {
  API_KEY,
  failure,
  failureOn,
  modelAt,
  MODES,
  rejection,
  reply,
} from "../../support/openai-calls.ts";
import { OpenAiServer, says, status, type ServerReply } from "../../support/openai-server.ts";

describe.each(MODES)("a call whose reply would come %s", (mode) => {
  test.each([
    [429, "model_rate_limited", true],
    [503, "model_overloaded", true],
    [529, "model_overloaded", true],
    [500, "model_unavailable", true],
    [502, "model_unavailable", true],
    [408, "model_timeout", true],
    [401, "model_unauthorized", false],
    [403, "model_unauthorized", false],
    [400, "model_invalid_request", false],
    [404, "model_invalid_request", false],
    [422, "model_invalid_request", false],
    [308, "model_invalid_request", false],
  ])("fails on status %i with %s", async (code, expected, isRetryable) => {
    const { message, ...facts } = await failureOn(status(code), mode);
    expect(facts).toEqual({
      code: expected,
      isRetryable,
      retryAfterMs: undefined,
      lostOutputTokens: undefined,
      data: { status: code, providerType: "test_error", requestId: "req_1" },
    });
    expect(message).toContain(
      `Expected a reply from the model, got status ${code} Failed with ${code}.`,
    );
  });

  test("fails with model_unavailable if no server is listening", async () => {
    const port = await freePort();
    const model = modelAt(await gone(), { baseUrl: `http://127.0.0.1:${port}/v1` });
    expect(await failure(model, mode)).toEqual({
      code: "model_unavailable",
      message: `Expected a reply from the model, got no connection (connect ECONNREFUSED 127.0.0.1:${port}). Try again. If it persists, check the network and the base URL.`,
      isRetryable: true,
      retryAfterMs: undefined,
      lostOutputTokens: undefined,
      data: {},
    });
  });

  test.each<[string, number | undefined]>([
    ["", undefined],
    ["null", undefined],
    ["[]", undefined],
    ["{}", undefined],
    ['{"choices":[]}', undefined],
    ['{"choices":[{}]}', undefined],
    ["<html>Welcome</html>", undefined],
    ['{"choices":[{"message":{"con', 10],
  ])("fails with model_protocol_error if the server answers %j", async (body, lostOutputTokens) => {
    const { message, ...facts } = await failureOn({ type: "raw", body }, mode);
    expect(message).toMatch(/^Expected a reply from the model, got a (body|response) .*/);
    expect(facts).toEqual({
      code: "model_protocol_error",
      isRetryable: false,
      retryAfterMs: undefined,
      lostOutputTokens,
      data: {},
    });
  });

  test("fails with model_protocol_error if a tool call has no name", async () => {
    const said = { type: "says", toolCalls: [{ id: "a", name: "", arguments: "{}" }] } as const;
    const { code, message } = await failureOn(said, mode);
    expect({ code, message }).toEqual({
      code: "model_protocol_error",
      message:
        "Expected a reply from the model, got a tool call that names no tool. Check that the base URL belongs to a server with the Chat Completions API.",
    });
  });
});

describe("an error object inside a reply", () => {
  const BEGUN = { choices: [{ index: 0, delta: { content: "Hello" } }] };

  test.each<[unknown, string]>([
    [
      { message: "Slow down.", type: "requests", code: "rate_limit_exceeded" },
      "model_rate_limited",
    ],
    [{ message: "Slow down.", code: 429 }, "model_rate_limited"],
    [{ message: "Too busy.", type: "overloaded_error" }, "model_overloaded"],
    [{ message: "Too busy.", code: "503" }, "model_overloaded"],
    [{ message: "Broken.", type: "server_error", code: null }, "model_unavailable"],
    [{ message: "Bad gateway.", code: 502 }, "model_unavailable"],
    [{ message: "Wrong.", type: "invalid_request_error" }, "model_invalid_request"],
    [{ message: "No money.", code: "insufficient_quota" }, "model_invalid_request"],
    [{ message: "Who are you?", type: "authentication_error" }, "model_unauthorized"],
    ["model is not loaded", "model_unavailable"],
  ])("is classified from %j as %s, whole and streamed", async (error, code) => {
    const whole = await failureOn({ type: "raw", body: JSON.stringify({ error }) });
    const streamed = await failureOn({ type: "events", data: [BEGUN, { error }] }, "streamed");
    expect([whole.code, whole.lostOutputTokens, streamed.code, streamed.lostOutputTokens]).toEqual([
      code,
      undefined,
      code,
      2,
    ]);
  });

  test("is quoted with its message, including the flat form of some servers", async () => {
    const error = {
      object: "error",
      message: "The tools are too many",
      type: "invalid_request_error",
      code: 400,
    };
    expect(await failureOn({ type: "events", data: [error] }, "streamed")).toEqual({
      code: "model_invalid_request",
      message:
        "Expected a reply from the model, got an error inside the reply: The tools are too many. Correct the request or the account: the same request will be refused again.",
      isRetryable: false,
      retryAfterMs: undefined,
      lostOutputTokens: undefined,
      data: { status: 400, providerCode: 400, providerType: "invalid_request_error" },
    });
  });
});

describe("the delay that a provider requests", () => {
  const NOW = "Tue, 15 Sep 2026 12:00:00 GMT";

  test.each<[Record<string, string>, number | undefined]>([
    [{ "retry-after-ms": "1500.5" }, 1_500.5],
    [{ "retry-after-ms": "250", "retry-after": "9" }, 250],
    [{ "retry-after-ms": "soon", "retry-after": "9" }, 9_000],
    [{ "retry-after-ms": "-5" }, 0],
    [{ "retry-after": "2" }, 2_000],
    [{ "retry-after": "0.5" }, 500],
    [{ "retry-after": "Tue, 15 Sep 2026 12:00:07 GMT", date: NOW }, 7_000],
    [{ "retry-after": "Tue, 15 Sep 2026 11:00:00 GMT", date: NOW }, 0],
    [{ "retry-after": "in a while", date: NOW }, undefined],
    [{}, undefined],
  ])("is read from %j as %s", async (headers, expected) => {
    expect((await failureOn(status(429, headers))).retryAfterMs).toBe(expected);
    expect((await failureOn(status(503, headers))).retryAfterMs).toBe(expected);
  });
});

test("reports an exhausted account with status 429 as not retryable", async () => {
  const error = {
    message: "You exceeded your current quota.",
    type: "insufficient_quota",
    code: "insufficient_quota",
  };
  const { code, isRetryable, data } = await failureOn({
    type: "status",
    status: 429,
    body: { error },
  });
  expect({ code, isRetryable, data }).toEqual({
    code: "model_invalid_request",
    isRetryable: false,
    data: {
      status: 429,
      providerCode: "insufficient_quota",
      providerType: "insufficient_quota",
      requestId: "req_1",
    },
  });
});

test("quotes only the beginning of a long error page", async () => {
  const { message } = await failureOn({
    type: "status",
    status: 502,
    body: `<html>${"x".repeat(10_000)}</html>`,
  });
  expect(message.length).toBeLessThan(700);
});

test("reports a connection timeout as model_timeout", async () => {
  const model = modelAt(await gone(), { fetch: slowFetch });
  const { code, message, isRetryable } = await failure(model, "whole");
  expect({ code, message, isRetryable }).toEqual({
    code: "model_timeout",
    message:
      "Expected a reply from the model, got no connection in time. Try again, or raise timeoutMs.",
    isRetryable: true,
  });
});

describe("the API key", () => {
  const leaks: readonly ServerReply[] = [
    {
      type: "status",
      status: 401,
      body: { error: { message: `Incorrect API key: ${API_KEY}.`, code: API_KEY } },
    },
    { type: "status", status: 400, body: `Bearer ${API_KEY}` },
    { type: "raw", body: `not JSON: ${API_KEY}` },
    { type: "raw", body: JSON.stringify({ error: { message: "bad", code: API_KEY } }) },
  ];

  test.each(leaks)("is in no error, even if the server quotes it: %j", async (answer) => {
    await using server = await OpenAiServer.start(() => answer);
    for (const mode of MODES) {
      expect(everythingIn(await rejection(reply(modelAt(server), mode)))).not.toContain(API_KEY);
    }
  });

  test("is in no error if it is not a valid header value", async () => {
    await using server = await OpenAiServer.start(() => says("ok"));
    const apiKey = "sk-with\nnew-line";
    const thrown = await rejection(reply(modelAt(server, { apiKey }), "whole"));
    expect(everythingIn(thrown)).not.toContain(apiKey);
    expect(thrown).toMatchObject({ code: "invalid_argument" });
  });

  test("is in no error of a fetch that quotes it", async () => {
    const thrown = await rejection(reply(modelAt(await gone(), { fetch: quotingFetch }), "whole"));
    expect(everythingIn(thrown)).not.toContain(API_KEY);
    expect(thrown).toMatchObject({ code: "model_unavailable", isRetryable: true });
  });
});

test("reports `Response.error()` from a custom fetch as retryable", async () => {
  const none = (): Promise<Response> => Promise.resolve(Response.error());
  const thrown = await rejection(reply(modelAt(await gone(), { fetch: none }), "whole"));
  expect(thrown).toMatchObject({ code: "model_unavailable", isRetryable: true });
});

/** Fails like a transport that cannot connect in time. */
function slowFetch(): Promise<Response> {
  return Promise.reject(new Error("Connect timed out"));
}

/** Throws an error with the key in its message. */
function quotingFetch(_url: unknown, init?: RequestInit): Promise<Response> {
  throw new Error(`Cannot send ${String(new Headers(init?.headers).get("authorization"))}.`);
}

/** Returns all text of an error that a log may print. */
function everythingIn(error: unknown): string {
  if (!(error instanceof Error)) return JSON.stringify(error);
  const fields = JSON.stringify(error instanceof ModelError ? error.data : Object.values(error));
  return [
    error.message,
    error.stack,
    fields,
    error.cause === undefined ? "" : everythingIn(error.cause),
  ].join("\n");
}

/** Returns a server that has been closed, for its address. */
async function gone(): Promise<OpenAiServer> {
  await using server = await OpenAiServer.start(() => says("ok"));
  return server;
}
