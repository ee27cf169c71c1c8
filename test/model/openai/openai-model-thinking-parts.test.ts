// Goal: the thinking parts of Mistral are read as reasoning and sent back unchanged.
// Method: the real client against a scripted server, whole and streamed.

import { describe, expect } from "vitest";

import type { AssistantMessage } from "../../../src/protocol/message.ts";
import type { ModelDelta } from "../../../src/protocol/stream-part.ts";
import { proves } from "../../harness/proves.ts";
import { roundTrip, sentMessages, served } from "../../support/chat-round-trip.ts";
import { modelAt, MODES, never, QUESTION } from "../../support/openai-calls.ts";
import { OpenAiServer, says } from "../../support/openai-server.ts";

describe.each(MODES)("a reply with thinking parts that comes %s", (mode) => {
  const part = (text: string, more: object = {}): object => ({
    type: "thinking",
    thinking: [{ type: "text", text }],
    ...more,
  });
  const oak = { type: "text", text: "An oak." };
  const whole = { content: [part("Oak or elm?", { closed: true }), oak] };
  const deltas = [
    { role: "assistant", content: "" },
    { content: [part("Oak ")] },
    { content: [part("or elm?", { closed: true })] },
    { content: [part(""), oak] },
  ];

  proves(["D559"], "is read as reasoning and text, and sent back unchanged", async () => {
    const { reply: said, sent } = await roundTrip(served(mode, whole, deltas), mode);
    expect(said.message).toMatchObject({
      text: "An oak.",
      parts: [
        {
          type: "reasoning",
          text: "Oak or elm?",
          data: { chat: { thinking: { closed: true } } },
        },
        { type: "text", length: 7 },
      ],
    });
    expect(sent).toEqual({ role: "assistant", ...whole });
  });

  proves(["D614"], "is sent back with strings if its thinking parts are strings", async () => {
    const of = (thinking: string, more: object = {}): object => ({
      type: "thinking",
      thinking,
      ...more,
    });
    const message = { content: [of("Oak or elm?", { signature: "c2ln" }), oak] };
    const pieces = [
      { content: [of("Oak ")] },
      { content: [of("or elm?", { signature: "c2ln" })] },
      { content: [oak] },
    ];
    const { reply: said, sent } = await roundTrip(served(mode, message, pieces), mode);
    expect([said.message.text, said.message.parts?.[0]]).toMatchObject([
      "An oak.",
      { type: "reasoning", text: "Oak or elm?" },
    ]);
    expect(sent).toEqual({ role: "assistant", ...message });
  });

  proves(
    ["D559"],
    "is sent back without text if it has only thinking parts and calls",
    async () => {
      const call = { id: "a", type: "function", function: { name: "list", arguments: "{}" } };
      const message = { content: [part("I list.")], tool_calls: [call] };
      const pieces = [
        { content: [part("I "), part("list.")] },
        { tool_calls: [{ index: 0, ...call }] },
      ];
      const { sent } = await roundTrip(served(mode, message, pieces), mode);
      expect(sent).toEqual({ role: "assistant", ...message });
    },
  );

  proves(["D559"], "preserves each signature with the part that it signs", async () => {
    const message = {
      content: [part("One.", { signature: "c2ln" }), part("Two.", { signature: "bmU" }), oak],
    };
    const pieces = [
      { content: [part("One.")] },
      { content: [{ type: "thinking", thinking: [], signature: "c2ln" }] },
      { content: [part("Two.", { signature: "bmU" })] },
      { content: "An oak." },
    ];
    const { sent } = await roundTrip(served(mode, message, pieces), mode);
    expect(sent).toEqual({ role: "assistant", ...message });
  });

  proves(["D559"], "drops its reasoning if `reasoningField` is false", async () => {
    const answer = served(mode, whole, deltas);
    const { reply: said, sent } = await roundTrip(answer, mode, { reasoningField: false });
    expect([said.message, sent]).toEqual([
      { role: "assistant", text: "An oak.", toolCalls: [] },
      { role: "assistant", content: "An oak." },
    ]);
  });

  proves(["D559"], "is sent back in the field that `reasoningField` names", async () => {
    const thinking = {
      type: "reasoning",
      text: "Hm.",
      data: { chat: { thinking: {} } },
    } as const;
    const written: AssistantMessage = {
      role: "assistant",
      text: "Oak.",
      toolCalls: [],
      parts: [thinking, { type: "text", length: 4 }],
    };
    await using server = await OpenAiServer.start(() => says("Done."), {
      takesAnyMessages: true,
    });
    const model = modelAt(server, { reasoningField: "reasoning" });
    const messages = [...QUESTION.messages, written];
    await model.generate({ ...QUESTION, messages }, { signal: never() });
    const sent = { role: "assistant", content: "Oak.", reasoning: "Hm." };
    expect(sentMessages(server, 1)[1]).toEqual(sent);
  });
});

proves(["D559"], "emits Mistral's thinking parts as reasoning", async () => {
  const thinking = (text: string): object => ({
    content: [{ type: "thinking", thinking: [{ type: "text", text }] }],
  });
  const deltas = [thinking("Oak "), thinking("or elm?"), { content: "An oak." }];
  await using server = await OpenAiServer.start(() => served("streamed", {}, deltas));
  const said: ModelDelta[] = [];
  const onDelta = (delta: ModelDelta): void => void said.push(delta);
  await modelAt(server).generate(QUESTION, { signal: never(), onDelta });
  expect(said).toEqual([
    { type: "reasoning", text: "Oak " },
    { type: "reasoning", text: "or elm?" },
    { type: "text", text: "An oak." },
  ]);
});
