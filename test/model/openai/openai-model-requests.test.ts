// Goal: requests follow the Chat Completions format, with each message serialized once and stable
// from step to step.
// Method: the real client against a server that records every request.

import { describe, expect, test } from "vitest";

import type { ModelRequest } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { openai, type OpenAiOptions } from "../../../src/model/openai/openai-model.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { proves } from "../../harness/proves.ts";
import {
  API_KEY,
  modelAt,
  MODES,
  never,
  QUESTION,
  rejection,
  reply,
} from "../../support/openai-calls.ts";
import { OpenAiServer, says, status } from "../../support/openai-server.ts";

const callId = CallIdSchema().parse("call_7");

const HISTORY: readonly Message[] = [
  { role: "system", text: "Be brief.", origin: "instructions" },
  { role: "user", text: 'Add 1 and 2, "please"\n', origin: "task" },
  {
    role: "assistant",
    text: "",
    toolCalls: [{ callId, toolName: "add", argumentsText: '{"a":1,"b":2}' }],
  },
  { role: "tool", callId, toolName: "add", text: "3" },
  { role: "assistant", text: "It is 3.", toolCalls: [] },
];

test("sends only the messages in wire format, the tools, the cap and the temperature", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  const inputSchema = { type: "object", properties: { a: { type: "number" } }, required: ["a"] };
  const tools = [{ name: "add", description: "Adds.", inputSchema }];
  const request: ModelRequest = { messages: HISTORY, tools, maxOutputTokens: 50, temperature: 0.5 };

  await modelAt(server).generate(request, { signal: never() });

  expect(server.request(1).path).toBe("/v1/chat/completions");
  expect(server.request(1).body).toEqual({
    model: "test-model",
    tools: [
      {
        type: "function",
        function: { name: "add", description: "Adds.", parameters: inputSchema },
      },
    ],
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: 'Add 1 and 2, "please"\n' },
      {
        role: "assistant",
        content: null,
        tool_calls: [
          {
            id: "call_7",
            type: "function",
            function: { name: "add", arguments: '{"a":1,"b":2}' },
          },
        ],
      },
      { role: "tool", tool_call_id: "call_7", content: "3" },
      { role: "assistant", content: "It is 3." },
    ],
    max_tokens: 50,
    temperature: 0.5,
  });
});

test("requests the usage of a stream, and omits tools and temperature if there are none", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));

  await reply(modelAt(server), "streamed");

  expect(server.request(1).body).toEqual({
    model: "test-model",
    messages: [{ role: "user", content: "What is it?" }],
    max_tokens: 100,
    stream: true,
    stream_options: { include_usage: true },
  });
});

const call = (argumentsText: string) => ({ callId, toolName: "go", argumentsText });
const wired = (args: string) => ({
  id: "call_7",
  type: "function",
  function: { name: "go", arguments: args },
});

proves(
  ["S7.25"],
  "sends assistant messages unchanged and wraps arguments that are not a JSON object",
  async () => {
    await using server = await OpenAiServer.start(() => says("ok"), { takesAnyMessages: true });
    const messages: readonly Message[] = [
      { role: "assistant", text: "", toolCalls: [] },
      { role: "assistant", text: "", toolCalls: [], refusal: "I will not." },
      { role: "assistant", text: "Both.", toolCalls: WRITTEN.map(([args]) => call(args)) },
    ];

    await modelAt(server).generate({ ...QUESTION, messages }, { signal: never() });

    expect(server.request(1).body["messages"]).toEqual([
      { role: "assistant", content: "" },
      { role: "assistant", content: null, refusal: "I will not." },
      { role: "assistant", content: "Both.", tool_calls: WRITTEN.map(([, sent]) => wired(sent)) },
    ]);
  },
);

/** Arguments as the model wrote them, and as they are sent back. */
const WRITTEN = [
  ["", "{}"],
  [" \n", "{}"],
  ['{"a": 1 }', '{"a": 1 }'],
  ["{not json", '{"not_a_json_object":"{not json"}'],
  ["{'a':1,}", '{"a":1}'],
  ["[1]", '{"not_a_json_object":"[1]"}'],
  ['"a"', '{"not_a_json_object":"\\"a\\""}'],
  ["null", '{"not_a_json_object":"null"}'],
] as const;

describe("a failure with status 500", () => {
  const asked: ModelRequest = {
    ...QUESTION,
    messages: [
      ...QUESTION.messages,
      { role: "assistant", text: "", toolCalls: [call("{not json")] },
      { role: "tool", callId: call("").callId, toolName: "go", text: "Not valid JSON." },
    ],
  };
  const answered: ModelRequest = {
    ...asked,
    messages: [...asked.messages, { role: "assistant", text: "So.", toolCalls: [] }],
  };
  const sound: ModelRequest = {
    ...asked,
    messages: [
      ...QUESTION.messages,
      { role: "assistant", text: "", toolCalls: [call("")] },
      { role: "tool", callId: call("").callId, toolName: "go", text: "Gone." },
    ],
  };

  async function failureOf(request: ModelRequest, code: number): Promise<ModelError> {
    await using server = await OpenAiServer.start(() => status(code));
    const thrown = await rejection(modelAt(server).generate(request, { signal: never() }));
    if (!(thrown instanceof ModelError)) throw new Error("Expected a ModelError.");
    return thrown;
  }

  proves(["S7.25"], "is not retryable right after arguments that were repaired", async () => {
    const { code, message, isRetryable } = await failureOf(asked, 500);
    expect({ code, message, isRetryable }).toEqual({
      code: "model_invalid_request",
      message:
        "Expected a reply from the model, got status 500 to a request that continues after a call whose arguments were not a JSON object. They were sent as an object that contains the text of the model. Expected a reply from the model, got status 500 Failed with 500. Try again. If it persists, check the network and the base URL.",
      isRetryable: false,
    });
  });

  test("is retryable in any other request, like statuses 502 and 503", async () => {
    const failures = [
      await failureOf(answered, 500),
      await failureOf(sound, 500),
      await failureOf(asked, 502),
      await failureOf(asked, 503),
    ];
    expect(failures.map(({ isRetryable }) => isRetryable)).toEqual([true, true, true, true]);
  });
});

test("extends the previous request up to the end of its messages", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  const model = modelAt(server);
  const tools = [{ name: "add", description: "Adds.", inputSchema: { type: "object" } }];

  await model.generate(
    { messages: HISTORY.slice(0, 2), tools, maxOutputTokens: 50 },
    { signal: never() },
  );
  await model.generate(
    { messages: HISTORY, tools, maxOutputTokens: 20 },
    { signal: never(), onDelta: () => {} },
  );

  const [first = "", second = ""] = server.requests.map((request) => request.bodyText);
  expect(second.startsWith(first.slice(0, first.indexOf("]", first.indexOf('"messages"'))))).toBe(
    true,
  );
});

test("serializes a message once, however often and by whichever model it is sent", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  let reads = 0;
  const message: Message = {
    role: "user",
    origin: "task",
    get text() {
      reads += 1;
      return "Say it.";
    },
  };
  const request = { ...QUESTION, messages: [message] };

  await modelAt(server).generate(request, { signal: never() });
  await modelAt(server).generate({ ...request, messages: [message, message] }, { signal: never() });

  expect(reads).toBe(1);
  expect(server.request(2).body["messages"]).toEqual([
    { role: "user", content: "Say it." },
    { role: "user", content: "Say it." },
  ]);
});

for (const mode of MODES) {
  test(`sends the key, the user agent and the given headers with every request (${mode})`, async () => {
    await using server = await OpenAiServer.start(() => says("ok"));
    const model = modelAt(server, { headers: { "X-Team": "blue" } });

    await reply(model, mode);
    await reply(model, mode);

    const sent = server.requests.map(({ headers }) => ({
      authorization: headers.authorization,
      type: headers["content-type"],
      agent: headers["user-agent"],
      team: headers["x-team"],
      length: headers["content-length"],
    }));
    const length = String(server.request(1).bodyText.length);
    const expected = {
      authorization: `Bearer ${API_KEY}`,
      type: "application/json",
      agent: "espalier",
      team: "blue",
      length,
    };
    expect(sent).toEqual([expected, expected]);
  });
}

test("preserves text outside ASCII", async () => {
  await using server = await OpenAiServer.start(() => says("Grüße, 世界 🌳"));
  const text = "Grüße, 世界 🌳 \u2028";
  const request = { ...QUESTION, messages: [{ role: "user", text, origin: "task" } as const] };

  const whole = await modelAt(server).generate(request, { signal: never() });
  const streamed = await modelAt(server).generate(request, { signal: never(), onDelta: () => {} });

  expect(server.request(1).body["messages"]).toEqual([{ role: "user", content: text }]);
  expect([whole.message.text, streamed.message.text]).toEqual(["Grüße, 世界 🌳", "Grüße, 世界 🌳"]);
});

/** Returns the names of the fields for the cap in a request to this address. */
async function fieldAt(baseUrl?: string, more: OpenAiOptions = {}): Promise<readonly string[]> {
  const sent: unknown[] = [];
  const fetch: typeof globalThis.fetch = async (_url, init) => {
    sent.push(init?.body);
    return Response.json({ choices: [{ message: { content: "ok" }, finish_reason: "stop" }] });
  };
  const address = baseUrl === undefined ? {} : { baseUrl };
  await openai("m", {
    api: "chat_completions",
    apiKey: API_KEY,
    fetch,
    ...address,
    ...more,
  }).generate(QUESTION, { signal: never() });
  return String(sent).match(/max_\w+/g) ?? [];
}

test("names the cap max_completion_tokens at OpenAI and Azure, max_tokens elsewhere, or according to the option", async () => {
  expect({
    none: await fieldAt(),
    openai: await fieldAt("https://api.openai.com/v1"),
    region: await fieldAt("https://eu.api.openai.com/v1"),
    azure: await fieldAt("https://mine.openai.azure.com/openai/v1"),
    foundry: await fieldAt("https://mine.services.ai.azure.com/openai/v1"),
    otherApi: await fieldAt("https://mine.services.ai.azure.com/models"),
    lookalike: await fieldAt("https://api.notopenai.com/v1"),
    local: await fieldAt("http://127.0.0.1:11434/v1"),
    told: await fieldAt("http://127.0.0.1:4000/v1", { maxTokensField: "max_completion_tokens" }),
  }).toEqual({
    none: ["max_completion_tokens"],
    openai: ["max_completion_tokens"],
    region: ["max_completion_tokens"],
    azure: ["max_completion_tokens"],
    foundry: ["max_completion_tokens"],
    otherApi: ["max_tokens"],
    lookalike: ["max_tokens"],
    local: ["max_tokens"],
    told: ["max_completion_tokens"],
  });
});
