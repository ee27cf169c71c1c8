// Goal: every failure below the AI SDK becomes a ModelError that states whether and when to retry,
// and quotes no request.
// Method: models that fail in each way in which providers do, with the errors of `@ai-sdk/provider`
// itself and similar values.

import {
  APICallError,
  InvalidResponseDataError,
  JSONParseError,
  LoadAPIKeyError,
  UnsupportedFunctionalityError,
  type SharedV4Warning,
} from "@ai-sdk/provider";
import { describe, expect, test } from "vitest";

import { aiSdkModel } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { proves } from "../../harness/proves.ts";
import { rejection, type FailureFacts } from "../../support/openai-calls.ts";
import {
  ask,
  fakeModel,
  finish,
  NO_USAGE,
  saying,
  text,
  type FakeModel,
  type Part,
} from "../../support/ai-sdk/fake-model.ts";

async function failureOf(model: FakeModel): Promise<FailureFacts> {
  const thrown = await rejection(ask(aiSdkModel(model)));
  if (!(thrown instanceof ModelError)) throw new Error("Expected a ModelError.", { cause: thrown });
  const { code, message, isRetryable, retryAfterMs, lostOutputTokens, data, cause } = thrown;
  expect(JSON.stringify([message, data, String(cause)])).not.toContain("What is it?");
  return { code, message, isRetryable, retryAfterMs, lostOutputTokens, data };
}

const failing = (error: unknown): FakeModel => fakeModel(() => Promise.reject(error));

function callError(
  statusCode: number | undefined,
  message: string,
  more: {
    readonly headers?: Record<string, string>;
    readonly error?: object;
    readonly responseBody?: string;
  } = {},
): APICallError {
  return new APICallError({
    message,
    url: "https://api.example.com",
    requestBodyValues: { prompt: "What is it?" },
    ...(statusCode === undefined ? {} : { statusCode }),
    ...(more.headers === undefined ? {} : { responseHeaders: more.headers }),
    ...(more.error === undefined ? {} : { data: { error: more.error } }),
    ...(more.responseBody === undefined ? {} : { responseBody: more.responseBody }),
  });
}

proves(["D474"], "reads a delay that only the body states, in words or as RetryInfo", async () => {
  const details = [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "34.4s" }];
  const errors = [
    callError(429, "Rate limit reached. Please try again in 6m0s."),
    callError(429, "Quota exceeded.", { error: { message: "Quota exceeded.", details } }),
    // The schema of a provider drops unknown fields.
    callError(429, "Quota exceeded.", {
      error: { message: "Quota exceeded." },
      responseBody: JSON.stringify([{ error: { message: "Quota exceeded.", details } }]),
    }),
    callError(429, "Please try again in 6m0s.", { headers: { "retry-after": "3" } }),
  ];
  const delays = await Promise.all(
    errors.map(async (error) => (await failureOf(failing(error))).retryAfterMs),
  );
  expect(delays).toEqual([360_000, 34_400, 34_400, 3_000]);
});

proves(
  ["M33"],
  "reports the status, the provider's message and the delay of a refusal",
  async () => {
    const error = callError(429, "Too many requests", {
      headers: { "retry-after": "3" },
      error: { type: "rate_limit_error", message: "Too many requests" },
    });
    expect(await failureOf(failing(error))).toEqual({
      code: "model_rate_limited",
      message:
        "Expected a reply from the model, got status 429 Too many requests. Wait, set limits on the model, raise retryPolicy.maxAttempts, or add a model with withFallback.",
      isRetryable: true,
      retryAfterMs: 3_000,
      lostOutputTokens: undefined,
      data: { status: 429, providerType: "rate_limit_error" },
    });
  },
);

test.each([
  [callError(529, "Overloaded"), "model_overloaded"],
  [callError(500, "Oops"), "model_unavailable"],
  [callError(401, "Who are you?"), "model_unauthorized"],
  [callError(400, "Bad"), "model_invalid_request"],
  [callError(400, "prompt is too long: 3333404 tokens > 200000 maximum"), "model_context_overflow"],
  [
    callError(400, "Too much", { error: { code: "context_length_exceeded" } }),
    "model_context_overflow",
  ],
  [callError(429, "Empty", { error: { code: "insufficient_quota" } }), "model_invalid_request"],
  [callError(200, "Invalid JSON response"), "model_protocol_error"],
  [callError(undefined, "Cannot connect to API: ECONNREFUSED"), "model_unavailable"],
  [new TypeError("fetch failed"), "model_unavailable"],
  [Object.assign(new Error("reset"), { code: "ECONNRESET" }), "model_unavailable"],
  [new Error("wrapped", { cause: { code: "UND_ERR_SOCKET" } }), "model_unavailable"],
  [new DOMException("late", "TimeoutError"), "model_timeout"],
  [new DOMException("gone", "AbortError"), "model_unavailable"],
  [new LoadAPIKeyError({ message: "API key is missing." }), "model_unauthorized"],
  [new UnsupportedFunctionalityError({ functionality: "this" }), "model_invalid_request"],
  [new JSONParseError({ text: "{", cause: new Error("end") }), "model_protocol_error"],
  [new Error("something else"), "model_invalid_reply"],
  ["a text", "model_invalid_reply"],
] as const)("maps %s to %s", async (error, code) => {
  const facts = await failureOf(failing(error));
  expect({ code: facts.code, lost: facts.lostOutputTokens }).toEqual({ code, lost: undefined });
});

describe("a stream that breaks", () => {
  const broken = (...parts: readonly Part[]): FakeModel =>
    saying([...text("A long story."), ...parts]);

  test.each([
    [{ type: "overloaded_error", message: "Overloaded", statusCode: 529 }, "model_overloaded"],
    [{ message: "Slow down", code: "rate_limit_exceeded" }, "model_rate_limited"],
    [{ message: "Oops", code: 502 }, "model_unavailable"],
    ["Oops", "model_unavailable"],
    [callError(503, "Oops"), "model_overloaded"],
    [new InvalidResponseDataError({ data: undefined, message: "No end." }), "model_unavailable"],
    [new InvalidResponseDataError({ data: {}, message: "No name." }), "model_protocol_error"],
  ])("maps the error %s to %s and charges the part received", async (error, code) => {
    const facts = await failureOf(broken({ type: "error", error }, finish("error")));
    expect({ code: facts.code, lost: facts.lostOutputTokens }).toEqual({ code, lost: 5 });
  });

  proves(
    ["M33"],
    "is not a reply if it ends before the model has, however its provider reports that",
    async () => {
      const ends: readonly (readonly Part[])[] = [
        [],
        [finish("interrupted", null)],
        [finish("other", null, NO_USAGE)],
      ];
      const facts = await Promise.all(ends.map((end) => failureOf(broken(...end))));
      expect(facts.map(({ code, lostOutputTokens }) => [code, lostOutputTokens])).toEqual([
        ["model_unavailable", 5],
        ["model_unavailable", 5],
        ["model_unavailable", 5],
      ]);
      const calls = [...text("A"), finish("tool-calls", null, NO_USAGE)];
      expect((await failureOf(saying(calls, "openrouter.chat"))).code).toBe("model_unavailable");
      expect((await ask(aiSdkModel(saying(calls)))).finishReason).toBe("tool_calls");
    },
  );

  test("is a retryable failure if its connection breaks", async () => {
    async function* parts(): AsyncGenerator<Part> {
      yield* text("A long story.");
      throw new TypeError("terminated");
    }
    const facts = await failureOf(fakeModel(() => ({ stream: ReadableStream.from(parts()) })));
    expect(facts).toEqual({
      code: "model_unavailable",
      message:
        "Expected a reply from the model, got a reply that was cut (terminated). Try again. If it persists, check the network and the provider's base URL.",
      isRetryable: true,
      retryAfterMs: undefined,
      lostOutputTokens: 5,
      data: {},
    });
  });

  test.each([
    ["no part", null],
    ["a text without text", { type: "text-delta", id: "t", delta: 3 }],
    ["a call without input", { type: "tool-call", toolCallId: "c", toolName: "t" }],
    ["an end without usage", { type: "finish", finishReason: { unified: "stop" } }],
    ["an end without a reason", { type: "finish" }],
  ])("is a fault of the provider because of %s", async (_what, part) => {
    const stream = ReadableStream.from<Part>(anything([...text("A long story."), part]));
    expect((await failureOf(fakeModel(() => ({ stream })))).code).toBe("model_invalid_reply");
  });
});

proves(["M33"], "reports the warnings of a provider with the reply", async () => {
  const warnings: SharedV4Warning[] = [
    { type: "unsupported", feature: "topK" },
    { type: "compatibility", feature: "reasoning", details: "mapped to low" },
    { type: "deprecated", setting: "old", message: "Use new." },
    { type: "other", message: "Mind the gap." },
  ];
  const parts: readonly Part[] = [{ type: "stream-start", warnings }, ...text("ok"), finish()];
  expect((await ask(aiSdkModel(saying(parts)))).warnings).toEqual([
    "Not supported: topK",
    "Supported in part: reasoning (mapped to low)",
    "Deprecated: old. Use new.",
    "Mind the gap.",
  ]);
});

/** Returns parts that need not match their type. */
function anything(parts: readonly unknown[]): Iterable<Part> {
  const isPart = (_part: unknown): _part is Part => true;
  return parts.filter(isPart);
}
