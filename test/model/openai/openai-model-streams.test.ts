// Goal: streams result in the right reply, even from servers that follow the format only roughly.
// Method: the real client against a server that sends events written out here.

import { expect, test } from "vitest";

import { openai } from "../../../src/model/openai/openai-model.ts";
import { API_KEY, modelAt, reply } from "../../support/openai-calls.ts";
import { proves } from "../../harness/proves.ts";
import { OpenAiServer, says, type ServerReply } from "../../support/openai-server.ts";
import { texts } from "../../support/texts.ts";

async function streamed(answer: ServerReply): Promise<Awaited<ReturnType<typeof reply>>> {
  await using server = await OpenAiServer.start(() => answer);
  return await reply(modelAt(server), "streamed");
}

const delta = (content: object, finish: string | null = null) => ({
  choices: [{ index: 0, delta: content, finish_reason: finish }],
});
const call = (piece: object) => delta({ tool_calls: [piece] });
const events = (...data: unknown[]): ServerReply => ({ type: "events", data });

test("emits text in the chunks in which it arrives, without empty chunks", async () => {
  expect((await streamed(says("It is a tree."))).pieces).toEqual(["It i", "s a ", "tree", "."]);
});

test("emits a chunk before the next one has been sent", async () => {
  const { promise: until, resolve: release } = Promise.withResolvers<void>();
  const paused = says("It is a tree.", { interrupted: { type: "pause", afterChunks: 3, until } });
  await using server = await OpenAiServer.start(() => paused);
  const pieces: string[] = [];
  const onDelta = texts((piece) => {
    pieces.push(piece);
    if (pieces.length === 2) release();
  });
  const { message } = await modelAt(server).generate(
    { messages: [], tools: [], maxOutputTokens: 10 },
    { signal: new AbortController().signal, onDelta },
  );
  expect({ text: message.text, pieces }).toEqual({
    text: "It is a tree.",
    pieces: ["It i", "s a ", "tree", "."],
  });
});

const callsOf = async (...data: unknown[]): Promise<readonly object[]> => {
  const { reply: result } = await streamed(events(...data, delta({}, "tool_calls"), "[DONE]"));
  return result.message.toolCalls;
};

test("joins interleaved deltas of parallel calls, including split names", async () => {
  expect(
    await callsOf(
      call({ index: 0, id: "a", type: "function", function: { name: "re", arguments: "" } }),
      call({ index: 1, id: "b", type: "function", function: { name: "list", arguments: "{" } }),
      call({ index: 0, function: { name: "ad", arguments: '{"p":' } }),
      delta({
        tool_calls: [
          { index: 1, function: { arguments: "}" } },
          { index: 0, function: { arguments: "1}" } },
        ],
      }),
    ),
  ).toEqual([
    { callId: "a", toolName: "read", argumentsText: '{"p":1}' },
    { callId: "b", toolName: "list", argumentsText: "{}" },
  ]);
});

test("accepts an id that arrives late", async () => {
  expect(
    await callsOf(
      call({ index: 0, function: { name: "go", arguments: "" } }),
      call({ index: 0, id: "late", function: { arguments: "{}" } }),
    ),
  ).toEqual([{ callId: "late", toolName: "go", argumentsText: "{}" }]);
});

test.each([
  ["numbers none of them", undefined],
  ["numbers all of them 0", 0],
])("separates whole calls with ids if the server %s", async (_what, index) => {
  expect(
    await callsOf(
      call({ index, id: "a", function: { name: "go", arguments: '{"to":1}' } }),
      call({ index, id: "b", function: { name: "go", arguments: '{"to":2}' } }),
    ),
  ).toEqual([
    { callId: "a", toolName: "go", argumentsText: '{"to":1}' },
    { callId: "b", toolName: "go", argumentsText: '{"to":2}' },
  ]);
});

for (const [what, face] of Object.entries({
  "gives neither ids nor places": {},
  "gives no ids, and numbers all of them 0": { index: 0, id: "" },
  "gives all of them one id": { id: "same" },
})) {
  const whole = (name: string, input: string): object => ({
    ...face,
    function: { name, arguments: input },
  });
  const made = [
    ["go", '{"to":1}'],
    ["go", '{"to":2}'],
    ["stop", "{}"],
  ] as const;

  proves(["D301"], `separates whole calls if the server ${what}`, async () => {
    const pieces = made.map(([name, input]) => whole(name, input));
    const inTurn = await callsOf(...pieces.map(call));
    const atOnce = await callsOf(delta({ tool_calls: pieces }));
    const expected = made.map(([toolName, argumentsText]) => ({ toolName, argumentsText }));
    expect([inTurn, atOnce]).toMatchObject([expected, expected]);
  });
}

proves(["D301"], "does not open another call if a name is repeated with each delta", async () => {
  const named = (input: string): object => call({ function: { name: "go", arguments: input } });
  expect(await callsOf(...['{"a":', '"}"', "}", ""].map(named))).toEqual([
    { callId: "call.0", toolName: "go", argumentsText: '{"a":"}"}' },
  ]);
  expect(await callsOf(named("{}"), named(""))).toEqual([
    { callId: "call.0", toolName: "go", argumentsText: "{}" },
  ]);
});

test("does not concatenate an id and a name that are repeated with each delta", async () => {
  expect(
    await callsOf(
      call({ index: 0, id: "a", function: { name: "go", arguments: "" } }),
      call({ index: 0, id: "a", function: { name: "go", arguments: "{" } }),
      call({ index: 0, id: "a", function: { name: "go", arguments: "}" } }),
    ),
  ).toEqual([{ callId: "a", toolName: "go", argumentsText: "{}" }]);
});

test("does not open another call for a new id without a name", async () => {
  expect(
    await callsOf(
      call({ index: 0, id: "a", function: { name: "go", arguments: "{" } }),
      call({ index: 0, id: "x", function: { arguments: "}" } }),
    ),
  ).toEqual([{ callId: "a", toolName: "go", argumentsText: "{}" }]);
});

const SAID = { role: "assistant", text: "Hello", toolCalls: [] };

const usage = (output: number) => ({ usage: { prompt_tokens: 7, completion_tokens: output } });

test("uses the last of several usage reports, even if it comes with a choice", async () => {
  const stream = events(
    { ...delta({ content: "Hello" }), ...usage(1) },
    { ...delta({}, "stop"), ...usage(2) },
    "[DONE]",
  );
  expect((await streamed(stream)).reply).toEqual({
    message: SAID,
    finishReason: "stop",
    usage: { inputTokens: 7, cachedInputTokens: 0, outputTokens: 2, reasoningTokens: 0 },
  });
});

test("completes a stream without a finish reason at its end mark", async () => {
  const stream = events(delta({ content: "Hello" }), "[DONE]");
  expect((await streamed(stream)).reply).toEqual({ message: SAID, finishReason: "unknown" });
});

test("completes a stream with a finish reason without an end mark, whatever follows", async () => {
  const complete = [delta({ content: "Hello" }), delta({}, "stop")];
  const expected = { message: SAID, finishReason: "stop" };
  expect((await streamed(events(...complete))).reply).toEqual(expected);
  expect((await streamed(events(...complete, "{broken"))).reply).toEqual(expected);
  expect((await streamed(events(...complete, { error: { message: "too late" } }))).reply).toEqual(
    expected,
  );
  const cut = says("Hello", { interrupted: { type: "cut", afterChunks: 4 } });
  expect((await streamed(cut)).reply).toEqual({
    ...expected,
    responseId: "chatcmpl-1",
    responseModel: "test-model-2026",
  });
});

test("ignores events after the end mark", async () => {
  const stream = events(
    delta({ content: "Hello" }, "stop"),
    "[DONE]",
    delta({ content: "!" }),
    "{broken",
  );
  expect(await streamed(stream)).toEqual({
    reply: { message: SAID, finishReason: "stop" },
    pieces: ["Hello"],
  });
});

test("preserves an early finish reason and usage, and ignores null fields", async () => {
  const usage = { prompt_tokens: 7, completion_tokens: 2 };
  const early = { ...delta({ content: "Hello" }, "length"), usage, error: null };
  expect((await streamed(events(early, delta({}), { choices: null }, "[DONE]"))).reply).toEqual({
    message: SAID,
    finishReason: "length",
    usage: { inputTokens: 7, cachedInputTokens: 0, outputTokens: 2, reasoningTokens: 0 },
  });
});

test("reads a stream that is split anywhere, even within a character", async () => {
  const bytes = new TextEncoder().encode(
    `data: ${JSON.stringify(delta({ content: "Bäume 🌳" }, "stop"))}\n\n`,
  );
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  const fetch = async (): Promise<Response> => new Response(body);
  const { reply: result } = await reply(
    openai("m", { api: "chat_completions", apiKey: API_KEY, fetch }),
    "streamed",
  );
  expect(result.message.text).toBe("Bäume 🌳");
});

test("ignores comments, event names, carriage returns and chunks without choices", async () => {
  const lines = [
    ": waiting",
    "",
    "event: message",
    `data:${JSON.stringify({ id: "c", model: "m", choices: [] })}`,
    "",
    `data: ${JSON.stringify(delta({ role: "assistant", content: "Hello" }))}`,
    "",
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: null, finish_reason: "stop" }] })}`,
  ];
  const stream = {
    type: "raw",
    contentType: "text/event-stream",
    body: lines.join("\r\n"),
  } as const;
  expect((await streamed(stream)).reply).toEqual({
    message: SAID,
    finishReason: "stop",
    responseId: "c",
    responseModel: "m",
  });
});

test("accepts the answer of a server that does not stream", async () => {
  const body = JSON.stringify({
    choices: [{ message: { content: "Hello" }, finish_reason: "stop" }],
  });
  expect(await streamed({ type: "raw", body })).toEqual({
    reply: { message: SAID, finishReason: "stop" },
    pieces: [],
  });
});
