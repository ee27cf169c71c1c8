// Goal: reasoning that alternates with text is sent back to its provider in the original order.
// Method: two requests over real HTTP for each interface; the second contains the reply to the
// first.

import { createOpenAI } from "@ai-sdk/openai";
import { describe, expect } from "vitest";

import { isRecord } from "../../../src/kernel/json.ts";
import { aiSdkModel } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import { checkReply } from "../../../src/model/check-reply.ts";
import type { Model } from "../../../src/model/model.ts";
import type { ModelDelta } from "../../../src/protocol/stream-part.ts";
import { proves } from "../../harness/proves.ts";
import { roundTrip, served } from "../../support/chat-round-trip.ts";
import { eventsOf, INTERFACES, WireServer } from "../../support/four-interfaces.ts";
import { modelAt, MODES, never, QUESTION } from "../../support/openai-calls.ts";
import { OpenAiServer } from "../../support/openai-server.ts";

function thinking(text: string, more: object = {}): object {
  return { type: "thinking", thinking: [{ type: "text", text }], ...more };
}

function text(words: string): object {
  return { type: "text", text: words };
}

const CALL = { id: "a", type: "function", function: { name: "list", arguments: "{}" } };

interface Alternation {
  readonly message: object;
  readonly deltas: readonly object[];
  readonly parts: readonly unknown[];
}

const ALTERNATIONS: Readonly<Record<string, Alternation>> = {
  "of thinking parts and texts": {
    message: { content: [thinking("One."), text("A"), thinking("Two."), text("B")] },
    deltas: [
      { content: [thinking("On")] },
      { content: [thinking("e.")] },
      { content: "A" },
      { content: [thinking("Tw")] },
      { content: [thinking("o.")] },
      { content: [text("B")] },
    ],
    parts: ["One.", 1, "Two.", 1],
  },
  "that begins with a text": {
    message: { content: [text("A"), thinking("One."), text("B")] },
    deltas: [{ content: "A" }, { content: [thinking("One."), text("B")] }],
    parts: [1, "One.", 1],
  },
  "that comes in one piece": {
    message: { content: [thinking("One."), text("A"), thinking("Two."), text("B")] },
    deltas: [{ content: [thinking("One."), text("A"), thinking("Two."), text("B")] }],
    parts: ["One.", 1, "Two.", 1],
  },
  "with a signature behind each part": {
    message: {
      content: [
        thinking("One.", { signature: "c2ln" }),
        text("A"),
        thinking("Two.", { signature: "bmU" }),
        text("B"),
      ],
    },
    deltas: [
      { content: [thinking("One.")] },
      { content: [{ type: "thinking", thinking: [], signature: "c2ln" }] },
      { content: "A" },
      { content: [thinking("Two.")] },
      { content: [{ type: "thinking", thinking: [], signature: "bmU" }] },
      { content: "B" },
    ],
    parts: ["One.", 1, "Two.", 1],
  },
  "whose part is closed behind its text": {
    message: { content: [thinking("One.", { closed: true }), text("A")] },
    deltas: [
      { content: [thinking("One.")] },
      { content: "A" },
      { content: [{ type: "thinking", thinking: [], closed: true }] },
    ],
    parts: ["One.", 1],
  },
  "that ends with a part before a call": {
    message: { content: [thinking("One."), text("A"), thinking("Two.")], tool_calls: [CALL] },
    deltas: [
      { content: [thinking("One.")] },
      { content: "A" },
      { content: [thinking("Two.")] },
      { tool_calls: [{ index: 0, ...CALL }] },
    ],
    parts: ["One.", 1, "Two.", "call"],
  },
};

describe.each(MODES)("a reply of Chat Completions that comes %s", (mode) => {
  for (const [what, { message, deltas, parts }] of Object.entries(ALTERNATIONS))
    proves(["D657"], `sends an alternation ${what} back in its order (${mode})`, async () => {
      const { reply, sent } = await roundTrip(served(mode, message, deltas), mode);
      const kept = reply.message.parts?.map((part) =>
        part.type === "text" ? part.length : part.type === "reasoning" ? part.text : part.type,
      );
      expect([kept, sent]).toEqual([parts, { role: "assistant", ...message }]);
    });

  proves(
    ["D657"],
    `sends its text as one string if no reasoning is sent back (${mode})`,
    async () => {
      const { message = {}, deltas = [] } = ALTERNATIONS["of thinking parts and texts"] ?? {};
      const answer = served(mode, message, deltas);
      const { reply, sent } = await roundTrip(answer, mode, { reasoningField: false });
      expect([reply.message, sent]).toEqual([
        { role: "assistant", text: "AB", toolCalls: [] },
        { role: "assistant", content: "AB" },
      ]);
    },
  );
});

proves(["D657"], "streams the parts of an alternation in their order", async () => {
  const deltas = [{ content: [thinking("One."), text("A"), thinking("Two."), text("B")] }];
  await using server = await OpenAiServer.start(() => served("streamed", {}, deltas));
  const said: ModelDelta[] = [];
  const onDelta = (delta: ModelDelta): void => void said.push(delta);
  await modelAt(server).generate(QUESTION, { signal: never(), onDelta });
  expect(said).toEqual([
    { type: "reasoning", text: "One." },
    { type: "text", text: "A" },
    { type: "reasoning", text: "Two." },
    { type: "text", text: "B" },
  ]);
});

/** Returns the body of the request that sends the reply to these events back. */
async function sentBack(
  make: (url: string) => Model,
  events: readonly string[],
): Promise<Readonly<Record<string, unknown>>> {
  await using server = await WireServer.start({ body: events.join("") });
  const model = make(server.url);
  const options = { signal: never(), onDelta: () => undefined };
  const first = await model.generate(QUESTION, options);
  const { message } = checkReply(model, first, { inputTokens: 1_000, maxOutputTokens: 1_000 });
  await model.generate({ ...QUESTION, messages: [...QUESTION.messages, message] }, options);
  const body: unknown = JSON.parse(server.bodies[1] ?? "");
  if (!isRecord(body)) throw new Error("Expected an object as a body.");
  return body;
}

function modelOf(name: string): (url: string) => Model {
  const face = INTERFACES.find((one) => one.name === name);
  if (face === undefined) throw new Error("Expected an interface.");
  return face.model;
}

const START = {
  type: "message_start",
  message: {
    id: "msg",
    type: "message",
    role: "assistant",
    model: "claude-sonnet-5",
    content: [],
    usage: { input_tokens: 10, output_tokens: 1 },
  },
};
const CLAUDE = [
  { type: "thinking", thinking: "One.", signature: "c2ln" },
  { type: "text", text: "A" },
  { type: "thinking", thinking: "Two.", signature: "bmU" },
  { type: "redacted_thinking", data: "c2VhbGVk" },
  { type: "text", text: "B" },
];

/** Returns the events of an Anthropic content block. */
function blockEvents(block: (typeof CLAUDE)[number], index: number): readonly object[] {
  const delta = (type: string, field: string, value: unknown): object => ({
    type: "content_block_delta",
    index,
    delta: { type, [field]: value },
  });
  const stop = { type: "content_block_stop", index };
  const start = (content: object): object => ({
    type: "content_block_start",
    index,
    content_block: content,
  });
  if (block.type === "redacted_thinking") return [start(block), stop];
  return block.type === "text"
    ? [start({ type: "text", text: "" }), delta("text_delta", "text", block.text), stop]
    : [
        start({ type: "thinking", thinking: "", signature: "" }),
        delta("thinking_delta", "thinking", block.thinking),
        delta("signature_delta", "signature", block.signature),
        stop,
      ];
}

describe("a reply over the AI SDK", () => {
  proves(["D657"], "is sent back to Anthropic in its order", async () => {
    const events = eventsOf(
      START,
      ...CLAUDE.flatMap(blockEvents),
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 9 } },
      { type: "message_stop" },
    );
    const { messages } = await sentBack(modelOf("Anthropic"), events);
    expect(messages).toMatchObject([{ role: "user" }, { role: "assistant", content: CLAUDE }]);
  });

  proves(["D657"], "is sent back to Gemini in its order", async () => {
    const parts = [
      { text: "One.", thought: true },
      { text: "A" },
      { text: "Two.", thought: true },
      { text: "B", thoughtSignature: "c2ln" },
    ];
    const content = { role: "model", parts };
    const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 9 };
    const candidates = [{ index: 0, content, finishReason: "STOP" }];
    const { contents } = await sentBack(
      modelOf("Gemini"),
      eventsOf({ responseId: "g", candidates, usageMetadata }),
    );
    expect(contents).toMatchObject([{ role: "user" }, { role: "model", parts }]);
  });
});

const ITEMS = [
  {
    type: "reasoning",
    id: "r1",
    summary: [{ type: "summary_text", text: "One." }],
    sealed: "c2ln",
  },
  { type: "message", id: "m1", text: "A" },
  { type: "reasoning", id: "r2", summary: [{ type: "summary_text", text: "Two." }], sealed: "bmU" },
  { type: "message", id: "m2", text: "B" },
] as const;

/** Returns the events of a response that consists of `ITEMS`. */
function responseEvents(): readonly string[] {
  const head = { id: "r", created_at: 1, model: "m" };
  const items = ITEMS.flatMap((item, index) => {
    const of = (type: string, more: object): object => ({ type, output_index: index, ...more });
    if (item.type === "reasoning") {
      const { sealed, summary, ...own } = item;
      const at = { item_id: item.id, summary_index: 0 };
      return [
        of("response.output_item.added", { item: { ...own, summary: [] } }),
        of("response.reasoning_summary_part.added", at),
        of("response.reasoning_summary_text.delta", { ...at, delta: summary[0].text }),
        of("response.reasoning_summary_part.done", at),
        of("response.output_item.done", {
          item: { ...own, summary, encrypted_content: sealed },
        }),
      ];
    }
    const message = { type: item.type, id: item.id, role: "assistant" };
    const content = [{ type: "output_text", text: item.text, annotations: [] }];
    return [
      of("response.output_item.added", { item: { ...message, content: [] } }),
      of("response.output_text.delta", { item_id: item.id, delta: item.text }),
      of("response.output_item.done", { item: { ...message, content } }),
    ];
  });
  return eventsOf(
    { type: "response.created", response: { ...head, status: "in_progress" } },
    ...items,
    {
      type: "response.completed",
      response: { ...head, status: "completed", usage: { input_tokens: 10, output_tokens: 9 } },
    },
  );
}

describe.each([
  ["openai()", modelOf("Responses")],
  [
    "the AI SDK",
    (baseURL: string) =>
      aiSdkModel(createOpenAI({ apiKey: "key-0123456789", baseURL }).responses("gpt-5.6")),
  ],
] as const)("a response over %s", (client, model) => {
  proves(["D657"], `is sent back in its order in the next request (${client})`, async () => {
    const { input } = await sentBack(model, responseEvents());
    const sent = Array.isArray(input) ? input.slice(1) : [];
    expect(sent.map((item: unknown) => JSON.stringify(item))).toEqual([
      expect.stringMatching(/reasoning.*One\./),
      expect.stringMatching(/"A"/),
      expect.stringMatching(/reasoning.*Two\./),
      expect.stringMatching(/"B"/),
    ]);
  });
});
