// Goal: streams of all the servers that speak the format more or less well end in the right reply.
// Method: the real client against a server that sends events written out here.

import { expect, test } from "vitest";

import { openai } from "../../src/model/openai/openai-model.ts";
import { API_KEY, modelAt, reply } from "../support/openai-calls.ts";
import { proves } from "../harness/proves.ts";
import { OpenAiServer, says, type ServerReply } from "../support/openai-server.ts";
import { texts } from "../support/texts.ts";

async function streamed(answer: ServerReply): Promise<Awaited<ReturnType<typeof reply>>> {
  await using server = await OpenAiServer.start(() => answer);
  return await reply(modelAt(server), "streamed");
}

const delta = (content: object, finish: string | null = null) => ({
  choices: [{ index: 0, delta: content, finish_reason: finish }],
});
const call = (piece: object) => delta({ tool_calls: [piece] });
const events = (...data: unknown[]): ServerReply => ({ type: "events", data });

test("text is handed on piece by piece, as it came, without empty pieces", async () => {
  expect((await streamed(says("It is a tree."))).pieces).toEqual(["It i", "s a ", "tree", "."]);
});

test("a piece is handed on before the next has been sent", async () => {
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

test("pieces of parallel calls may be mixed, and names may come in pieces too", async () => {
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

test("an id that comes late is taken", async () => {
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
])("several whole calls are kept apart where the server %s", async (_what, index) => {
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

  proves(["D301"], `whole calls are kept apart where the server ${what}`, async () => {
    const pieces = made.map(([name, input]) => whole(name, input));
    const inTurn = await callsOf(...pieces.map(call));
    const atOnce = await callsOf(delta({ tool_calls: pieces }));
    const expected = made.map(([toolName, argumentsText]) => ({ toolName, argumentsText }));
    expect([inTurn, atOnce]).toMatchObject([expected, expected]);
  });
}

proves(["D301"], "a name that is said again with each piece opens no other call", async () => {
  const named = (input: string): object => call({ function: { name: "go", arguments: input } });
  expect(await callsOf(...['{"a":', '"}"', "}", ""].map(named))).toEqual([
    { callId: "call.0", toolName: "go", argumentsText: '{"a":"}"}' },
  ]);
  expect(await callsOf(named("{}"), named(""))).toEqual([
    { callId: "call.0", toolName: "go", argumentsText: "{}" },
  ]);
});

test("id and name that are said again with each piece are not added up", async () => {
  expect(
    await callsOf(
      call({ index: 0, id: "a", function: { name: "go", arguments: "" } }),
      call({ index: 0, id: "a", function: { name: "go", arguments: "{" } }),
      call({ index: 0, id: "a", function: { name: "go", arguments: "}" } }),
    ),
  ).toEqual([{ callId: "a", toolName: "go", argumentsText: "{}" }]);
});

test("a fresh id without a name does not open another call", async () => {
  expect(
    await callsOf(
      call({ index: 0, id: "a", function: { name: "go", arguments: "{" } }),
      call({ index: 0, id: "x", function: { arguments: "}" } }),
    ),
  ).toEqual([{ callId: "a", toolName: "go", argumentsText: "{}" }]);
});

const SAID = { role: "assistant", text: "Hello", toolCalls: [] };

const usage = (output: number) => ({ usage: { prompt_tokens: 7, completion_tokens: output } });

test("the last of several reports of usage counts, also when it comes with a choice", async () => {
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

test("a stream that never gives a reason is complete with its end mark", async () => {
  const stream = events(delta({ content: "Hello" }), "[DONE]");
  expect((await streamed(stream)).reply).toEqual({ message: SAID, finishReason: "unknown" });
});

test("a stream that gives its reason is complete without an end mark, and nothing after it can spoil the reply", async () => {
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

test("what comes after the end mark is not looked at", async () => {
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

test("reason and usage that came early are not forgotten, and fields that are null say nothing", async () => {
  const usage = { prompt_tokens: 7, completion_tokens: 2 };
  const early = { ...delta({ content: "Hello" }, "length"), usage, error: null };
  expect((await streamed(events(early, delta({}), { choices: null }, "[DONE]"))).reply).toEqual({
    message: SAID,
    finishReason: "length",
    usage: { inputTokens: 7, cachedInputTokens: 0, outputTokens: 2, reasoningTokens: 0 },
  });
});

test("a stream may be cut anywhere, in the middle of a character too", async () => {
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

test("comments, event names, carriage returns and chunks without choices do no harm", async () => {
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

test("the answer of a server that cannot stream is taken all the same", async () => {
  const body = JSON.stringify({
    choices: [{ message: { content: "Hello" }, finish_reason: "stop" }],
  });
  expect(await streamed({ type: "raw", body })).toEqual({
    reply: { message: SAID, finishReason: "stop" },
    pieces: [],
  });
});
