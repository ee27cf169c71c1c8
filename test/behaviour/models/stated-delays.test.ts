// Goal: a delay in the words of an error in the middle of a stream is used like Retry-After.
// Method: the four interfaces over real HTTP; delays in words and in Google's RetryInfo.

import { createOpenAI } from "@ai-sdk/openai";
import { describe, expect } from "vitest";

import { aiSdkModel } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import { findStatedDelay } from "../../../src/model/http-errors.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { proves } from "../../harness/proves.ts";
import { CLIENTS, eventsOf, INTERFACES, WireServer } from "../../support/four-interfaces.ts";
import { never, QUESTION, rejection } from "../../support/openai-calls.ts";

const DELAYS = [
  ["Overloaded.", []],
  ["Overloaded. Please try again in 1.2s.", []],
  ["Overloaded. Please wait 32 seconds before retrying.", []], // GitHub Models
  ["Overloaded. Retry in about 2 minutes.", []],
  ["Overloaded. Try again in 3s.", [{ retryDelay: "soon" }]],
  ["Overloaded.", [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "34.4s" }]],
] as const;

describe.each(INTERFACES)("an error in the middle of a stream over $name", (face) => {
  proves(["D562"], `reports the delay in its words (${face.name})`, async () => {
    const delays: unknown[] = [];
    for (const [words, details] of DELAYS) {
      const stated = `"details":${JSON.stringify(details)},"message":"${words}"`;
      const failed = face.failed.replace(/"message":"[^"]+"/, stated);
      const body = face.events.slice(0, face.begun).join("") + failed;
      await using server = await WireServer.start({ body });
      const options = { signal: never(), onDelta: () => undefined };
      const thrown = await rejection(face.model(server.url).generate(QUESTION, options));
      delays.push(thrown instanceof ModelError ? thrown.retryAfterMs : thrown);
    }
    expect(delays).toEqual([undefined, 1_200, 32_000, 120_000, 3_000, 34_400]);
  });
});

const WORDINGS: readonly (readonly [string, number | undefined])[] = [
  ["You must wait 20 seconds before retrying.", 20_000],
  ["Please wait before trying again. Retry after: 12s", 12_000],
  ["Retry-After: 12s", 12_000],
  ["Please retry in 34.074824224s.", 34_075],
  ["Please retry after 5 sec.", 5_000],
  ["Please try again in about 5 minutes.", 300_000],
  ["Please try again in 740ms.", 740],
  ["Please try again in 1m30s.", 90_000],
  ["Wait for 1 minute and 30 seconds.", 90_000],
  ["A limit of 60 requests per minute was reached.", undefined],
  ["Please wait: 60 requests per minute are allowed.", undefined],
  ["Try again after 5 PM.", undefined],
  ["Try again in 5-10 seconds.", undefined],
  ["Try again after 2026-11-29.", undefined],
];
for (const [words, expected] of WORDINGS)
  proves(["D611"], `reads ${expected ?? "no"} ms from "${words}"`, () => {
    expect(findStatedDelay({}, words)).toBe(expected);
  });

proves(
  ["D612"],
  "preserves the message of a failed response that lacks fields over the AI SDK",
  async () => {
    const error = { code: "rate_limit_exceeded", message: "Busy. Try again in 9s." };
    const body = eventsOf(
      { type: "response.created", response: { id: "r", created_at: 1, model: "m" } },
      { type: "response.failed", response: { id: "r", status: "failed", error } },
    ).join("");
    await using server = await WireServer.start({ body });
    const provider = createOpenAI({ apiKey: "key-0123456789", baseURL: server.url });
    const thrown = await rejection(
      aiSdkModel(provider.responses("m")).generate(QUESTION, { signal: never() }),
    );
    expect(thrown).toMatchObject({ code: "model_rate_limited", retryAfterMs: 9_000 });
  },
);

const REFUSALS: readonly (readonly [number, string])[] = [
  [429, '{"error":{"message":"Slow down. Try again in 2s."}}'],
  [500, '{"error":{"message":"Broken."}}'],
  [503, "Busy."],
];
for (const { name, model } of CLIENTS)
  proves(
    ["D661"],
    `reads Retry-After of a refusal, whatever its content type (${name})`,
    async () => {
      const delays: unknown[] = [];
      for (const type of ["application/json", "text/event-stream"])
        for (const [status, error] of REFUSALS) {
          const headers = { "content-type": type, "retry-after": "7" };
          await using server = await WireServer.start({ status, headers, body: error });
          const options = { signal: never(), onDelta: () => undefined };
          const thrown = await rejection(model(server.url).generate(QUESTION, options));
          delays.push(thrown instanceof ModelError ? [thrown.code, thrown.retryAfterMs] : thrown);
        }
      const each = [
        ["model_rate_limited", 7_000],
        ["model_unavailable", 7_000],
        ["model_overloaded", 7_000],
      ];
      expect(delays).toEqual([...each, ...each]);
    },
  );

for (const { name, model } of CLIENTS)
  proves(
    ["D663"],
    `reads Retry-After of a refusal whose body cannot be decoded (${name})`,
    async () => {
      const failures: unknown[] = [];
      for (const encoding of ["gzip", "zstd", "br", "snappy"])
        for (const status of [429, 503]) {
          const headers = { "content-encoding": encoding, "retry-after": "7" };
          const answer = { status, headers: { "content-type": "application/json", ...headers } };
          await using server = await WireServer.start({ ...answer, body: '{"error":"Busy."}' });
          const options = { signal: never(), onDelta: () => undefined };
          const thrown = await rejection(model(server.url).generate(QUESTION, options));
          if (!(thrown instanceof ModelError)) throw thrown;
          failures.push([thrown.code, thrown.retryAfterMs]);
        }
      const each = [
        ["model_rate_limited", 7_000],
        ["model_overloaded", 7_000],
      ];
      expect(failures).toEqual([...each, ...each, ...each, ...each]);
    },
  );
