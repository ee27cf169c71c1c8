// Goal: every stream of a model of the AI SDK results in one and the same reply, in order, with the
// data that its provider wants back.
// Method: models with scripted streams; whole replies, and the prompt of the next request.

import { describe, expect, test } from "vitest";

import { aiSdkModel } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import { proves } from "../../harness/proves.ts";
import { never, QUESTION } from "../../support/openai-calls.ts";
import {
  after,
  ask,
  fakeModel,
  finish,
  NO_USAGE,
  saying,
  streamOf,
  text,
  type Part,
} from "../../support/ai-sdk/fake-model.ts";
import { texts } from "../../support/texts.ts";

const THOUGHT: readonly Part[] = [
  { type: "reasoning-start", id: "0", providerMetadata: { p: { at: "start", kept: 1 } } },
  { type: "reasoning-delta", id: "0", delta: "It rains " },
  { type: "reasoning-delta", id: "0", delta: "often.", providerMetadata: { p: { at: "delta" } } },
  {
    type: "reasoning-end",
    id: "0",
    providerMetadata: { p: { signature: "s" }, q: { more: true } },
  },
];

/** Each kind of part that a stream can have, as a provider would send them. */
const EVERYTHING: readonly Part[] = [
  {
    type: "stream-start",
    warnings: [{ type: "unsupported", feature: "seed", details: "none here" }],
  },
  { type: "response-metadata", id: "r-1" },
  { type: "response-metadata", modelId: "some-model-2026", id: "r-2" },
  { type: "ping" },
  { type: "raw", rawValue: {} },
  { type: "custom", kind: "p.message_start", providerMetadata: { p: { id: "no content" } } },
  ...THOUGHT,
  { type: "reasoning-start", id: "1", providerMetadata: { p: { redacted: "xyz" } } },
  { type: "reasoning-end", id: "1" },
  {
    type: "tool-call",
    toolCallId: "ran",
    toolName: "web",
    input: '{"q":"sun"}',
    providerExecuted: true,
    providerMetadata: { p: { item: 1 } },
  },
  { type: "tool-result", toolCallId: "ran", toolName: "web", result: "half", preliminary: true },
  { type: "tool-result", toolCallId: "ran", toolName: "web", result: { hits: [1] } },
  { type: "tool-result", toolCallId: "ran", toolName: "web", result: { no: 1 }, isError: true },
  { type: "source", sourceType: "url", id: "s", url: "https://example.com/" },
  ...text("Let me look.", "a"),
  { type: "tool-input-start", id: "c1", toolName: "weather" },
  { type: "tool-input-delta", id: "c1", delta: '{"place":' },
  { type: "text-start", id: "b" },
  { type: "tool-input-delta", id: "c1", delta: '"here"}' },
  { type: "tool-input-end", id: "c1" },
  {
    type: "tool-call",
    toolCallId: "c1",
    toolName: "weather",
    input: '{"place":"here"}',
    providerMetadata: { p: { thought: "t" } },
  },
  { type: "text-delta", id: "b", delta: " And then?" },
  { type: "text-end", id: "b" },
  { type: "file", mediaType: "image/png", data: { type: "data", data: new Uint8Array([1, 2, 3]) } },
  { type: "custom", kind: "p.fallback", providerMetadata: { p: { from: "a" } } },
  finish("tool-calls", "tool_use"),
  { type: "text-delta", id: "late", delta: "too late" },
];

proves(
  ["M30"],
  "combines a stream with every kind of part into one reply, in order, with all data",
  async () => {
    const pieces: string[] = [];
    const reply = await aiSdkModel(saying(EVERYTHING)).generate(QUESTION, {
      signal: never(),
      onDelta: texts((text) => pieces.push(text)),
    });

    expect(pieces).toEqual(["Let me look.", " And then?"]);
    expect(reply).toEqual({
      message: {
        role: "assistant",
        text: "Let me look. And then?",
        toolCalls: [{ callId: "c1", toolName: "weather", argumentsText: '{"place":"here"}' }],
        parts: [
          {
            type: "reasoning",
            text: "It rains often.",
            data: { p: { at: "delta", kept: 1, signature: "s" }, q: { more: true } },
          },
          { type: "reasoning", text: "", data: { p: { redacted: "xyz" } } },
          {
            type: "opaque",
            kind: "tool-call",
            data: {
              toolCallId: "ran",
              toolName: "web",
              input: { q: "sun" },
              providerExecuted: true,
              providerOptions: { p: { item: 1 } },
            },
          },
          {
            type: "opaque",
            kind: "tool-result",
            data: {
              toolCallId: "ran",
              toolName: "web",
              output: { type: "json", value: { hits: [1] } },
            },
          },
          {
            type: "opaque",
            kind: "tool-result",
            data: {
              toolCallId: "ran",
              toolName: "web",
              output: { type: "error-json", value: { no: 1 } },
            },
          },
          {
            type: "opaque",
            kind: "source",
            data: { sourceType: "url", id: "s", url: "https://example.com/" },
          },
          { type: "text", length: 22 },
          { type: "call", callId: "c1", data: { p: { thought: "t" } } },
          {
            type: "opaque",
            kind: "file",
            data: { mediaType: "image/png", data: { type: "data", data: "AQID" } },
          },
          {
            type: "opaque",
            kind: "custom",
            data: { kind: "p.fallback", providerOptions: { p: { from: "a" } } },
          },
        ],
      },
      finishReason: "tool_calls",
      rawFinishReason: "tool_use",
      usage: {
        inputTokens: 100,
        cachedInputTokens: 60,
        cacheWriteInputTokens: 10,
        hasServerTools: true,
        outputTokens: 20,
        reasoningTokens: 8,
      },
      responseId: "r-1",
      responseModel: "some-model-2026",
      warnings: ["Not supported: seed (none here)"],
    });
  },
);

proves(
  ["M31"],
  "sends a reply back in its pieces and omits those that a prompt cannot contain",
  async () => {
    const fake = fakeModel(() => ({ stream: streamOf(EVERYTHING) }));
    const model = aiSdkModel(fake);
    await ask(model, after(model, await ask(model)));

    expect(fake.asked[1]?.prompt).toEqual([
      { role: "user", content: [{ type: "text", text: "What is it?" }] },
      {
        role: "assistant",
        content: [
          {
            type: "reasoning",
            text: "It rains often.",
            providerOptions: { p: { at: "delta", kept: 1, signature: "s" }, q: { more: true } },
          },
          { type: "reasoning", text: "", providerOptions: { p: { redacted: "xyz" } } },
          {
            type: "tool-call",
            toolCallId: "ran",
            toolName: "web",
            input: { q: "sun" },
            providerExecuted: true,
            providerOptions: { p: { item: 1 } },
          },
          {
            type: "tool-result",
            toolCallId: "ran",
            toolName: "web",
            output: { type: "json", value: { hits: [1] } },
          },
          {
            type: "tool-result",
            toolCallId: "ran",
            toolName: "web",
            output: { type: "error-json", value: { no: 1 } },
          },
          { type: "text", text: "Let me look. And then?" },
          {
            type: "tool-call",
            toolCallId: "c1",
            toolName: "weather",
            input: { place: "here" },
            providerOptions: { p: { thought: "t" } },
          },
          { type: "file", mediaType: "image/png", data: { type: "data", data: "AQID" } },
          { type: "custom", kind: "p.fallback", providerOptions: { p: { from: "a" } } },
        ],
      },
      {
        role: "tool",
        content: [
          {
            type: "tool-result",
            toolCallId: "c1",
            toolName: "weather",
            output: { type: "text", value: "It is sunny." },
          },
        ],
      },
    ]);
  },
);

proves(
  ["M31"],
  "sends only text and calls of a reply to another model, and all of the reply to its writer",
  async () => {
    const writer = fakeModel(() => ({ stream: streamOf(EVERYTHING) }));
    const request = after(aiSdkModel(writer), await ask(aiSdkModel(writer)));
    const other = saying([...text("ok"), finish()]);
    await ask(aiSdkModel(other, { replayKey: "another" }), request);
    await ask(aiSdkModel(writer), request);

    expect(other.asked[0]?.prompt[1]).toEqual({
      role: "assistant",
      content: [
        { type: "text", text: "Let me look. And then?" },
        { type: "tool-call", toolCallId: "c1", toolName: "weather", input: { place: "here" } },
      ],
    });
    expect(JSON.stringify(writer.asked[1]?.prompt)).toContain('"signature":"s"');
  },
);

describe("a reply", () => {
  const replyTo = async (...parts: readonly Part[]) => await ask(aiSdkModel(saying(parts)));

  test("has no parts and no empty data if it is plain text", async () => {
    const reply = await replyTo(
      { type: "text-start", id: "t", providerMetadata: { p: {} } },
      { type: "text-delta", id: "t", delta: "Well." },
      finish("stop"),
    );
    expect(reply.message).toEqual({ role: "assistant", text: "Well.", toolCalls: [] });
  });

  test("contains the data that its provider adds until the end", async () => {
    const details: { text: string }[] = [];
    async function* parts(): AsyncGenerator<Part> {
      yield { type: "reasoning-start", id: "0", providerMetadata: { p: { details } } };
      yield { type: "reasoning-end", id: "0" };
      yield* text("Well.");
      details.push({ text: "later" });
      yield finish();
    }
    const reply = await ask(
      aiSdkModel(fakeModel(() => ({ stream: ReadableStream.from(parts()) }))),
    );
    details.push({ text: "too late" });
    expect(reply.message.parts?.[0]).toEqual({
      type: "reasoning",
      text: "",
      data: { p: { details: [{ text: "later" }] } },
    });
  });

  test("names calls without an id by the reply's id and their index", async () => {
    const reply = await replyTo(
      { type: "response-metadata", id: "r" },
      { type: "tool-call", toolCallId: "", toolName: "a", input: "{}" },
      { type: "tool-call", toolCallId: "x", toolName: "b", input: "{}" },
      { type: "tool-call", toolCallId: "", toolName: "c", input: "{}" },
      finish("tool-calls"),
    );
    expect(reply.message.toolCalls.map(({ callId }) => callId)).toEqual(["r.0", "x", "r.2"]);
  });

  test.each([
    ["stop", "stop"],
    ["length", "length"],
    ["tool-calls", "tool_calls"],
    ["content-filter", "content_filter"],
    ["error", "error"],
    ["other", "other"],
  ] as const)("maps the finish reason %s to %s", async (unified, expected) => {
    const { finishReason, rawFinishReason } = await replyTo(
      ...text("Well."),
      finish(unified, "raw"),
    );
    expect({ finishReason, rawFinishReason }).toEqual({
      finishReason: expected,
      rawFinishReason: "raw",
    });
  });

  test("has no usage if its provider counts nothing or reports zero", async () => {
    const nought = {
      ...NO_USAGE,
      inputTokens: { ...NO_USAGE.inputTokens, total: 0 },
      outputTokens: { ...NO_USAGE.outputTokens, total: 0 },
    };
    const replies = [NO_USAGE, nought].map((usage) =>
      replyTo(...text("Well."), finish("stop", "stop", usage)),
    );
    expect((await Promise.all(replies)).map((reply) => "usage" in reply)).toEqual([false, false]);
  });

  test("limits a part of the usage to the whole", async () => {
    const usage = {
      inputTokens: { total: 10, noCache: 0, cacheRead: 8, cacheWrite: 8 },
      outputTokens: { total: 5, text: 0, reasoning: 9 },
    };
    expect((await replyTo(...text("Well."), finish("stop", "stop", usage))).usage).toEqual({
      inputTokens: 10,
      cachedInputTokens: 8,
      cacheWriteInputTokens: 2,
      outputTokens: 5,
      reasoningTokens: 5,
    });
    // Some servers count cached tokens in addition to the input.
    const cached = { ...usage, inputTokens: { ...usage.inputTokens, cacheRead: 99 } };
    expect((await replyTo(...text("Well."), finish("stop", "stop", cached))).usage).toMatchObject({
      inputTokens: 109,
      cachedInputTokens: 99,
      cacheWriteInputTokens: 8,
    });
  });
});
