// Goal: the cost and the service tier that a server reports are read where they are defined, and
// nothing else is mistaken for them.
// Method: replies whole and streamed over HTTP; recorded forms of OpenRouter's usage; odd and
// hostile figures.

import { describe, expect, test } from "vitest";

import type { TokenUsage } from "../../src/model/token-usage.ts";
import { readCost } from "../../src/model/wire-json.ts";
import { proves } from "../harness/proves.ts";
import { modelAt, reply } from "../support/openai-calls.ts";
import { OpenAiServer, says } from "../support/openai-server.ts";

const COUNTS = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };

async function usagesOf(usage: object): Promise<readonly (TokenUsage | undefined)[]> {
  await using server = await OpenAiServer.start(() =>
    says("ok", { usage: { ...COUNTS, ...usage } }),
  );
  const model = modelAt(server);
  const replies = [await reply(model, "whole"), await reply(model, "streamed")];
  return replies.map((one) => one.reply.usage);
}

proves(["M62"], "reads the cost that OpenRouter reports, whole and streamed", async () => {
  const read = {
    inputTokens: 10,
    cachedInputTokens: 0,
    outputTokens: 5,
    reasoningTokens: 0,
    reportedCostUsd: 0.00123,
  };
  const usage = { cost: 0.00123, is_byok: false, cost_details: { upstream_inference_cost: 0.001 } };
  expect(await usagesOf(usage)).toEqual([read, read]);
});

describe("the cost in a usage", () => {
  const elsewhere = (cost: unknown) => ({ cost_details: { upstream_inference_cost: cost } });
  test.each<[string, unknown, number | undefined]>([
    ["is what it says", { cost: 0.5 }, 0.5],
    ["may be nothing", { cost: 0 }, 0],
    ["is with what an own key was charged", { cost: 0.1, is_byok: true, ...elsewhere(2) }, 2.1],
    ["is so too where nothing is said of a key", { cost: 0, ...elsewhere(2) }, 2],
    ["is not known without that", { cost: 0.1, is_byok: true }, undefined],
    ["is not known where that is none", { cost: 0.1, is_byok: true, ...elsewhere("2") }, undefined],
    ["is without it where the key is theirs", { cost: 3, is_byok: false, ...elsewhere(2) }, 3],
    ["is without it where nothing is said", { cost: 3, ...elsewhere(2) }, 3],
    ["is none without a number", { cost: "0.5" }, undefined],
    ["is none in parts", { cost: { total_cost: 0.5 } }, undefined],
    ["is none below zero", { cost: -1 }, undefined],
    ["is none beyond belief", { cost: 1e300 }, undefined],
    ["is none where there is no usage", null, undefined],
  ])("%s", (_what, usage, cost) => {
    expect(readCost(usage)).toBe(cost);
  });
});

const CHOICE = { index: 0, finish_reason: "stop" };
const CHAT = { id: "c", object: "chat.completion", model: "m", usage: COUNTS };

describe("the service tier of a reply", () => {
  const tiers = async (
    body: string,
    contentType: string,
    api: "chat_completions" | "responses",
  ) => {
    await using server = await OpenAiServer.start(() => ({ type: "raw", body, contentType }));
    const how = contentType === "application/json" ? "whole" : "streamed";
    return (await reply(modelAt(server, { api }), how)).reply.usage?.serviceTier;
  };

  proves(["M64"], "is read from a chat, whole and streamed", async () => {
    const message = { role: "assistant", content: "ok" };
    const whole = { ...CHAT, choices: [{ ...CHOICE, message }], service_tier: "flex" };
    const chunk = {
      ...CHAT,
      object: "chat.completion.chunk",
      choices: [{ ...CHOICE, delta: message }],
    };
    const chunks = [
      { ...chunk, service_tier: "priority" },
      { ...CHAT, choices: [] },
    ];
    const stream = [...chunks.map((one) => JSON.stringify(one)), "[DONE]"]
      .map((data) => `data: ${data}\n\n`)
      .join("");
    expect([
      await tiers(JSON.stringify(whole), "application/json", "chat_completions"),
      await tiers(
        JSON.stringify({ ...whole, service_tier: null }),
        "application/json",
        "chat_completions",
      ),
      await tiers(stream, "text/event-stream", "chat_completions"),
    ]).toEqual(["flex", undefined, "priority"]);
  });

  proves(["M64"], "is read from a response, whole and streamed", async () => {
    const output = [
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "ok" }] },
    ];
    const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 };
    const response = { id: "r", object: "response", status: "completed", output, usage };
    const served = { ...response, service_tier: "flex" };
    const event = { type: "response.completed", sequence_number: 1, response: served };
    const stream = `event: response.completed\ndata: ${JSON.stringify(event)}\n\n`;
    expect([
      await tiers(JSON.stringify(served), "application/json", "responses"),
      await tiers(stream, "text/event-stream", "responses"),
    ]).toEqual(["flex", "flex"]);
  });
});
