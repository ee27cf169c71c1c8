// Goal: an invalid answer is reported with the text of the server and classified alike over each
// interface.
// Method: the four interfaces over real HTTP; servers that send HTML pages, error reports, delays
// and other encodings.

import { deflateSync, zstdCompressSync } from "node:zlib";

import { describe, expect } from "vitest";

import type { Model } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { classifyRefusal, classifyReport } from "../../../src/model/http-errors.ts";
import { proves } from "../../harness/proves.ts";
import { INTERFACES, WireServer, type WireAnswer } from "../../support/four-interfaces.ts";
import { never, QUESTION, rejection } from "../../support/openai-calls.ts";

async function failureOf(make: (url: string) => Model, answer: WireAnswer): Promise<ModelError> {
  await using server = await WireServer.start(answer);
  const model = make(server.url);
  const asked = model.generate(QUESTION, { signal: never(), onDelta: () => undefined });
  const thrown = await rejection(asked);
  if (!(thrown instanceof ModelError)) throw new Error("Expected a ModelError.", { cause: thrown });
  return thrown;
}

const OPENAI = INTERFACES.filter(({ name }) => name === "Chat Completions" || name === "Responses");

for (const { name, model, events } of OPENAI) {
  describe(`a stream over ${name}`, () => {
    const [first = ""] = events;
    const report = '{"code":500,"message":"the slot is gone","type":"server_error"}';
    for (const before of ["", first])
      proves(
        ["D554"],
        `reports the message of a bare error line ${before === "" ? "alone" : "later"} (${name})`,
        async () => {
          const { code, message } = await failureOf(model, {
            body: `${before}error: ${report}\n\n`,
          });
          expect([code, message.includes("the slot is gone")]).toEqual(["model_unavailable", true]);
        },
      );

    proves(["D554"], `is quoted in part if it is an HTML page (${name})`, async () => {
      const body = `<html><title>Sign in to the gateway</title>${"x".repeat(5_000)}</html>`;
      const headers = { "content-type": "text/html" };
      const { code, message } = await failureOf(model, { body, headers });
      expect([code, message.includes("Sign in to the gateway"), message.length < 900]).toEqual([
        "model_protocol_error",
        true,
        true,
      ]);
    });

    for (const [encoding, encode] of [
      ["deflate", deflateSync],
      ["zstd", zstdCompressSync],
    ] as const)
      proves(["D555"], `is decoded from the encoding ${encoding} (${name})`, async () => {
        const body = encode(Buffer.from(events.join("")));
        const headers = { "content-encoding": encoding };
        await using server = await WireServer.start({ body, headers });
        const asked = model(server.url).generate(QUESTION, {
          signal: never(),
          onDelta: () => undefined,
        });
        expect((await asked).message.text).toBe("ok");
      });

    proves(["D555"], `is rejected with the name of an unknown encoding (${name})`, async () => {
      const headers = { "content-encoding": "lzma" };
      const { message } = await failureOf(model, { body: "x", headers });
      expect(message).toContain("encoding lzma");
    });
  });
}

describe("a delay in the body of a refusal", () => {
  const json = { "content-type": "application/json" };
  const retryInfo = { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "34.4s" };
  const body = {
    type: "error",
    error: { type: "rate_limit_error", code: 429, message: "Quota.", status: "RESOURCE_EXHAUSTED" },
  };
  const words = { ...body.error, message: "Please try again in 1.2s." };
  for (const { name, model } of INTERFACES)
    proves(["D474"], `is used like Retry-After (${name})`, async () => {
      const details = { ...body, error: { ...body.error, details: [retryInfo] } };
      const delays = [];
      for (const refusal of [details, { ...body, error: words }]) {
        const answer = { status: 429, headers: json, body: JSON.stringify(refusal) };
        delays.push((await failureOf(model, answer)).retryAfterMs);
      }
      expect(delays).toEqual([34_400, 1_200]);
    });
});

describe("a request that is too long", () => {
  const WORDINGS = [
    "The total length of all messages is too long", // the wording of the issue
    "Input is too long for requested model.", // Bedrock
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", // xAI
    "too many tokens: total number of tokens in the prompt cannot exceed 4081", // Cohere
    "Prompt exceeds max length", // Zhipu
    "Invalid request: Your request exceeded model token limit: 262144", // Moonshot
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097", // Together
    "Range of input length should be [1, 30720]", // Alibaba
    "Prompt contains 40000 tokens, too large for model with 32768 maximum context length", // Mistral
    "the request exceeds the available context size, try increasing it", // llama.cpp
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", // Gemini
    "prompt is too long: 208310 tokens > 200000 maximum", // Anthropic
    "Your input exceeds the context window of this model.", // OpenAI
  ];
  for (const words of WORDINGS)
    proves(["D556"], `is recognised by "${words.slice(0, 50)}"`, () => {
      const codes = [classifyRefusal(400, undefined, words), classifyReport([], 400, words)];
      expect(codes).toEqual(["model_context_overflow", "model_context_overflow"]);
    });

  proves(
    ["D556"],
    "is recognised by the codes of its provider and not confused with other errors",
    () => {
      expect([
        classifyRefusal(400, "too_many_prompt_tokens", "No."),
        classifyRefusal(400, "exceed_context_size_error", "No."),
        classifyRefusal(429, undefined, "Too many tokens, please wait before trying again."),
        classifyRefusal(400, undefined, "max_tokens is too large"),
        classifyRefusal(400, undefined, "The name of the tool is too long"),
      ]).toEqual([
        "model_context_overflow",
        "model_context_overflow",
        "model_rate_limited",
        "model_invalid_request",
        "model_invalid_request",
      ]);
    },
  );
});
