// Goal: each provider of the AI SDK receives its own data back byte for byte, and no other provider
// receives the data, even if the model changes and changes back.
// Method: the providers themselves over a scripted network, with streams of their servers; the
// bodies that they send.

import { readFileSync } from "node:fs";

import { describe, expect, test } from "vitest";

import { aiSdkModel } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import type { Model, ModelReply } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import { SDK_STREAMS, SOME_ID, type SdkStream } from "../../fixtures/streams/ai-sdk.ts";
import { proves } from "../../harness/proves.ts";
import { flushEventLoop } from "../../harness/run-scripted.ts";
import { rejection } from "../../support/openai-calls.ts";
import { after, ask } from "../../support/ai-sdk/fake-model.ts";
import {
  failing,
  FakeNetwork,
  PROVIDERS,
  streaming,
  type ProviderName,
} from "../../support/ai-sdk/provider-fixture.ts";

function fixture(file: string): Uint8Array {
  return readFileSync(new URL(`../../fixtures/streams/${file}`, import.meta.url));
}

interface Fixture {
  readonly network: FakeNetwork;
  readonly model: Model;
}

function fixtureOf({ file, provider }: Pick<SdkStream, "file" | "provider">): Fixture {
  const network = new FakeNetwork(streaming(fixture(file)));
  return { network, model: aiSdkModel(PROVIDERS[provider](network.fetch)) };
}

describe.each(SDK_STREAMS)("$file", (stream) => {
  const { sentBack, reply: expected, hasChanceIds } = stream;

  proves(["M30"], "results in the expected reply", async () => {
    const reply = await ask(fixtureOf(stream).model);
    expect(hasChanceIds === true ? withoutIds(reply) : reply).toEqual(expected);
  });

  proves(
    ["M31"],
    "is sent back byte for byte to its writer alone, even after other models",
    async () => {
      const { network, model } = fixtureOf(stream);
      const request = after(model, await ask(model));
      await ask(model, request);
      for (const text of sentBack) expect(network.lastText).toContain(text);
      for (const [name, create] of Object.entries(PROVIDERS)) {
        // Distinguished by its id alone if the provider is the same.
        const other = new FakeNetwork(failing(400, "{}"));
        const id = name === stream.provider ? "another-model" : undefined;
        await rejection(ask(aiSdkModel(create(other.fetch, id)), request));
        const secrets = secretsOf(expected);
        expect(other.bodies).toHaveLength(1);
        expect(secrets.filter((secret) => other.lastText.includes(secret))).toEqual([]);
      }
      await ask(model, request);
      for (const text of sentBack) expect(network.lastText).toContain(text);
    },
  );
});

/** Returns all texts that only the writer may see. */
function secretsOf({ message }: ModelReply): readonly string[] {
  const hidden = (message.parts ?? []).flatMap((part) =>
    part.type === "reasoning" ? [part.text, part.data] : [part.data],
  );
  return [...JSON.stringify(hidden).matchAll(/"([^"]{12,})"/g)].flatMap(([, text = ""]) =>
    /^(anthropic-claude-v1|reasoning|thoughtSignature|redactedData|reasoning_details|reasoningEncryptedContent)/.test(
      text,
    )
      ? []
      : [text],
  );
}

function withoutIds(reply: ModelReply): ModelReply {
  const { message } = reply;
  const { parts = [], toolCalls } = message;
  const callId = CallIdSchema().parse(SOME_ID);
  return {
    ...reply,
    message: {
      ...message,
      toolCalls: toolCalls.map((call) => ({ ...call, callId })),
      parts: parts.map((part) => (part.type === "call" ? { ...part, callId } : part)),
    },
  };
}

const anthropic = { provider: "anthropic" } as const;

proves(
  ["M33"],
  "reports an error in the middle of a reply by its own words, with the lost output",
  async () => {
    const { model } = fixtureOf({ ...anthropic, file: "sdk-error-midway.sse" });
    const thrown = await rejection(ask(model));
    expect(thrown).toBeInstanceOf(ModelError);
    expect(thrown).toMatchObject({
      code: "model_overloaded",
      isRetryable: true,
      lostOutputTokens: 5,
    });
  },
);

proves(
  ["M33"],
  "abandons a hanging stream at an abort, over a fetch that does not obey its signal",
  async () => {
    const reason = { type: "cancelled", message: "enough", agentId: "a" };
    const heard: string[] = [];
    const hanging = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(fixture("sdk-hangs.sse")),
      cancel: () => void heard.push("let go"),
    });
    const headers = { "content-type": "text/event-stream" };
    const network = new FakeNetwork(() => new Response(hanging, { headers }));
    const caller = new AbortController();
    const { generate } = aiSdkModel(PROVIDERS.anthropic(network.fetch));
    const arrived = Promise.withResolvers<void>();
    const question = { messages: [], tools: [], maxOutputTokens: 100 };
    const call = rejection(
      generate(question, { signal: caller.signal, onDelta: () => arrived.resolve() }),
    );
    await arrived.promise;
    caller.abort(reason);
    expect(await call).toBe(reason);
    await flushEventLoop();
    expect(heard).toEqual(["let go"]);
  },
);

proves(["M33"], "never returns another reply if a reply is cut anywhere", async () => {
  for (const { provider, file, reply: expected } of SDK_STREAMS) {
    const whole = fixture(file).toString();
    const ends = [...whole.matchAll(/\n\n|\}\n(?=\{)/g)].map(({ index }) => index + 1);
    for (const end of ends.slice(0, -1)) {
      const network = new FakeNetwork(streaming(`${whole.slice(0, end)}\n`));
      const call = ask(aiSdkModel(PROVIDERS[provider](network.fetch)));
      const said = await call.then(
        ({ message }) => [message.text, message.toolCalls.map((asked) => asked.argumentsText)],
        (thrown: unknown) => (thrown instanceof ModelError ? thrown.code : thrown),
      );
      // The end of a stream after the last word of the model may be missing.
      const { text, toolCalls } = expected.message;
      const all = [text, toolCalls.map((asked) => asked.argumentsText)];
      expect(["model_unavailable", all], `${file}, cut at ${end}`).toContainEqual(said);
    }
  }
});

describe("a refusal by a server", () => {
  const BODIES: readonly [ProviderName, number, object, string][] = [
    [
      "anthropic",
      400,
      {
        type: "error",
        error: {
          type: "invalid_request_error",
          message: "prompt is too long: 9 tokens > 8 maximum",
        },
      },
      "model_context_overflow",
    ],
    [
      "anthropic",
      529,
      { type: "error", error: { type: "overloaded_error", message: "Overloaded" } },
      "model_overloaded",
    ],
    [
      "google",
      429,
      {
        error: { code: 429, message: "Resource has been exhausted", status: "RESOURCE_EXHAUSTED" },
      },
      "model_rate_limited",
    ],
    [
      "google",
      400,
      {
        error: {
          code: 400,
          message: "The input token count (9) exceeds the maximum number of tokens allowed (8).",
          status: "INVALID_ARGUMENT",
        },
      },
      "model_context_overflow",
    ],
    [
      "openai",
      429,
      {
        error: {
          message: "You exceeded your current quota",
          type: "insufficient_quota",
          param: null,
          code: "insufficient_quota",
        },
      },
      "model_invalid_request",
    ],
    [
      "openai",
      400,
      {
        error: {
          message: "Too long.",
          type: "invalid_request_error",
          param: "input",
          code: "context_length_exceeded",
        },
      },
      "model_context_overflow",
    ],
    [
      "compatible",
      401,
      { error: { message: "Authentication Fails", type: "authentication_error" } },
      "model_unauthorized",
    ],
    [
      "openrouter",
      502,
      { error: { code: 502, message: "Provider returned error" } },
      "model_unavailable",
    ],
    [
      "ollama",
      404,
      { error: { message: "model 'qwen9' not found", type: "api_error" } },
      "model_invalid_request",
    ],
  ];

  test.each(BODIES)(
    "is classified by its body: %s, status %i",
    async (name, status, body, code) => {
      const network = new FakeNetwork(
        failing(status, JSON.stringify(body), { "retry-after": "7" }),
      );
      const thrown = await rejection(ask(aiSdkModel(PROVIDERS[name](network.fetch))));
      expect(thrown).toMatchObject({ code, retryAfterMs: 7_000, lostOutputTokens: undefined });
    },
  );

  test.each(Object.entries(PROVIDERS))(
    "is reported as unavailable if the server cannot be reached: %s",
    async (_name, create) => {
      const fetch = (): Promise<Response> =>
        Promise.reject(new TypeError("fetch failed", { cause: new Error("ECONNREFUSED") }));
      const thrown = await rejection(ask(aiSdkModel(create(fetch))));
      expect(thrown).toMatchObject({ code: "model_unavailable", isRetryable: true });
    },
  );
});
