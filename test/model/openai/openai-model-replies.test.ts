// Goal: a reply arrives as the same value in whichever form the server sends it.
// Method: the real client against a scripted server, each case whole and streamed.

import { describe, expect, test } from "vitest";

import { checkReply } from "../../../src/model/check-reply.ts";
import type { ModelReply } from "../../../src/model/model.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { unfrozenParts } from "../../support/frozen.ts";
import { modelAt, MODES, reply } from "../../support/openai-calls.ts";
import { calls, OpenAiServer, says, type Says } from "../../support/openai-server.ts";

const USAGE = { inputTokens: 10, cachedInputTokens: 0, outputTokens: 5, reasoningTokens: 0 };
const FROM = { responseId: "chatcmpl-1", responseModel: "test-model-2026" };

describe.each(MODES)("a reply that comes %s", (mode) => {
  const replyTo = async (said: Says): Promise<ModelReply> => {
    await using server = await OpenAiServer.start(() => said);
    return (await reply(modelAt(server), mode)).reply;
  };

  test("is text with its usage, its id and the model that wrote it", async () => {
    expect(await replyTo(says("It is a tree."))).toEqual({
      message: { role: "assistant", text: "It is a tree.", toolCalls: [] },
      finishReason: "stop",
      usage: USAGE,
      ...FROM,
    });
  });

  test("contains several complete tool calls in order, with or without text before them", async () => {
    const asked = calls(["read", { path: "a/b.ts" }], ["list", {}], ["read", "{broken"]);
    const toolCalls = [
      { callId: "call_1", toolName: "read", argumentsText: '{"path":"a/b.ts"}' },
      { callId: "call_2", toolName: "list", argumentsText: "{}" },
      { callId: "call_3", toolName: "read", argumentsText: "{broken" },
    ];

    expect([await replyTo(asked), await replyTo({ ...asked, text: "Let me look." })]).toEqual([
      {
        message: { role: "assistant", text: "", toolCalls },
        finishReason: "tool_calls",
        usage: USAGE,
        ...FROM,
      },
      {
        message: { role: "assistant", text: "Let me look.", toolCalls },
        finishReason: "tool_calls",
        usage: USAGE,
        ...FROM,
      },
    ]);
  });

  test("is frozen and accepted without a copy, unless its usage is implausible", async () => {
    await using server = await OpenAiServer.start(() => calls(["read", { path: "a/b.ts" }]));
    const model = modelAt(server);
    const { reply: own } = await reply(model, mode);
    const size = { inputTokens: 10, maxOutputTokens: 10 };

    expect(checkReply(model, own, size)).toEqual(own);
    expect(checkReply(model, own, size).message).toBe(own.message);
    expect(unfrozenParts(own.message)).toEqual([]);
    expect(checkReply(model, { ...own }, size).message).not.toBe(own.message);
    expect(checkReply(model, own, { inputTokens: 0, maxOutputTokens: 1 }).usage).toBeUndefined();
    await new Promise((resolve) => setImmediate(resolve)); // Warnings are emitted in the next turn.
    expect(takeWarnings()).toHaveLength(1);
  });

  test("is a refusal, distinguished from text", async () => {
    expect((await replyTo({ type: "says", refusal: "I cannot help with that." })).message).toEqual({
      role: "assistant",
      text: "",
      toolCalls: [],
      refusal: "I cannot help with that.",
    });
  });

  test("is empty if the server sends no content", async () => {
    expect((await replyTo({ type: "says" })).message).toEqual({
      role: "assistant",
      text: "",
      toolCalls: [],
    });
  });

  test("is frozen", async () => {
    const { message } = await replyTo(calls(["list", {}]));
    expect([message, message.toolCalls, message.toolCalls[0]].map(Object.isFrozen)).toEqual([
      true,
      true,
      true,
    ]);
  });

  test("names calls without an id by the reply's id and their index, and preserves other ids", async () => {
    const toolCalls = [
      { name: "a", arguments: "{}" },
      { id: "call_b", name: "b", arguments: "{}" },
      { id: "", name: "c", arguments: "{}" },
    ];
    const { message } = await replyTo({ type: "says", toolCalls });
    expect(message.toolCalls.map((call) => call.callId)).toEqual([
      "chatcmpl-1.0",
      "call_b",
      "chatcmpl-1.2",
    ]);
  });

  test.each([
    ["stop", "stop"],
    ["length", "length"],
    ["tool_calls", "tool_calls"],
    ["function_call", "tool_calls"],
    ["content_filter", "content_filter"],
    ["error", "error"],
    ["eos_token", "other"],
  ])("maps the finish reason %s to %s", async (finishReason, expected) => {
    expect((await replyTo(says("Well", { finishReason }))).finishReason).toBe(expected);
  });

  test("reports cached and reasoning tokens as parts of input and output", async () => {
    const usage = {
      prompt_tokens: 1_000,
      completion_tokens: 300,
      total_tokens: 1_300,
      prompt_tokens_details: { cached_tokens: 768, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 256 },
    };
    expect((await replyTo(says("Well", { usage }))).usage).toEqual({
      inputTokens: 1_000,
      cachedInputTokens: 768,
      outputTokens: 300,
      reasoningTokens: 256,
    });
  });

  test("reports cache writes if the server does, limited to the uncached input", async () => {
    const written = [512, 9_000, -1].map(async (tokens) => {
      const details = { cached_tokens: 300, cache_write_tokens: tokens };
      const usage = { prompt_tokens: 1_000, completion_tokens: 1, prompt_tokens_details: details };
      return (await replyTo(says("Well", { usage }))).usage?.cacheWriteInputTokens;
    });
    expect(await Promise.all(written)).toEqual([512, 700, undefined]);
  });

  test("counts tokens that only the total contains as output", async () => {
    const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 170 };
    expect((await replyTo(says("Well", { usage }))).usage).toEqual({
      inputTokens: 100,
      cachedInputTokens: 0,
      outputTokens: 70,
      reasoningTokens: 0,
    });
  });

  test("limits a part of the usage to the whole", async () => {
    const usage = {
      prompt_tokens: 10,
      completion_tokens: 5,
      completion_tokens_details: { reasoning_tokens: 99 },
    };
    expect((await replyTo(says("Well", { usage }))).usage).toEqual({
      inputTokens: 10,
      cachedInputTokens: 0,
      outputTokens: 5,
      reasoningTokens: 5,
    });
  });

  test.each<[string, Says["usage"] & (object | "none")]>([
    ["none", "none"],
    ["half of it", { prompt_tokens: 10 }],
    ["text", { prompt_tokens: "10", completion_tokens: "5" }],
  ])("has no usage if the server reports %s", async (_what, usage) => {
    expect(await replyTo(says("Well", { usage }))).toEqual({
      message: { role: "assistant", text: "Well", toolCalls: [] },
      finishReason: "stop",
      ...FROM,
    });
  });

  test("contains an implausible usage, which is judged by the size of the call later", async () => {
    const usage = { prompt_tokens: 10, completion_tokens: -5, total_tokens: 10 };
    const { inputTokens, outputTokens } = (await replyTo(says("Well", { usage }))).usage ?? {};
    expect([inputTokens, outputTokens]).toEqual([10, -5]);
  });
});

test("accepts a whole reply with only a message, content in parts and arguments as an object", async () => {
  const message = {
    content: [
      { type: "thinking", thinking: "Hm." },
      { type: "text", text: "One, " },
      { type: "text", text: "two." },
    ],
    tool_calls: [
      { function: { name: "go", arguments: { to: "sea" } } },
      { id: "b", function: { name: "stay" } },
    ],
  };
  await using server = await OpenAiServer.start(() => ({
    type: "raw",
    body: JSON.stringify({ choices: [{ message }] }),
  }));

  expect((await reply(modelAt(server), "whole")).reply).toEqual({
    message: {
      role: "assistant",
      text: "One, two.",
      parts: [
        { type: "reasoning", text: "Hm.", data: { chat: { thinking: {}, isText: true } } },
        { type: "text", length: 9 },
        { type: "call", callId: "call.0" },
        { type: "call", callId: "b" },
      ],
      toolCalls: [
        { callId: "call.0", toolName: "go", argumentsText: '{"to":"sea"}' },
        { callId: "b", toolName: "stay", argumentsText: "" },
      ],
    },
    finishReason: "unknown",
  });
});

test("returns its own reply to each of many concurrent calls", async () => {
  await using server = await OpenAiServer.start((_request, count) => says(`Reply ${count}`));
  const model = modelAt(server);

  const replies = await Promise.all(
    Array.from({ length: 40 }, (_unused, index) => reply(model, MODES[index % 2] ?? "whole")),
  );

  const texts = replies.map(({ reply: { message } }) => message.text);
  expect(new Set(texts).size).toBe(40);
  expect(
    replies.filter(({ pieces }) => pieces.length > 0).map(({ pieces }) => pieces.join("")),
  ).toEqual(texts.filter((_text, index) => index % 2 === 1));
});
