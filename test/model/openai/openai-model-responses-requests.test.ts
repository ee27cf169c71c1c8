// Goal: requests over Responses are stateless, contain all that the model wrote and no data of
// another model, and have the same text from step to step.
// Method: the real client against a server that records every request; whole bodies are compared,
// typed by the `openai` package.

import type {
  ResponseCreateParamsStreaming,
  ResponseInputItem,
  ResponseReasoningItem,
} from "openai/resources/responses/responses";
import { describe, expect, test } from "vitest";

import type { Model, ModelRequest } from "../../../src/model/model.ts";
import { openai } from "../../../src/model/openai/openai-model.ts";
import { buildReplyMessage, type ReplyPiece } from "../../../src/protocol/reply-message.ts";
import { toReplayKey } from "../../../src/model/recipient-messages.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import type { AssistantMessage, Message } from "../../../src/protocol/message.ts";
import { proves } from "../../harness/proves.ts";
import { API_KEY, modelAt, never, QUESTION, rejection, reply } from "../../support/openai-calls.ts";
import { OpenAiServer, type ServerReply } from "../../support/openai-server.ts";

const callId = CallIdSchema().parse("call_1");
const SEALED = "gAAAAABq83v_-9Q==";

const PIECES: readonly ReplyPiece[] = [
  {
    type: "reasoning",
    text: "One and two.\n\nThree.",
    data: { openai: { encrypted_content: SEALED, summary: [12, 6] } },
  },
  { type: "text", text: "Let me see.", data: { openai: { phase: "commentary" } } },
  { type: "reasoning", text: "", data: { openai: { encrypted_content: "gBBBB" } } },
  { type: "call", callId, toolName: "add", argumentsText: '{"a":1,"b":2}' },
];

function writtenBy(model: Model, pieces: readonly ReplyPiece[]): AssistantMessage {
  return Object.freeze({ ...buildReplyMessage(pieces), writtenBy: toReplayKey(model) });
}

function historyOf(written: AssistantMessage): readonly Message[] {
  return [
    { role: "system", text: "Be brief.", origin: "instructions" },
    { role: "user", text: "Add 1 and 2.", origin: "task" },
    written,
    { role: "tool", callId, toolName: "add", text: "3" },
    { role: "assistant", text: "", toolCalls: [] },
    { role: "assistant", text: "", toolCalls: [], refusal: "I will not." },
  ];
}

const done = (text = "ok"): ServerReply => ({
  type: "events",
  data: [
    {
      type: "response.completed",
      response: { output: [{ type: "message", content: [{ type: "output_text", text }] }] },
    },
  ],
});

const TOOLS = [
  {
    name: "add",
    description: "Adds.",
    inputSchema: { type: "object", properties: { a: { type: "number" } }, required: ["a"] },
  },
];

/** The interface accepts items without ids, although the package's type requires one. */
type Sent = ResponseInputItem | Omit<ResponseReasoningItem, "id">;
type Body = Omit<ResponseCreateParamsStreaming, "input" | "stream"> & {
  readonly input: readonly Sent[];
  readonly stream?: true;
};

const ALWAYS = {
  store: false,
  include: ["reasoning.encrypted_content"],
} satisfies Partial<Body>;

async function sent(
  request: (model: Model) => ModelRequest,
  options: Parameters<typeof modelAt>[1] = {},
  isStreaming = true,
): Promise<unknown> {
  await using server = await OpenAiServer.start(() => done());
  const model = modelAt(server, { api: "responses", ...options });
  const streaming = isStreaming ? { onDelta: () => undefined } : {};
  await model
    .generate(request(model), { signal: never(), ...streaming })
    .catch((thrown: unknown) => {
      if (isStreaming) throw thrown; // The server sends events only.
    });
  expect(server.request(1).path).toBe("/v1/responses");
  return server.request(1).body;
}

proves(["M13"], "sends a stateless request with all items in order and without ids", async () => {
  const body = await sent((model) => ({
    messages: historyOf(writtenBy(model, PIECES)),
    tools: TOOLS,
    maxOutputTokens: 50,
    temperature: 0.5,
  }));
  expect(body).toEqual({
    model: "test-model",
    tools: [
      {
        type: "function",
        name: "add",
        description: "Adds.",
        parameters: {
          type: "object",
          properties: { a: { type: "number" } },
          required: ["a"],
        },
        strict: false,
      },
    ],
    input: [
      { role: "developer", content: "Be brief." },
      { role: "user", content: "Add 1 and 2." },
      {
        type: "reasoning",
        summary: [
          { type: "summary_text", text: "One and two." },
          { type: "summary_text", text: "Three." },
        ],
        encrypted_content: SEALED,
      },
      { role: "assistant", content: "Let me see.", phase: "commentary" },
      { type: "reasoning", summary: [], encrypted_content: "gBBBB" },
      { type: "function_call", call_id: "call_1", name: "add", arguments: '{"a":1,"b":2}' },
      { type: "function_call_output", call_id: "call_1", output: "3" },
      { role: "assistant", content: "I will not." },
    ],
    max_output_tokens: 50,
    temperature: 0.5,
    ...ALWAYS,
    stream: true,
    stream_options: { include_obfuscation: false },
  } satisfies Body);
});

test("requests a whole reply without a stream, and omits tool fields if there are no tools", async () => {
  const request = { ...QUESTION, toolChoice: "required" } as const;
  const options = { parallelToolCalls: false };
  expect(await sent(() => request, options, false)).toEqual({
    model: "test-model",
    input: [{ role: "user", content: "What is it?" }],
    max_output_tokens: 100,
    ...ALWAYS,
  } satisfies Body);
});

test("wraps arguments that are not a JSON object, as over Chat Completions", async () => {
  const call: ReplyPiece = { type: "call", callId, toolName: "go", argumentsText: "{broken" };
  const messages: readonly Message[] = [
    buildReplyMessage([call]),
    { role: "tool", callId, toolName: "go", text: "No." },
  ];
  const body = await sent(() => ({ ...QUESTION, messages }));
  expect(body).toMatchObject({
    input: [{ arguments: '{"not_a_json_object":"{broken"}' }, { output: "No." }],
  });
});

const ITEM = { type: "compaction", encrypted_content: "gCCC" };
proves(
  ["M13"],
  "sends items of the provider back unchanged and drops unencrypted reasoning",
  async () => {
    const pieces: readonly ReplyPiece[] = [
      { type: "opaque", kind: "compaction", data: { openai: ITEM } },
      { type: "opaque", kind: "other", data: { openai: ITEM } },
      { type: "opaque", kind: "other", data: { chat: ITEM } },
      { type: "reasoning", text: "In the open." },
      { type: "text", text: "Yes." },
    ];
    const body = await sent((model) => ({ ...QUESTION, messages: [writtenBy(model, pieces)] }));
    expect(body).toMatchObject({ input: [ITEM, { role: "assistant", content: "Yes." }] });
  },
);

proves(
  ["M14"],
  "sends encrypted reasoning only to the model that wrote it, whichever is called first",
  async () => {
    await using server = await OpenAiServer.start(() => done());
    const models = ["one", "two"].map((id) =>
      openai(id, { api: "responses", baseUrl: server.baseUrl, apiKey: API_KEY }),
    );
    const [writer, other] = models;
    if (writer === undefined || other === undefined) throw new Error("Expected two models.");
    const messages = historyOf(writtenBy(writer, PIECES));
    for (const model of [other, writer, other, writer])
      await model.generate(
        { ...QUESTION, messages },
        { signal: never(), onDelta: () => undefined },
      );
    expect(server.requests.map(({ bodyText }) => bodyText.includes(SEALED))).toEqual([
      false,
      true,
      false,
      true,
    ]);
    expect(server.request(1).body["input"]).toEqual([
      { role: "developer", content: "Be brief." },
      { role: "user", content: "Add 1 and 2." },
      { role: "assistant", content: "Let me see." },
      { type: "function_call", call_id: "call_1", name: "add", arguments: '{"a":1,"b":2}' },
      { type: "function_call_output", call_id: "call_1", output: "3" },
      { role: "assistant", content: "I will not." },
    ]);
  },
);

proves(["M14"], "extends the previous request up to the end of its input", async () => {
  await using server = await OpenAiServer.start(() => done());
  const model = modelAt(server, { api: "responses" });
  const messages = historyOf(writtenBy(model, PIECES));
  for (const count of [2, 4, 6]) {
    const request = { ...QUESTION, tools: TOOLS, messages: messages.slice(0, count) };
    await model.generate(request, { signal: never(), onDelta: () => undefined });
  }
  const texts = server.requests.map(({ bodyText }) => bodyText);
  const heads = texts.map((text) => text.slice(0, text.lastIndexOf('],"max_output_tokens"')));
  expect(heads.slice(1).map((head, index) => head.startsWith(heads[index] ?? "?"))).toEqual([
    true,
    true,
  ]);
});

const refuses = (message: string, code: string | null = null, status = 400): ServerReply => ({
  type: "status",
  status,
  body: { error: { message, type: "invalid_request_error", param: null, code } },
});
const UNREADABLE = refuses(
  "The encrypted content gAAA...9Q== could not be verified.",
  "invalid_encrypted_content",
);

proves(
  ["M15"],
  "omits reasoning that the provider cannot read within the attempt, with a warning, and from then on",
  async () => {
    for (const refusal of [
      UNREADABLE,
      refuses(
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item",
      ),
      refuses("The reasoning was produced under a different model.", null, 404),
    ]) {
      await using server = await OpenAiServer.start((_request, count) =>
        count === 1 ? refusal : done(),
      );
      const model = modelAt(server, { api: "responses" });
      const request = { ...QUESTION, messages: historyOf(writtenBy(model, PIECES)) };
      const options = { signal: never(), onDelta: () => undefined };
      const first = await model.generate(request, options);
      const second = await model.generate(request, options);
      expect(first.warnings).toEqual([
        expect.stringMatching(
          /^The reasoning of 1 earlier replies was left out, since the provider could not read it: Expected a reply/,
        ),
      ]);
      expect(second.warnings).toBe(undefined);
      expect(server.requests.map(({ bodyText }) => bodyText.includes(SEALED))).toEqual([
        true,
        false,
        false,
      ]);
    }
  },
);

proves(
  ["M15"],
  "requests a stream again if it fails for unreadable reasoning before it has begun",
  async () => {
    const error = { code: "invalid_encrypted_content", message: "No." };
    const failed: ServerReply = {
      type: "events",
      data: [{ type: "response.failed", response: { status: "failed", error } }],
    };
    await using server = await OpenAiServer.start((_request, count) =>
      count === 1 ? failed : done(),
    );
    const model = modelAt(server, { api: "responses" });
    const request = { ...QUESTION, messages: historyOf(writtenBy(model, PIECES)) };
    const { message } = await model.generate(request, {
      signal: never(),
      onDelta: () => undefined,
    });
    expect([message.text, server.requests.length]).toEqual(["ok", 2]);
  },
);

proves(
  ["M15"],
  "does not request a stream again if it fails for unreadable reasoning after it has begun",
  async () => {
    const added = {
      type: "response.output_item.added",
      output_index: 0,
      item: { type: "message" },
    };
    const error = { type: "error", code: "invalid_encrypted_content", message: "No." };
    await using server = await OpenAiServer.start(() => ({ type: "events", data: [added, error] }));
    const model = modelAt(server, { api: "responses" });
    const request = { ...QUESTION, messages: historyOf(writtenBy(model, PIECES)) };
    const asked = model.generate(request, { signal: never(), onDelta: () => undefined });
    expect(await rejection(asked)).toMatchObject({ code: "model_invalid_request" });
    expect(server.requests).toHaveLength(1);
  },
);

proves(
  ["M15"],
  "fails if the request has no encrypted reasoning or is refused without it as well",
  async () => {
    await using server = await OpenAiServer.start(() => UNREADABLE);
    const model = modelAt(server, { api: "responses" });
    const bare = await rejection(reply(model, "streamed"));
    const request = { ...QUESTION, messages: historyOf(writtenBy(model, PIECES)) };
    const twice = await rejection(
      model.generate(request, { signal: never(), onDelta: () => undefined }),
    );
    const refused = { code: "model_invalid_request", isRetryable: false };
    expect([bare, twice]).toMatchObject([refused, refused]);
    expect(server.requests).toHaveLength(3);
  },
);

proves(
  ["M15"],
  "stops requesting encrypted reasoning from a model that does not support it",
  async () => {
    await using server = await OpenAiServer.start(({ body }) =>
      body["include"] === undefined
        ? done()
        : refuses("Encrypted content is not supported with this model."),
    );
    const model = modelAt(server, { api: "responses" });
    const replies = [await reply(model, "streamed"), await reply(model, "streamed")];
    expect(replies.map(({ reply: { warnings } }) => warnings)).toEqual([undefined, undefined]);
    expect(server.requests.map(({ body }) => "include" in body)).toEqual([true, false, false]);
  },
);

describe("calls that a server refuses at the same time", () => {
  const twoAtOnce = async (
    model: Model,
    messages: readonly Message[],
  ): Promise<readonly (readonly string[] | undefined)[]> => {
    const options = { signal: never(), onDelta: () => undefined };
    const ask = async (): Promise<readonly string[] | undefined> =>
      (await model.generate({ ...QUESTION, messages }, options)).warnings;
    return await Promise.all([ask(), ask()]);
  };

  proves(["M15"], "are both requested again without asking for encrypted reasoning", async () => {
    await using server = await OpenAiServer.start(({ body }) =>
      body["include"] === undefined
        ? done()
        : refuses("Encrypted content is not supported with this model."),
    );
    const model = modelAt(server, { api: "responses" });
    expect(await twoAtOnce(model, QUESTION.messages)).toEqual([undefined, undefined]);
    expect(server.requests).toHaveLength(4);
  });

  proves(
    ["M15"],
    "are both requested again without the reasoning that the server cannot read",
    async () => {
      await using server = await OpenAiServer.start(({ body }) =>
        JSON.stringify(body).includes(SEALED) ? UNREADABLE : done(),
      );
      const model = modelAt(server, { api: "responses" });
      const warnings = await twoAtOnce(model, historyOf(writtenBy(model, PIECES)));
      expect(warnings.map((told = []) => told.length)).toEqual([1, 0]);
      expect(server.requests).toHaveLength(4);
    },
  );
});
