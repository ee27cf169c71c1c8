// Goal: a response that ended without a reply results in the same error over each client, and is
// charged with its reported usage.
// Method: responses over real HTTP, whole and streamed, through openai() and through OpenAI's
// package of the AI SDK.

import { createOpenAI } from "@ai-sdk/openai";
import { describe, expect } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { aiSdkModel, sameOriginFetch } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import type { Model } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { openai } from "../../../src/model/openai/openai-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import {
  eventsOf,
  INTERFACES,
  WireServer,
  type WireAnswer,
} from "../../support/four-interfaces.ts";
import { reply, rejection } from "../../support/openai-calls.ts";

const apiKey = "key-0123456789";
const CLIENTS: Readonly<Record<string, (url: string) => Model>> = {
  "openai()": (baseUrl) => openai("m", { baseUrl, apiKey, api: "responses" }),
  "the AI SDK with sameOriginFetch": (baseURL) =>
    aiSdkModel(createOpenAI({ apiKey, baseURL, fetch: sameOriginFetch }).responses("m")),
  "the AI SDK alone": (baseURL) => aiSdkModel(createOpenAI({ apiKey, baseURL }).responses("m")),
};

const usage = { input_tokens: 700, output_tokens: 9, total_tokens: 709 };
const BUSY = { code: "server_error", message: "Busy." };

/** Returns the last event of a response that ended with this status. */
function ended(status: string, fields: object = {}): object {
  const response = { id: "r", status, error: null, output: [], usage, ...fields };
  return { type: `response.${status}`, sequence_number: 9, response };
}

function failed(fields: object = {}): object {
  return ended("failed", { error: BUSY, ...fields });
}

function withoutNumber({ sequence_number: _number, ...event }: Record<string, unknown>): object {
  return event;
}

const [CREATED = "", ADDED = "", DELTA = "", DONE = ""] =
  INTERFACES.find(({ name }) => name === "Responses")?.events ?? [];
const BEFORE: Readonly<Record<string, string>> = {
  "as its only event": "",
  "behind its beginning": CREATED,
  "behind a part of its text": CREATED + ADDED + DELTA,
  "behind its whole text": CREATED + ADDED + DELTA + DONE,
};

/**
 * The error code, whether the call is retried, and the input and output tokens reported as lost.
 */
type Failure = readonly [string, boolean, number | undefined, number | undefined];

async function failureOf(
  model: (url: string) => Model,
  answer: WireAnswer,
  mode: "whole" | "streamed" = "streamed",
): Promise<{ readonly facts: Failure; readonly message: string }> {
  await using server = await WireServer.start(answer);
  const thrown = await rejection(reply(model(server.url), mode));
  if (!(thrown instanceof ModelError)) throw new Error("Expected a ModelError.", { cause: thrown });
  const { code, isRetryable, lostInput, lostOutputTokens, message } = thrown;
  return { facts: [code, isRetryable, lostInput?.inputTokens, lostOutputTokens], message };
}

interface Ending {
  readonly event: object;
  readonly facts: Failure;
  readonly says: string;
}

const ENDINGS: Readonly<Record<string, Ending>> = {
  "that failed": {
    event: failed(),
    facts: ["model_unavailable", true, 700, 9],
    says: "an error inside the reply: Busy.",
  },
  "that failed, without a number": {
    event: withoutNumber({ ...failed() }),
    facts: ["model_unavailable", true, 700, 9],
    says: "an error inside the reply: Busy.",
  },
  "that failed without a reason": {
    event: failed({ error: null }),
    facts: ["model_unavailable", true, 700, 9],
    says: "the response failed, without a reason",
  },
  "that failed at its cap": {
    event: failed({ error: null, incomplete_details: { reason: "max_output_tokens" } }),
    facts: ["model_unavailable", true, 700, 9],
    says: "the response failed, without a reason",
  },
  "that failed for its prompt": {
    event: failed({ error: { code: "invalid_prompt", message: "No." } }),
    facts: ["model_invalid_request", false, 700, 9],
    says: "an error inside the reply: No.",
  },
  "that failed for its length": {
    event: failed({ error: { code: "context_length_exceeded", message: "Long." } }),
    facts: ["model_context_overflow", false, 700, 9],
    says: "an error inside the reply: Long.",
  },
  "that failed at a limit of its rate": {
    event: failed({ error: { code: "rate_limit_exceeded", message: "Slow." } }),
    facts: ["model_rate_limited", true, 700, 9],
    says: "an error inside the reply: Slow.",
  },
  "that was cancelled": {
    event: ended("cancelled"),
    facts: ["model_protocol_error", false, 700, 9],
    says: "a response that was cancelled at the server",
  },
  "that was cancelled by its status": {
    event: { ...ended("cancelled"), type: "response.completed" },
    facts: ["model_protocol_error", false, 700, 9],
    says: "a response that was cancelled at the server",
  },
  "that failed by its status": {
    event: { ...failed(), type: "response.completed" },
    facts: ["model_unavailable", true, 700, 9],
    says: "an error inside the reply: Busy.",
  },
};

describe.each(Object.entries(CLIENTS))("a response over %s", (client, model) => {
  for (const [what, { event, facts, says }] of Object.entries(ENDINGS))
    for (const [when, before] of Object.entries(BEFORE))
      proves(
        ["D655"],
        `reports the same error if it is one ${what} ${when} (${client})`,
        async () => {
          const [last = ""] = eventsOf(event);
          const failure = await failureOf(model, { body: before + last });
          expect([failure.facts, failure.message]).toEqual([facts, expect.stringContaining(says)]);
        },
      );

  for (const status of ["failed", "cancelled"])
    proves(
      ["D655"],
      `is accepted if it had completed before its status was ${status} (${client})`,
      async () => {
        const sound = INTERFACES.find(({ name }) => name === "Responses")?.events.join("") ?? "";
        const [last = ""] = eventsOf(ended(status, { error: BUSY }));
        await using server = await WireServer.start({ body: sound + last });
        const { reply: said } = await reply(model(server.url), "streamed");
        expect([said.message.text, said.usage?.inputTokens]).toEqual(["ok", 700]);
      },
    );
});

/**
 * Where the beginning of a stream reports the output so far. Responses reports usage only at its
 * end.
 */
const OUTPUT_SO_FAR: Readonly<Record<string, readonly [string, string]>> = {
  "Chat Completions": ['"completion_tokens":1', '"completion_tokens":50'],
  Anthropic: ['"output_tokens":1', '"output_tokens":50'],
  Gemini: ['"promptTokenCount":700', '"candidatesTokenCount":50,"promptTokenCount":700'],
};

describe.each(Object.entries(OUTPUT_SO_FAR))("a stream over %s that breaks", (name, [from, to]) => {
  const face = INTERFACES.find((one) => one.name === name);
  if (face === undefined) throw new Error("Expected an interface.");
  const begun = face.events.slice(0, face.begun).join("").replace(from, to);
  for (const end of ["closed", "reset"] as const)
    proves(["D655"], `is charged with the output that it reported (${name}, ${end})`, async () => {
      const { facts } = await failureOf(face.model, { body: begun, end });
      expect(facts).toEqual(["model_unavailable", true, 700, 50]);
    });
});

describe("a response that was not streamed", () => {
  const headers = { "content-type": "application/json" };
  const text = { type: "message", id: "i", content: [{ type: "output_text", text: "ok" }] };
  for (const output of [[], [text]])
    proves(
      ["D655"],
      `is reported as an error if it was cancelled with ${output.length} items`,
      async () => {
        const body = JSON.stringify({ id: "r", status: "cancelled", output, usage });
        const own = CLIENTS["openai()"];
        if (own === undefined) throw new Error("Expected a client.");
        const { facts } = await failureOf(own, { headers, body }, "whole");
        expect(facts).toEqual(["model_protocol_error", false, 700, 9]);
      },
    );

  proves(["D655"], "is charged with its reported usage if it is still queued", async () => {
    const body = JSON.stringify({ id: "r", status: "queued", output: [], usage });
    const own = CLIENTS["openai()"];
    if (own === undefined) throw new Error("Expected a client.");
    const { facts } = await failureOf(own, { headers, body }, "whole");
    expect(facts).toEqual(["model_protocol_error", false, 700, 9]);
  });
});

describe.each(Object.entries(CLIENTS))("a run over %s", (client, model) => {
  proves(
    ["D655"],
    `ends without another request if its response was cancelled (${client})`,
    async () => {
      // This run has no stream listener, so openai() requests the whole response.
      const whole = {
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ id: "r", status: "cancelled", output: [], usage }),
      };
      const streamed = { body: CREATED + ADDED + DELTA + eventsOf(ended("cancelled")).join("") };
      await using server = await WireServer.start(client === "openai()" ? whole : streamed);
      const role = defineAgent({ name: "solo", instructions: "Work.", model: model(server.url) });
      const { status, reason, usage: used } = await newFixture().run(role);
      expect([server.requests, status, reason.data]).toEqual([
        1,
        "failed",
        { error: "model_protocol_error" },
      ]);
      expect([used.total.inputTokens, used.total.outputTokens]).toEqual([700, 9]);
    },
  );
});
