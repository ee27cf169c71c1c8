// Goal: reasoning and provider data of a Chat Completions reply are preserved and sent back in the
// format that the server uses.
// Method: the real client against a scripted server, whole and streamed; replies and bodies are
// compared in full.

import { describe, expect, test } from "vitest";

import { openai } from "../../../src/model/openai/openai-model.ts";
import { toReplayKey } from "../../../src/model/recipient-messages.ts";
import type { AssistantMessage } from "../../../src/protocol/message.ts";
import { proves } from "../../harness/proves.ts";
import { roundTrip, sentMessages, served } from "../../support/chat-round-trip.ts";
import { failure, modelAt, MODES, never, QUESTION, reply } from "../../support/openai-calls.ts";
import { calls, OpenAiServer, says, type ServerReply } from "../../support/openai-server.ts";

const SIGNED = [
  { type: "reasoning.text", text: "Oak or elm?", signature: "c2ln", format: "f", index: 0 },
  { type: "reasoning.encrypted", data: "ZW5j", format: "f", index: 1 },
];

describe.each(MODES)("a reply that comes %s", (mode) => {
  for (const field of ["reasoning_content", "reasoning"] as const) {
    proves(["M6"], `preserves ${field} and sends it back under the same name`, async () => {
      const answer = served(mode, { [field]: "Oak or elm?", content: "An oak." }, [
        { [field]: "Oak ", content: null },
        { [field]: "or elm?" },
        { content: "An oak." },
      ]);
      const { reply: said, sent } = await roundTrip(answer, mode);

      expect(said.message.parts).toEqual([
        { type: "reasoning", text: "Oak or elm?", data: { chat: { field } } },
        { type: "text", length: 7 },
      ]);
      expect(sent).toEqual({ role: "assistant", content: "An oak.", [field]: "Oak or elm?" });
    });
  }

  proves(
    ["M6"],
    "preserves signed and encrypted reasoning and sends it back unchanged",
    async () => {
      const message = { content: "An oak.", reasoning: "Oak or elm?", reasoning_details: SIGNED };
      const [text, encrypted] = SIGNED;
      const answer = served(mode, message, [
        {
          reasoning: "Oak ",
          reasoning_details: [{ type: "reasoning.text", text: "Oak ", format: "f", index: 0 }],
        },
        {
          reasoning: "or elm?",
          reasoning_details: [{ type: "reasoning.text", text: "or elm?", format: "f", index: 0 }],
        },
        { reasoning_details: [{ type: text?.type, signature: "c2ln", format: "f", index: 0 }] },
        { reasoning_details: [{ ...encrypted, data: "ZW" }] },
        { reasoning_details: [{ ...encrypted, data: "5j" }] },
        { content: "An oak." },
      ]);
      const { reply: said, sent } = await roundTrip(answer, mode);

      expect(said.message.parts).toEqual([
        {
          type: "reasoning",
          text: "Oak or elm?",
          data: { chat: { field: "reasoning", details: SIGNED } },
        },
        { type: "text", length: 7 },
      ]);
      expect(sent).toEqual({ role: "assistant", ...message });
    },
  );

  proves(
    ["M6"],
    "preserves Gemini's signatures of a text and a call and sends them back in place",
    async () => {
      const ofText = { google: { thought_signature: "dGV4dA" } };
      const ofCall = { google: { thought_signature: "Y2FsbA" } };
      const face = { name: "list", arguments: "{}" };
      const call = { id: "call_1", type: "function", function: face, extra_content: ofCall };
      const answer = served(
        mode,
        { content: "Look.", extra_content: ofText, tool_calls: [call] },
        [
          { content: "Lo", extra_content: ofText },
          { content: "ok." },
          { tool_calls: [{ index: 0, ...call }] },
        ],
        { finish: "tool_calls" },
      );
      const { reply: said, sent } = await roundTrip(answer, mode);

      expect(said.message.parts).toEqual([
        { type: "text", length: 5, data: { chat: { extra_content: ofText } } },
        { type: "call", callId: "call_1", data: { chat: { extra_content: ofCall } } },
      ]);
      expect(sent).toEqual({
        role: "assistant",
        content: "Look.",
        extra_content: ofText,
        tool_calls: [call],
      });
    },
  );

  proves(["M6"], "drops reasoning and sends none if `reasoningField` is false", async () => {
    const answer = served(
      mode,
      { content: "An oak.", reasoning: "Hm.", reasoning_details: SIGNED },
      [{ reasoning: "Hm.", reasoning_details: SIGNED }, { content: "An oak." }],
    );
    const { reply: said, sent } = await roundTrip(answer, mode, { reasoningField: false });
    expect([said.message, sent]).toEqual([
      { role: "assistant", text: "An oak.", toolCalls: [] },
      { role: "assistant", content: "An oak." },
    ]);
  });

  proves(["M6"], "reads and sends reasoning in the field that `reasoningField` names", async () => {
    const answer = served(
      mode,
      { reasoning_content: "No.", reasoning: "Yes.", content: "An oak." },
      [{ reasoning_content: "No.", reasoning: "Yes." }, { content: "An oak." }],
    );
    const { sent } = await roundTrip(answer, mode, { reasoningField: "reasoning" });
    expect(sent).toEqual({ role: "assistant", content: "An oak.", reasoning: "Yes." });
  });

  proves(
    ["M8"],
    "becomes a tool call if the server rejected the call that the model generated",
    async () => {
      const report = {
        message: "Tool call validation failed",
        type: "invalid_request_error",
        code: "tool_use_failed",
      };
      const generations = [
        ['{"name": "list", "arguments": {"no": 1}}', "list", '{"no":1}'],
        ['<function=list>{"no": 1}</function>', "list", '{"no": 1}'],
      ] as const;
      for (const [failed_generation, toolName, argumentsText] of generations) {
        const error = { ...report, failed_generation };
        const answer: ServerReply =
          mode === "whole"
            ? { type: "status", status: 400, body: { error } }
            : { type: "events", data: [{ error }] };
        await using server = await OpenAiServer.start(() => answer);
        expect((await reply(modelAt(server), mode)).reply).toEqual({
          message: {
            role: "assistant",
            text: "",
            toolCalls: [{ callId: "call.0", toolName, argumentsText }],
          },
          finishReason: "tool_calls",
        });
      }
    },
  );

  proves(["M8"], "ends with content_filter if all of its content was filtered", async () => {
    const usage = { prompt_tokens: 15, completion_tokens: 19 };
    const answer: ServerReply =
      mode === "whole"
        ? {
            type: "raw",
            body: JSON.stringify({
              id: "c1",
              choices: [{ index: 0, finish_reason: "content_filter" }],
              usage,
            }),
          }
        : served(mode, {}, [], { finish: "content_filter", usage });
    await using server = await OpenAiServer.start(() => answer);
    const { message, finishReason, usage: counted } = (await reply(modelAt(server), mode)).reply;
    expect({ message, finishReason, counted }).toEqual({
      message: { role: "assistant", text: "", toolCalls: [] },
      finishReason: "content_filter",
      counted: { inputTokens: 15, cachedInputTokens: 0, outputTokens: 19, reasoningTokens: 0 },
    });
  });

  const half = { prompt_tokens: 64, completion_tokens: 6 };
  for (const [what, usage, input, cached] of [
    ["by Mistral", { ...half, num_cached_tokens: 32 }, 64, 32],
    ["by DeepSeek", { ...half, prompt_cache_hit_tokens: 32 }, 64, 32],
    ["beside the prompt", { ...half, prompt_tokens_details: { cached_tokens: 100 } }, 164, 100],
    [
      "beside a prompt of nothing else",
      { prompt_tokens: 0, completion_tokens: 6, prompt_tokens_details: { cached_tokens: 64 } },
      64,
      64,
    ],
    [
      "with audio",
      { ...half, prompt_tokens_details: { audio_tokens: 4, cached_tokens: 1 } },
      64,
      1,
    ],
  ] as const) {
    proves(["M8"], `counts cached input tokens that are reported ${what}`, async () => {
      await using server = await OpenAiServer.start(() => says("Well", { usage }));
      expect((await reply(modelAt(server), mode)).reply.usage).toEqual({
        inputTokens: input,
        cachedInputTokens: cached,
        outputTokens: 6,
        reasoningTokens: 0,
      });
    });
  }

  proves(["M8"], "uses only the choice with index 0, in any order of the choices", async () => {
    const choice = (index: number, text: string): object => ({
      index,
      [mode === "whole" ? "message" : "delta"]: { content: text },
      finish_reason: "stop",
    });
    const body = { id: "c1", choices: [choice(1, "Elm."), choice(0, "Oak.")] };
    const answer: ServerReply =
      mode === "whole"
        ? { type: "raw", body: JSON.stringify(body) }
        : { type: "events", data: [{ choices: [choice(2, "Ash.")] }, body, "[DONE]"] };
    await using server = await OpenAiServer.start(() => answer);
    expect((await reply(modelAt(server), mode)).reply.message.text).toBe("Oak.");
  });

  proves(["M8"], "reports an unknown finish reason in `rawFinishReason`", async () => {
    const finished = async (finish: string): Promise<unknown> => {
      await using server = await OpenAiServer.start(() => says("Oak.", { finishReason: finish }));
      const { finishReason, rawFinishReason } = (await reply(modelAt(server), mode)).reply;
      return [finishReason, rawFinishReason];
    };
    expect([await finished("stop"), await finished("eos_token")]).toEqual([
      ["stop", undefined],
      ["other", "eos_token"],
    ]);
  });
});

proves(["M8"], "reports a failed generation that is not a readable call as retryable", async () => {
  const report = { type: "invalid_request_error", code: "tool_use_failed" };
  const error = { ...report, message: "Failed", failed_generation: "I would call list" };
  const facts = [
    await failureOf({ type: "events", data: [{ error }] }),
    await failureOf({ type: "status", status: 400, body: { error } }),
  ].map(({ code, isRetryable }) => ({ code, isRetryable }));
  const retried = { code: "model_unavailable", isRetryable: true };
  expect(facts).toEqual([retried, retried]);
});

proves(["M8"], "reads the lost output tokens from the usage of an error chunk", async () => {
  const said = { choices: [{ index: 0, delta: { content: "An" } }] };
  const usage = { prompt_tokens: 10, completion_tokens: 77 };
  const data = [said, { error: { message: "Out of memory", code: 500 }, usage }];
  expect((await failureOf({ type: "events", data })).lostOutputTokens).toBe(77);
});

async function failureOf(answer: ServerReply): ReturnType<typeof failure> {
  await using server = await OpenAiServer.start(() => answer);
  return await failure(modelAt(server), "streamed");
}

proves(["M6"], "counts encrypted reasoning against the output cap", async () => {
  const data = "x".repeat(100 * 16 + 4 * 1024);
  const detail = { type: "reasoning.encrypted", data, index: 0 };
  const event = { choices: [{ index: 0, delta: { reasoning_details: [detail] } }] };
  const facts = await failureOf({ type: "events", data: [event] });
  expect([facts.code, facts.lostOutputTokens]).toEqual(["model_protocol_error", 200]);
});

proves(["D511"], "counts reasoning details as lost output if the stream breaks", async () => {
  const details = [
    { type: "reasoning.encrypted", data: "x".repeat(100), index: 0 },
    { type: "reasoning.text", text: "An oak, I think.", index: 1 },
  ];
  const event = { choices: [{ index: 0, delta: { reasoning_details: details } }] };
  const { lostOutputTokens } = await failureOf({ type: "events", data: [event] });
  const bytes = details.reduce((sum, detail) => sum + JSON.stringify(detail).length, 0);
  expect(lostOutputTokens).toBe(Math.ceil((bytes * 3) / 4 / 3));
});

const thought: AssistantMessage = {
  role: "assistant",
  text: "Oak.",
  toolCalls: [],
  parts: [
    { type: "reasoning", text: "Hm.", data: { chat: { field: "reasoning_content" } } },
    { type: "text", length: 4 },
  ],
};
const plain: AssistantMessage = { role: "assistant", text: "Elm.", toolCalls: [] };

proves(
  ["M6"],
  "sends an empty reasoning_content with all other replies once one reply has it",
  async () => {
    await using server = await OpenAiServer.start(() => calls(["list", {}]), {
      takesAnyMessages: true,
    });
    const model = modelAt(server);
    const ask = async (...messages: readonly AssistantMessage[]): Promise<void> => {
      await model.generate(
        { ...QUESTION, messages: [...QUESTION.messages, ...messages] },
        { signal: never() },
      );
    };
    await ask(plain);
    await ask(plain, thought);
    const plainSent = { role: "assistant", content: "Elm." };
    expect([sentMessages(server, 1).slice(1), sentMessages(server, 2).slice(1)]).toEqual([
      [plainSent],
      [
        { ...plainSent, reasoning_content: "" },
        { role: "assistant", content: "Oak.", reasoning_content: "Hm." },
      ],
    ]);
  },
);

proves(["M4"], "sends the reasoning of one message in the field of each model", async () => {
  await using server = await OpenAiServer.start(() => says("Done."), { takesAnyMessages: true });
  const messages = [...QUESTION.messages, thought];
  for (const reasoningField of [undefined, "reasoning", false] as const) {
    const options = reasoningField === undefined ? {} : { reasoningField };
    await modelAt(server, options).generate({ ...QUESTION, messages }, { signal: never() });
  }
  const sent = { role: "assistant", content: "Oak." };
  expect([1, 2, 3].map((number) => sentMessages(server, number)[1])).toEqual([
    { ...sent, reasoning_content: "Hm." },
    { ...sent, reasoning: "Hm." },
    sent,
  ]);
});

proves(["M2"], "sends signed reasoning only to the model that wrote it", async () => {
  await using server = await OpenAiServer.start(() => says("Done."), { takesAnyMessages: true });
  const model = modelAt(server);
  for (const writtenBy of [toReplayKey(model), "openai/other-model"]) {
    const messages = [...QUESTION.messages, { ...thought, writtenBy }];
    await model.generate({ ...QUESTION, messages }, { signal: never() });
  }
  const sent = { role: "assistant", content: "Oak." };
  expect([1, 2].map((number) => sentMessages(server, number)[1])).toEqual([
    { ...sent, reasoning_content: "Hm." },
    sent,
  ]);
});

test("adds the host of the server to a model's replay key, except for OpenAI", () => {
  const keys = [
    { baseUrl: "https://api.openai.com/v1", apiKey: "k" },
    { baseUrl: "https://api.deepseek.com" },
    { baseUrl: "http://localhost:8000/v1" },
  ].map((options) => openai("test-model", options).replayKey);
  expect(keys).toEqual([
    "openai/test-model",
    "openai/test-model@api.deepseek.com",
    "openai/test-model@localhost:8000",
  ]);
});
