// Goal: Chat Completions and Responses interpret the same answer of a server alike.
// Method: one table of answers, each sent over both wire formats by a real HTTP server.

import { describe, expect, test } from "vitest";

import type { TokenUsage } from "../../../src/model/token-usage.ts";
import { proves } from "../../harness/proves.ts";
import { failure, modelAt, MODES, reply, type Mode } from "../../support/openai-calls.ts";
import { OpenAiServer, type ServerReply } from "../../support/openai-server.ts";

const APIS = ["chat_completions", "responses"] as const;
type Api = (typeof APIS)[number];

/** JSON text that is nested deeper than the call stack allows. */
const DEEP = `${'{"a":'.repeat(20_000)}1${"}".repeat(20_000)}`;

const refusal = (code: number, error: unknown): ServerReply => ({
  type: "status",
  status: code,
  body: { error },
});
const busy = (message: string): ServerReply => refusal(429, { message });

const DELAYS: Readonly<
  Record<string, readonly [answer: ServerReply, delayMs: number | undefined]>
> = {
  seconds: [busy("Rate limit reached. Please try again in 1.2s."), 1_200],
  milliseconds: [busy("Limit 10 / min. Please try again in 20ms. Visit the page."), 20],
  "minutes and seconds": [busy("Please try again in 6m0s."), 360_000],
  hours: [busy("try again in 1h2m3s"), 3_723_000],
  words: [busy("Please retry after 6 seconds."), 6_000],
  "a colon": [busy("Rate limit reached. Retry after: 12s"), 12_000],
  "a wait": [busy("You must wait 20 seconds before retrying."), 20_000],
  "a reset": [busy("The quota resets in 2 minutes."), 120_000],
  "a time that has passed": [busy("The request waited 20 seconds."), undefined],
  RetryInfo: [
    refusal(429, {
      message: "Quota exceeded.",
      details: [
        { "@type": "type.googleapis.com/google.rpc.Help" },
        { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "34.4s" },
      ],
    }),
    34_400,
  ],
  "a list of one error": [
    {
      type: "status",
      status: 429,
      body: [{ error: { message: "Quota.", details: [{ retryDelay: "2s" }] } }],
    },
    2_000,
  ],
  "an overloaded server": [refusal(503, { message: "Overloaded, retry in 3 s" }), 3_000],
  "no delay": [busy("Please try again in a while."), undefined],
  "a unit that is none": [busy("Please try again in 5 parsecs."), undefined],
  "a header beside": [
    {
      type: "status",
      status: 429,
      headers: { "retry-after": "7" },
      body: { error: { message: "Please try again in 1s." } },
    },
    7_000,
  ],
};

async function repliedBy<T>(answer: ServerReply, api: Api, call: CallOf<T>): Promise<T> {
  await using server = await OpenAiServer.start(() => answer);
  return await call(modelAt(server, { api }));
}

type CallOf<T> = (model: ReturnType<typeof modelAt>) => Promise<T>;

for (const [name, [answer, delayMs]] of Object.entries(DELAYS)) {
  proves(
    ["D474"],
    `reads the retry delay from an error body over both wire formats: ${name}`,
    async () => {
      for (const api of APIS)
        for (const mode of MODES) {
          const facts = await repliedBy(answer, api, (model) => failure(model, mode));
          expect([api, mode, facts.retryAfterMs]).toEqual([api, mode, delayMs]);
        }
    },
  );
}

/** Returns an error inside an answer with status 200. */
function reported(error: string, api: Api, mode: Mode): ServerReply {
  if (mode === "whole") return { type: "raw", body: `{"error":${error}}` };
  const event =
    api === "chat_completions" ? `{"error":${error}}` : `{"type":"error","error":${error}}`;
  return { type: "raw", contentType: "text/event-stream", body: `data: ${event}\n\n` };
}

proves(
  ["D474"],
  "reads the same retry delay from an error inside an answer over both wire formats",
  async () => {
    const error = '{"code":"rate_limit_exceeded","message":"Please try again in 20ms."}';
    for (const mode of MODES) {
      const facts = await Promise.all(
        APIS.map((api) => repliedBy(reported(error, api, mode), api, (m) => failure(m, mode))),
      );
      expect(facts[0]).toEqual(facts[1]);
      expect(facts[0]).toMatchObject({ code: "model_rate_limited", retryAfterMs: 20 });
    }
  },
);

/** Returns a reply with one tool call whose arguments are JSON instead of a string. */
function callWith(args: string, api: Api, mode: Mode): ServerReply {
  if (api === "chat_completions") {
    const call = `{"index":0,"id":"call_1","type":"function","function":{"name":"add","arguments":${args}}}`;
    const part = mode === "whole" ? "message" : "delta";
    const body = `{"choices":[{"index":0,"finish_reason":"tool_calls","${part}":{"role":"assistant","tool_calls":[${call}]}}]}`;
    return wired(body, mode);
  }
  const item = `{"type":"function_call","id":"fc_1","call_id":"call_1","name":"add","arguments":${args}}`;
  const response = `{"object":"response","status":"completed","output":[${item}]}`;
  const completed = `{"type":"response.completed","response":${response}}`;
  return wired(mode === "whole" ? response : completed, mode);
}

/**
 * Returns a reply with deeply nested provider data, which the next request sends back unchanged.
 */
function dataWith(data: string, api: Api, mode: Mode): ServerReply {
  if (api === "chat_completions") {
    const call = `{"index":0,"id":"call_1","type":"function","extra_content":${data},"function":{"name":"add","arguments":"{}"}}`;
    const part = mode === "whole" ? "message" : "delta";
    return wired(
      `{"choices":[{"index":0,"finish_reason":"tool_calls","${part}":{"role":"assistant","tool_calls":[${call}]}}]}`,
      mode,
    );
  }
  const response = `{"object":"response","status":"completed","output":[{"type":"web_search_call","action":${data}}]}`;
  const completed = `{"type":"response.completed","response":${response}}`;
  return wired(mode === "whole" ? response : completed, mode);
}

function wired(body: string, mode: Mode): ServerReply {
  if (mode === "whole") return { type: "raw", body };
  return { type: "raw", contentType: "text/event-stream", body: `data: ${body}\n\n` };
}

describe("an answer that is nested deeper than a call stack", () => {
  test.each(MODES)(
    "is classified by its status like an error without a message, %s",
    async (mode) => {
      for (const [status, code] of [
        [500, "model_unavailable"],
        [429, "model_rate_limited"],
        [400, "model_invalid_request"],
      ] as const) {
        const answer: ServerReply = { type: "status", status, body: `{"error":${DEEP}}` };
        for (const api of APIS)
          expect(await repliedBy(answer, api, (m) => failure(m, mode))).toMatchObject({ code });
      }
    },
  );

  proves(
    ["D476"],
    "is reported as a protocol error over both wire formats if it is a reply",
    async () => {
      for (const shape of [callWith, dataWith])
        for (const mode of MODES)
          for (const api of APIS) {
            const facts = await repliedBy(shape(DEEP, api, mode), api, (m) => failure(m, mode));
            expect([shape.name, api, mode, facts.code, facts.message]).toEqual([
              shape.name,
              api,
              mode,
              "model_protocol_error",
              "Expected a reply from the model, got a reply that is nested too deeply to be read. Check the server: no valid reply is nested so deeply.",
            ]);
            expect(facts.isRetryable).toBe(false);
          }
    },
  );

  proves(
    ["D476"],
    "is reported as the same failure over both wire formats if it is an error",
    async () => {
      for (const mode of MODES) {
        const facts = await Promise.all(
          APIS.map((api) => repliedBy(reported(DEEP, api, mode), api, (m) => failure(m, mode))),
        );
        expect(facts[0]).toEqual(facts[1]);
        expect(facts[0]).toMatchObject({ code: "model_unavailable" });
      }
    },
  );
});

/** Returns a reply of one word with this usage. */
function saysWith(
  { input, cached, output }: { input: number; cached: number; output: number },
  api: Api,
  mode: Mode,
): ServerReply {
  if (api === "chat_completions") {
    const part = mode === "whole" ? "message" : "delta";
    const choice = {
      index: 0,
      finish_reason: "stop",
      [part]: { role: "assistant", content: "Hi" },
    };
    const usage = {
      prompt_tokens: input,
      completion_tokens: output,
      total_tokens: Math.max(input, input + (cached > input ? cached : 0)) + output,
      prompt_tokens_details: { cached_tokens: cached },
    };
    return wired(JSON.stringify({ choices: [choice], usage }), mode);
  }
  const usage = {
    input_tokens: input,
    output_tokens: output,
    input_tokens_details: { cached_tokens: cached },
  };
  const item = { type: "message", content: [{ type: "output_text", text: "Hi" }] };
  const response = { object: "response", status: "completed", output: [item], usage };
  const event = { type: "response.completed", response };
  return wired(JSON.stringify(mode === "whole" ? response : event), mode);
}

const CACHED: readonly (readonly [
  { input: number; cached: number; output: number },
  TokenUsage,
])[] = [
  [{ input: 10, cached: 4, output: 2 }, usageOf(10, 4)],
  [{ input: 10, cached: 10, output: 2 }, usageOf(10, 10)],
  [{ input: 10, cached: 90, output: 2 }, usageOf(100, 90)],
  [{ input: 0, cached: 90, output: 2 }, usageOf(90, 90)],
];

function usageOf(inputTokens: number, cachedInputTokens: number): TokenUsage {
  return { inputTokens, cachedInputTokens, outputTokens: 2, reasoningTokens: 0 };
}

proves(
  ["D475"],
  "adds cached tokens to the input tokens if they exceed them, over both wire formats",
  async () => {
    for (const [figures, usage] of CACHED)
      for (const api of APIS)
        for (const mode of MODES) {
          const answer = saysWith(figures, api, mode);
          const { reply: came } = await repliedBy(answer, api, (model) => reply(model, mode));
          expect([api, mode, came.usage]).toEqual([api, mode, usage]);
        }
  },
);
