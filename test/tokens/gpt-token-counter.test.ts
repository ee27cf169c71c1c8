// Goal: with the optional tokenizer requests are counted as OpenAI's models count them, whatever
// the texts, and quickly.
// Method: texts with known counts; texts made to break tokenizers; the sources in a folder without
// the package.

import { expect, test } from "vitest";

import type { ModelRequest } from "../../src/model/model.ts";
import { buildReplyMessage, type ReplyPiece } from "../../src/protocol/reply-message.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import type { Message } from "../../src/protocol/message.ts";
import { says } from "../../src/testing/scripted-model.ts";
import { loadGptTokenCounter } from "../../src/tokens/gpt-token-counter.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { soloist } from "../harness/soloist.ts";
import { rejectionOf } from "../support/thrown.ts";
import { outputWithout } from "../support/without-package.ts";

function user(text: string): Message {
  return { role: "user", text, origin: "task" };
}

function request(...messages: readonly Message[]): ModelRequest {
  return { messages, tools: [], maxOutputTokens: 1 };
}

/** Returns the tokens of a text alone, without the overhead of a chat. */
async function tokensOf(text: string, modelId = "gpt-5-mini"): Promise<number> {
  const count = await loadGptTokenCounter(modelId);
  return count(request(user(text))) - count(request(user("")));
}

proves(["R101"], "counts texts with the vocabulary of the model", async () => {
  expect([
    await tokensOf("Hello world, how are you?"),
    await tokensOf("你好，世界"),
    await tokensOf("你好，世界", "gpt-4"),
  ]).toEqual([7, 3, 6]);
});

proves(["R101"], "leases the counted tokens of a run and marks no estimate", async () => {
  const countTokens = await loadGptTokenCounter("gpt-5");
  const { role, model } = soloist([says("Done.")], {}, { countTokens });
  const fixture = newFixture();
  await fixture.run(role);
  const [first] = model.requests;
  expect(
    fixture.sink
      .ofType("model.requested")
      .map((one) => [one.estimatedInputTokens, one.isEstimated]),
  ).toEqual([[first === undefined ? 0 : countTokens(first), false]]);
});

proves(
  ["R101"],
  "counts reasoning like text, and sealed data by its length like an estimate",
  async () => {
    const count = await loadGptTokenCounter("gpt-5");
    const reply = (...pieces: readonly ReplyPiece[]): number =>
      count(request({ ...buildReplyMessage([...pieces, { type: "text", text: "Done." }]) }));
    const data = { openai: { encrypted_content: "x".repeat(3_000) } };
    const bytes = JSON.stringify(data).length;
    const thought = "Hello world, how are you?";
    const bare = reply();
    expect([
      reply({ type: "reasoning", text: thought }) - bare,
      reply({ type: "reasoning", text: "", data }) - bare,
      reply({ type: "opaque", kind: "search", data }) - bare,
      reply({ type: "reasoning", text: thought, data }, { type: "text", text: "", data }) - bare,
    ]).toEqual([7, Math.ceil(bytes / 4), Math.ceil(bytes / 4), 7 + Math.ceil(bytes / 2)]);
  },
);

test("counts the calls of replies and the tools of requests", async () => {
  const count = await loadGptTokenCounter("o3-mini");
  const call = {
    callId: CallIdSchema().parse("call_1"),
    toolName: "read",
    argumentsText: '{"page":1}',
  };
  const reply = (calls: readonly (typeof call)[]): Message => ({
    role: "assistant",
    text: "Reading.",
    toolCalls: calls,
  });
  const tool = { name: "read", description: "Reads a page.", inputSchema: { type: "object" } };
  const bare = count(request(reply([])));
  expect([
    count(request(reply([call]))) > bare + 8,
    count({ ...request(reply([])), tools: [tool] }) > bare + 8,
  ]).toEqual([true, true]);
});

test("counts control tokens, broken surrogates and empty texts like any other text", async () => {
  expect([
    await tokensOf("<|endoftext|>"),
    await tokensOf("<|im_start|>system"),
    await tokensOf(""),
  ]).toEqual([expect.any(Number), expect.any(Number), 0]);
  expect(await tokensOf("a \ud83d b")).toBeGreaterThan(0);
});

/** A tokenizer in quadratic time would take half an hour for this length. */
const ENDLESS = 2_000_000;

test("counts a text without a break in parts, in time", async () => {
  const count = await loadGptTokenCounter("gpt-5");
  expect(count(request(user("a".repeat(ENDLESS))))).toBeGreaterThan(ENDLESS / 9);
  expect(count(request(user(" ".repeat(ENDLESS))))).toBeGreaterThan(1_000);
});

test("rejects a model of unknown vocabulary and states the remedy", async () => {
  for (const modelId of ["llama-3", "claude-5", "gpt-40", "o", "constructor"])
    expect(await rejectionOf(loadGptTokenCounter(modelId))).toMatchObject({
      code: "invalid_argument",
      message: `Expected loadGptTokenCounter.modelId to be a model of OpenAI whose vocabulary is known (gpt-5, gpt-4o, o3 and the like), got ${JSON.stringify(modelId)}. For other models leave countTokens out: tokens are estimated then.`,
    });
  for (const modelId of [
    "gpt-5.4-mini",
    "gpt-4o-2024-08-06",
    "gpt-4.1",
    "o1",
    "o4-mini",
    "ft:gpt-4o:me",
    "gpt-3.5-turbo",
  ])
    expect(typeof (await loadGptTokenCounter(modelId))).toBe("function");
  expect((await rejectionOf(loadGptTokenCounter(""))).code).toBe("invalid_argument");
});

test("imports the entry without the package, and names the package to install when a counter is created", () => {
  const output = outputWithout(
    "gpt-tokenizer",
    `import { loadGptTokenCounter } from "./src/tokens/gpt-token-counter.ts";
     await loadGptTokenCounter("gpt-5").catch(({ code, message, data }) => console.log(JSON.stringify({ code, message, data })));`,
  );
  expect(JSON.parse(output)).toEqual({
    code: "missing_package",
    message:
      "The package gpt-tokenizer is not installed: without it, tokens can only be estimated. Run: npm install gpt-tokenizer.",
    data: { package: "gpt-tokenizer" },
  });
});
