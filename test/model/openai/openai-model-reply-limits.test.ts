// Goal: the client aborts a reply of a server that ignores the cap or never ends, and charges the
// part received. The memory in use is measured by test/stress/hostile-server.test.ts.
// Method: a server that sends data until the client has enough, and the outcome of the call.

import { decode, encode } from "gpt-tokenizer/encoding/o200k_base";
import { describe, expect, test } from "vitest";

import { proves } from "../../harness/proves.ts";
import { failureOn, modelAt, MODES, QUESTION, reply } from "../../support/openai-calls.ts";
import { OpenAiServer, type ServerReply } from "../../support/openai-server.ts";

const CAP = QUESTION.maxOutputTokens;
/** The limit on ids and data besides the text. */
const BESIDE_BYTES = 16 * CAP + 4 * 1024;
const LINE_BYTES = 3 * BESIDE_BYTES + 1024 * 1024;
const BODY_BYTES = 16 * 1024 * 1024;
const STREAM_BYTES = BODY_BYTES + 1024 * CAP;
const ADVICE =
  "Check that the server respects the cap (openai.maxTokensField), or raise it." as const;

/** Yields the same chunk forever, or a new one each time, after an optional first chunk. */
function* endless(
  piece: string | ((count: number) => string),
  first = "",
): Generator<string, never> {
  if (first !== "") yield first;
  for (let count = 0; ; count += 1) yield typeof piece === "string" ? piece : piece(count);
}

const event = (value: object): string => `data: ${JSON.stringify(value)}\n\n`;
const delta = (fields: object, finish: string | null = null): string =>
  event({ choices: [{ index: 0, delta: fields, finish_reason: finish }] });

function excess(got: string, lostOutputTokens: number): object {
  return {
    code: "model_protocol_error",
    message: `Expected a reply from the model, got ${got}. ${ADVICE}`,
    isRetryable: false,
    retryAfterMs: undefined,
    lostOutputTokens,
    data: {},
  };
}

/** Three bytes count as one token. */
const CUT_BYTES = 2 * CAP * 3;
const CUT_WARNING =
  "The provider ignored the cap on output tokens: its reply was cut at twice the cap. Check the name of the cap (openai.maxTokensField) and the server.";

describe("a stream without an end", () => {
  const words = "word ".repeat(200);
  const deltas: readonly (readonly [what: string, fields: object])[] = [
    ["text", { content: words }],
    ["characters of many bytes", { content: "語".repeat(300) }],
    ["reasoning", { reasoning_content: words }],
    ["reasoning under its other name", { reasoning: words }],
    ["a refusal", { refusal: words }],
    [
      "one call",
      { tool_calls: [{ index: 0, id: "a", function: { name: "go", arguments: words } }] },
    ],
  ];
  for (const [what, fields] of deltas) {
    proves(["S7.3", "D432"], `is cut at twice the cap and ends as length: ${what}`, async () => {
      const pieces = endless(delta(fields));
      await using server = await OpenAiServer.start(() => ({ type: "pours", pieces }));
      const { reply: cut } = await reply(modelAt(server), "streamed");
      expect(await server.request(1).ended).toBe("closed early");
      const { finishReason, usage, warnings } = cut;
      expect({ finishReason, usage, warnings }).toEqual({
        finishReason: "length",
        usage: undefined,
        warnings: [CUT_WARNING],
      });
      const { text, refusal = "", parts = [], toolCalls } = cut.message;
      const reasoning = parts.map((part) => (part.type === "reasoning" ? part.text : ""));
      const calls = toolCalls.map(({ argumentsText }) => argumentsText);
      const bytes = Buffer.byteLength([text, refusal, ...reasoning, ...calls].join(""));
      expect([bytes <= CUT_BYTES, bytes > CUT_BYTES - 4]).toEqual([true, true]);
    });
  }

  proves(["D432"], "is cut by the sum of its text, reasoning and arguments", async () => {
    const words = "word ".repeat(10);
    const turn = [
      { content: words },
      { reasoning: words },
      { tool_calls: [{ index: 0, id: "a", function: { name: "go", arguments: words } }] },
    ];
    const pieces = endless((count) => delta(turn[count % 3] ?? {}));
    await using server = await OpenAiServer.start(() => ({ type: "pours", pieces }));
    const { reply: cut } = await reply(modelAt(server), "streamed");
    const { text, parts = [], toolCalls } = cut.message;
    const said = [
      text.length,
      ...parts.flatMap((part) => (part.type === "reasoning" ? part.text.length : [])),
    ];
    const calls = toolCalls.map((call) => call.toolName.length + call.argumentsText.length);
    expect([...said, ...calls].reduce((sum, length) => sum + length, 0)).toBe(CUT_BYTES);
  });

  proves(["S7.3"], "is aborted if it consists of empty calls", async () => {
    const calls = Array.from({ length: 50 }, (_none, at) => ({ index: at, function: {} }));
    const another = (count: number): string =>
      delta({ tool_calls: calls.map((call) => ({ ...call, index: `${count}.${call.index}` })) });
    const pieces = endless(another);
    expect(await failureOn({ type: "pours", pieces }, "streamed")).toEqual(
      excess(`a reply with more than ${BESIDE_BYTES} bytes of ids and data`, 0),
    );
  });

  proves(["S7.3"], "is aborted if one line is longer than any event can be", async () => {
    const poured: ServerReply = { type: "pours", pieces: endless("x".repeat(10_000)) };
    expect(await failureOn(poured, "streamed")).toEqual(
      excess(`an event of more than ${LINE_BYTES} bytes`, 2 * CAP),
    );
  });

  proves(
    ["S7.3"],
    "is aborted if the lines of one event are longer than any event can be",
    async () => {
      const poured: ServerReply = {
        type: "pours",
        pieces: endless(`data: ${"x".repeat(10_000)}\n`),
      };
      expect(await failureOn(poured, "streamed")).toEqual(
        excess(`an event of more than ${LINE_BYTES} bytes`, 2 * CAP),
      );
    },
  );

  proves(
    ["S7.3"],
    "is aborted if it consists of comments or of events without a reply",
    async () => {
      const facts = [];
      for (const piece of [": still here\n\n", event({ choices: [] })]) {
        const pieces = endless(piece.repeat(1_000));
        facts.push(await failureOn({ type: "pours", pieces }, "streamed"));
      }
      const expected = excess(`a stream of more than ${STREAM_BYTES} bytes`, 0);
      expect(facts).toEqual([expected, expected]);
    },
  );

  test("is ignored after a complete reply", async () => {
    const answer = delta({ content: "It is a tree." }, "stop");
    const pieces = endless(": still here\n".repeat(1_000), answer);
    await using server = await OpenAiServer.start(() => ({ type: "pours", pieces }));
    const { reply: whole } = await reply(modelAt(server), "streamed");
    expect([whole.message.text, whole.finishReason]).toEqual(["It is a tree.", "stop"]);
  });

  test("has its connection closed by the client", async () => {
    await using server = await OpenAiServer.start(() => ({
      type: "pours",
      pieces: endless("x".repeat(10_000)),
    }));
    await expect(reply(modelAt(server), "streamed")).rejects.toThrow("more than");
    expect(await server.request(1).ended).toBe("closed early");
  });
});

describe("a body without an end", () => {
  const json = { contentType: "application/json" } as const;

  for (const mode of MODES) {
    proves(["S7.3"], `is aborted at 16 MiB (${mode})`, async () => {
      const pieces = endless(" ".repeat(60_000));
      expect(await failureOn({ type: "pours", pieces, ...json }, mode)).toEqual(
        excess(`a body of more than ${BODY_BYTES} bytes`, 2 * CAP),
      );
    });
  }

  proves(["S7.3"], "is aborted at 16 MiB if it is JSON in place of a stream", async () => {
    const pieces = endless("{".repeat(60_000));
    expect(await failureOn({ type: "pours", pieces }, "streamed")).toEqual(
      excess(`a body of more than ${BODY_BYTES} bytes`, 2 * CAP),
    );
  });

  test("is quoted by its beginning if it is an error", async () => {
    const pieces = endless("Nothing works. ".repeat(100));
    const facts = await failureOn({ type: "pours", pieces, status: 400, ...json });
    expect({ code: facts.code, message: facts.message.slice(0, 80) }).toEqual({
      code: "model_invalid_request",
      message: "Expected a reply from the model, got status 400 Nothing works. Nothing works. No",
    });
  });
});

describe("an honest stream of as many tokens as its cap is not cut:", () => {
  const texts: Readonly<Record<string, string>> = {
    English: "The connection is closed as soon as the provider has sent twice the cap. ",
    German: "Die Verbindung wird geschlossen, sobald die Obergrenze erreicht ist. ",
    code: "export function half(count: number): number {\n  return count / 2;\n}\n\n",
    Chinese: "一旦服务提供商发送的令牌数量达到上限的两倍，客户端就会关闭连接。",
    Japanese: "プロバイダーが上限の二倍のトークンを送信すると、接続を閉じます。",
    Korean: "공급자가 상한의 두 배에 해당하는 토큰을 보내면 연결을 닫습니다. ",
    Greek: "Η σύνδεση κλείνει μόλις ο πάροχος στείλει τα διπλάσια από το όριο. ",
    emoji: "😀🎉🚀👍🏽👨‍👩‍👧‍👦❤️🔥✨🙏😂",
  };
  for (const [language, text] of Object.entries(texts)) {
    proves(["D433"], language, async () => {
      const tokens = encode(text.repeat(20)).slice(0, CAP);
      const content = decode(tokens);
      expect(tokens).toHaveLength(CAP);
      const events = [content, ""].map((piece, index) => ({
        choices: [{ index: 0, delta: { content: piece }, finish_reason: index ? "length" : null }],
      }));
      await using server = await OpenAiServer.start(() => ({ type: "events", data: events }));
      const { reply: whole } = await reply(modelAt(server), "streamed");
      expect([whole.message.text, whole.warnings]).toEqual([content, undefined]);
    });
  }
});

test("counts reasoning that was streamed before a break as lost output", async () => {
  const begun = { choices: [{ index: 0, delta: { reasoning_content: "abcdef" } }] };
  const { lostOutputTokens } = await failureOn({ type: "events", data: [begun] }, "streamed");
  expect(lostOutputTokens).toBe(2);
});
