// Goal: turns that a provider pauses, blocks or compacts by itself work over the AI SDK.
// Method: a real server that speaks the wire format below the packages of the providers. Whole runs
// and the requests that the server received are compared.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenRouter } from "@openrouter/ai-sdk-provider";
import { describe, expect } from "vitest";
import { z } from "zod";

import { defineAgent, type AgentDefinition } from "../../../src/agent/define-agent.ts";
import { aiSdkModel, sameOriginFetch } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import type { Model } from "../../../src/model/model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { eventsOf, WireServer, type WireAnswer } from "../../support/four-interfaces.ts";
import { ask } from "../../support/ai-sdk/fake-model.ts";

const apiKey = "key-0123456789";

const anthropic = (baseURL: string): Model =>
  aiSdkModel(createAnthropic({ apiKey, baseURL, fetch: sameOriginFetch })("claude-sonnet-5"));
const google = (baseURL: string): Model =>
  aiSdkModel(createGoogle({ apiKey, baseURL, fetch: sameOriginFetch })("gemini-3-pro-preview"));
const responses = (baseURL: string): Model =>
  aiSdkModel(createOpenAI({ apiKey, baseURL, fetch: sameOriginFetch })("gpt-5.6"));
const openrouter = (baseURL: string): Model =>
  aiSdkModel(createOpenRouter({ apiKey, baseURL, fetch: sameOriginFetch })("some/model"));

function answer(...events: readonly object[]): WireAnswer {
  return { body: eventsOf(...events).join("") };
}

interface Claude {
  readonly blocks: readonly (readonly object[])[];
  readonly stop: string;
  readonly usage?: object;
}

/** Returns a reply of Anthropic: each block by its start, without deltas, and its deltas. */
function claude({ blocks, stop, usage = {} }: Claude): WireAnswer {
  return answer(
    {
      type: "message_start",
      message: {
        id: "msg",
        type: "message",
        role: "assistant",
        model: "claude-sonnet-5",
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { input_tokens: 50, cache_read_input_tokens: 5, output_tokens: 1 },
      },
    },
    ...blocks.flatMap(([content_block, ...deltas], index) => [
      { type: "content_block_start", index, content_block },
      ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
      { type: "content_block_stop", index },
    ]),
    {
      type: "message_delta",
      delta: { stop_reason: stop, stop_sequence: null },
      usage: { output_tokens: 7, ...usage },
    },
    { type: "message_stop" },
  );
}

const says = (text: string): readonly object[] => [
  { type: "text", text: "" },
  { type: "text_delta", text },
];
const searches = (query: string): readonly object[] => [
  { type: "server_tool_use", id: "srv_1", name: "web_search", input: {} },
  { type: "input_json_delta", partial_json: JSON.stringify({ query }) },
];
const compacts = (summary: string): readonly object[] => [
  { type: "compaction", content: null },
  { type: "compaction_delta", content: summary },
];

type More = Partial<Omit<AgentDefinition, "model">> & { readonly steps?: number };

async function runOver(
  make: (url: string) => Model,
  answers: readonly WireAnswer[],
  { steps = 9, ...more }: More = {},
) {
  await using server = await WireServer.start(...answers);
  const role = defineAgent({
    name: "solo",
    instructions: "Work.",
    ...more,
    model: make(server.url),
  });
  const fixture = newFixture();
  const run = fixture.start(role, "Go.", { budget: { steps } });
  const deltas: string[] = [];
  const streamed = (async () => {
    for await (const piece of run.stream()) if (piece.type === "text") deltas.push(piece.text);
  })();
  const result = await fixture.outcome(run);
  await streamed;
  const bodies = server.bodies.map((body): unknown => JSON.parse(body));
  const { events } = fixture.sink;
  const work = events.flatMap((one) => (one.type === "continuation.evaluated" ? [one.work] : []));
  const warnings = events.flatMap((one) => (one.type === "model.warned" ? [one.warning] : []));
  return { result, bodies, deltas, work, warnings };
}

/** Returns the last message that the server received in its last request. */
function lastMessage(bodies: readonly unknown[]): unknown {
  const { messages } = z.looseObject({ messages: z.array(z.unknown()) }).parse(bodies.at(-1));
  return messages.at(-1);
}

describe("a turn that Anthropic pauses", () => {
  const paused = claude({ blocks: [says("I search."), searches("rain")], stop: "pause_turn" });
  const done = claude({ blocks: [says("It rains.")], stop: "end_turn" });

  proves(["D565"], "continues once its content was sent back", async () => {
    const { result, bodies, work } = await runOver(anthropic, [paused, done]);
    expect([result.status, result.text]).toEqual(["completed", "I search.It rains."]);
    expect(result.steps.map(({ io }) => io.finishReason)).toEqual(["paused", "stop"]);
    expect(work).toEqual([["paused_reply"], []]);
    expect([bodies.length, lastMessage(bodies)]).toEqual([
      2,
      {
        role: "assistant",
        content: [
          { type: "text", text: "I search." },
          { type: "server_tool_use", id: "srv_1", name: "web_search", input: { query: "rain" } },
        ],
      },
    ]);
  });

  proves(["D565"], "continues if it consists of a server's call alone", async () => {
    const silent = claude({ blocks: [searches("rain")], stop: "pause_turn" });
    const { result, bodies } = await runOver(anthropic, [silent, done]);
    expect([result.text, bodies.length]).toEqual(["It rains.", 2]);
    expect(lastMessage(bodies)).toMatchObject({ role: "assistant", content: [{ id: "srv_1" }] });
  });

  proves(["D608"], "has the text that it would have without the pause", async () => {
    const begun = claude({ blocks: [says("One, "), searches("rain")], stop: "pause_turn" });
    const silent = claude({ blocks: [searches("sun")], stop: "pause_turn" });
    const more = claude({ blocks: [says("two, ")], stop: "pause_turn" });
    const end = claude({ blocks: [says("three.")], stop: "end_turn" });
    const whole = claude({ blocks: ["One, ", "two, ", "three."].map(says), stop: "end_turn" });
    const { result } = await runOver(anthropic, [begun, silent, more, end]);
    const { result: unpaused } = await runOver(anthropic, [whole]);
    expect([result.text, unpaused.text]).toEqual(["One, two, three.", "One, two, three."]);
  });

  proves(["D608"], "returns its typed result although the pause is within the JSON", async () => {
    const begun = claude({ blocks: [says('{"ra')], stop: "pause_turn" });
    const end = claude({ blocks: [says('in":2}')], stop: "end_turn" });
    const { result, bodies } = await runOver(anthropic, [begun, end], {
      output: z.object({ rain: z.number() }),
    });
    expect([result.output, result.text, bodies.length]).toEqual([{ rain: 2 }, '{"rain":2}', 2]);
  });

  proves(["D608"], "returns the typed result of its last reply if that is JSON", async () => {
    const end = claude({ blocks: [says('{"rain":2}')], stop: "end_turn" });
    const { result, bodies } = await runOver(anthropic, [paused, end], {
      output: z.object({ rain: z.number() }),
    });
    expect([result.output, bodies.length]).toEqual([{ rain: 2 }, 2]);
  });

  proves(["D608"], "has one text if the agent stops within it", async () => {
    const { result } = await runOver(anthropic, [paused], { steps: 2 });
    expect([result.status, result.text]).toEqual(["stopped", "I search.I search."]);
  });

  proves(["D565"], "stops at the step limit if it is paused each time", async () => {
    const { result, bodies } = await runOver(anthropic, [paused], { steps: 3 });
    expect([result.status, result.reason.code, bodies.length]).toEqual([
      "stopped",
      "step_limit",
      3,
    ]);
  });

  proves(["D565"], "counts as an invalid reply if it has no content", async () => {
    const empty = claude({ blocks: [], stop: "pause_turn" });
    const { result, bodies } = await runOver(anthropic, [empty]);
    expect([result.status, result.errors[0]?.code, bodies.length]).toEqual([
      "failed",
      "model_invalid_reply",
      2,
    ]);
  });

  proves(
    ["D565"],
    "is neither a missing nor a typed result, however often it is paused",
    async () => {
      const json = claude({ blocks: [says('{"rain":1}')], stop: "pause_turn" });
      const final = claude({ blocks: [says('{"rain":2}')], stop: "end_turn" });
      const { result, bodies } = await runOver(anthropic, [json, json, json, json, final], {
        output: z.object({ rain: z.number() }),
      });
      expect([result.output, bodies.length]).toEqual([{ rain: 2 }, 5]);
    },
  );
});

describe("a blocked prompt", () => {
  const usageMetadata = { promptTokenCount: 9, totalTokenCount: 9 };
  const blocked = (blockReason: string) =>
    answer({ promptFeedback: { blockReason }, usageMetadata });
  const ended = (finishReason: string) =>
    answer({ candidates: [{ index: 0, content: {}, finishReason }], usageMetadata });

  for (const [name, wire, warned] of [
    ["promptFeedback MODEL_ARMOR", blocked("MODEL_ARMOR"), undefined],
    ["promptFeedback SAFETY", blocked("SAFETY"), undefined],
    [
      "promptFeedback BLOCK_REASON_UNSPECIFIED",
      blocked("BLOCK_REASON_UNSPECIFIED"),
      "BLOCK_REASON_UNSPECIFIED",
    ],
    ["the finish MODEL_ARMOR", ended("MODEL_ARMOR"), "MODEL_ARMOR"],
    ["an unknown finish word", ended("JAILBREAK"), "JAILBREAK"],
  ] as const)
    proves(["D566"], `ends as filtered after one request: ${name}`, async () => {
      const { result, bodies, warnings } = await runOver(google, [wire]);
      expect([result.status, result.reason.code, result.reason.data, bodies.length]).toEqual([
        "stopped",
        "finish_reason",
        { finishReason: "content_filter" },
        1,
      ]);
      expect(warnings).toEqual(
        warned === undefined
          ? []
          : [
              `The provider ended the reply with ${warned} and without content. It counts as filtered.`,
            ],
      );
    });

  proves(["D566"], "is distinguished from a malformed call, which is requested again", async () => {
    const { bodies } = await runOver(google, [ended("MALFORMED_RESPONSE")]);
    expect(bodies).toHaveLength(2);
  });

  proves(["D566"], "is distinguished from an empty reply that ended by itself", async () => {
    const { bodies } = await runOver(google, [ended("eos_token")]);
    expect(bodies).toHaveLength(2);
  });

  proves(["D566"], "differs from a reply with content and an unknown reason", async () => {
    const content = { role: "model", parts: [{ text: "It rains." }] };
    const wire = answer({
      candidates: [{ index: 0, content, finishReason: "JAILBREAK" }],
      usageMetadata,
    });
    const { result } = await runOver(google, [wire]);
    expect([result.status, result.text]).toEqual(["completed", "It rains."]);
  });
});

describe("a compaction by the provider", () => {
  proves(["D567"], "is not in the answer and is sent back unchanged over Anthropic", async () => {
    const { result, bodies, deltas } = await runOver(anthropic, [
      claude({
        blocks: [compacts("Old things."), says("I look."), searches("x")],
        stop: "pause_turn",
      }),
      claude({ blocks: [says("It rains.")], stop: "end_turn" }),
    ]);
    expect(result.steps.map(({ io }) => io.text)).toEqual(["I look.", "It rains."]);
    expect(deltas.join("")).not.toContain("Old things.");
    expect(lastMessage(bodies)).toMatchObject({
      role: "assistant",
      content: [
        { type: "compaction", content: "Old things." },
        { type: "text", text: "I look." },
        { type: "server_tool_use" },
      ],
    });
  });

  proves(["D567"], "does not end the run if Anthropic pauses after it", async () => {
    const { result, bodies } = await runOver(anthropic, [
      claude({ blocks: [compacts("Old things.")], stop: "compaction" }),
      claude({ blocks: [says("It rains.")], stop: "end_turn" }),
    ]);
    expect([result.status, result.text, bodies.length]).toEqual(["completed", "It rains.", 2]);
    expect(lastMessage(bodies)).toMatchObject({
      content: [{ type: "compaction", content: "Old things." }],
    });
  });

  proves(["D567"], "is not in the answer and is sent back unchanged over Responses", async () => {
    const item = { type: "compaction", id: "cmp_1", encrypted_content: "sealed-summary" };
    const call = {
      type: "function_call",
      id: "fc_1",
      call_id: "t",
      name: "gone",
      arguments: "{}",
    };
    const completed = {
      type: "response.completed",
      response: { id: "r", usage: { input_tokens: 60, output_tokens: 5 } },
    };
    const text = { type: "message", id: "i", content: [] };
    const { result, bodies } = await runOver(responses, [
      answer(
        { type: "response.output_item.done", output_index: 0, item },
        { type: "response.output_item.added", output_index: 1, item: { ...call, arguments: "" } },
        {
          type: "response.output_item.done",
          output_index: 1,
          item: { ...call, status: "completed" },
        },
        completed,
      ),
      answer(
        { type: "response.output_item.added", output_index: 0, item: text },
        { type: "response.output_text.delta", item_id: "i", delta: "It rains." },
        { type: "response.output_item.done", output_index: 0, item: text },
        completed,
      ),
    ]);
    expect(result.steps.map(({ io }) => io.text)).toEqual(["", "It rains."]);
    expect(JSON.stringify(bodies[1])).toContain('"encrypted_content":"sealed-summary"');
  });
});

describe("the iterations of a reply of Anthropic", () => {
  const usageFor = async (usage: object) => {
    const reply = claude({ blocks: [says("It rains.")], stop: "end_turn", usage });
    await using server = await WireServer.start(reply);
    return (await ask(anthropic(server.url))).usage;
  };
  const message = {
    type: "message",
    input_tokens: 50,
    output_tokens: 7,
    cache_read_input_tokens: 5,
  };

  proves(["D568"], "count the cache of a compaction and the tokens of an advisor", async () => {
    expect(
      await usageFor({
        iterations: [
          {
            type: "compaction",
            input_tokens: 1_000,
            output_tokens: 300,
            cache_read_input_tokens: 40_000,
            cache_creation_input_tokens: 20,
          },
          message,
          {
            type: "advisor_message",
            model: "claude-opus-5",
            input_tokens: 600,
            output_tokens: 80,
            cache_read_input_tokens: 100,
          },
        ],
      }),
    ).toEqual({
      inputTokens: 1_000 + 40_000 + 20 + 50 + 5 + 600 + 100,
      cachedInputTokens: 40_000 + 5 + 100,
      cacheWriteInputTokens: 20,
      outputTokens: 300 + 7 + 80,
      reasoningTokens: 0,
      hasServerTools: true,
    });
  });

  proves(
    ["D568"],
    "add nothing if there is only one, or a fallback that the totals contain",
    async () => {
      const alone = {
        inputTokens: 55,
        cachedInputTokens: 5,
        cacheWriteInputTokens: 0,
        outputTokens: 7,
        reasoningTokens: 0,
      };
      expect(await usageFor({})).toEqual(alone);
      expect(await usageFor({ iterations: [message] })).toEqual(alone);
      const blockedFirst = { ...message, output_tokens: 0 };
      const fallback = { ...message, type: "fallback_message", model: "claude-haiku-5" };
      expect(await usageFor({ iterations: [blockedFirst, fallback] })).toEqual({
        ...alone,
        hasServerTools: true,
      });
    },
  );
});

proves(["D569"], "preserves encrypted reasoning from the last chunk", async () => {
  const sealed = {
    type: "reasoning.encrypted",
    data: "sealed-thought",
    format: "openai-responses-v1",
  };
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    id: "gen-1",
    choices: [{ index: 0, delta, finish_reason }],
  });
  const usage = { prompt_tokens: 60, completion_tokens: 5, total_tokens: 65 };
  await using server = await WireServer.start(
    answer(chunk({ content: "It rains." }), chunk({ reasoning_details: [sealed] }), {
      ...chunk({}, "stop"),
      usage,
    }),
  );
  const fixture = newFixture();
  const role = defineAgent({
    name: "solo",
    instructions: "Work.",
    model: openrouter(server.url),
  });
  const run = fixture.start(role);
  expect((await fixture.outcome(run)).text).toBe("It rains.");
  await fixture.outcome(fixture.fork(role, run.snapshot(), { message: "Are you sure?" }));
  const { messages } = z
    .looseObject({ messages: z.array(z.unknown()) })
    .parse(JSON.parse(server.bodies[1] ?? ""));
  expect(messages.slice(2, 3)).toMatchObject([
    { role: "assistant", content: "It rains.", reasoning_details: [sealed] },
  ]);
});
