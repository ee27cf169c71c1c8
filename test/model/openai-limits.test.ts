// Goal: a server that ignores the cap, or never ends, is broken off and paid for by what came. Method: a server that pours until the
// client has enough, and what the call says then. How much memory that takes is measured by test/stress/hostile-server.test.ts.

import { describe, expect, test } from "vitest";

import { proves } from "../harness/proves.ts";
import { failureOn, modelAt, MODES, QUESTION, reply } from "../support/openai-calls.ts";
import { OpenAiServer, says, type ServerReply } from "../support/openai-server.ts";

const CAP = QUESTION.maxOutputTokens;
const REPLY_BYTES = 16 * CAP + 4 * 1024;
const LINE_BYTES = 3 * REPLY_BYTES + 1024 * 1024;
const BODY_BYTES = 16 * 1024 * 1024;
const STREAM_BYTES = BODY_BYTES + 1024 * CAP;
const ADVICE =
  "Check that the server keeps to the cap (openai.maxTokensField), or raise it." as const;

/** The same for ever, or something new each time, behind what comes first. */
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

const TOO_LONG = excess(`a reply of more than ${REPLY_BYTES} bytes`, Math.ceil(REPLY_BYTES / 3));

describe("a stream without an end", () => {
  const words = "word ".repeat(200);
  const deltas: readonly (readonly [what: string, fields: object])[] = [
    ["text", { content: words }],
    ["characters of many bytes", { content: "語".repeat(300) }],
    ["reasoning", { reasoning_content: words }],
    ["reasoning under its other name", { reasoning: words }],
    ["a refusal", { refusal: words }],
    ["one call", { tool_calls: [{ index: 0, id: "a", function: { arguments: words } }] }],
  ];
  for (const [what, fields] of deltas) {
    proves(["S7.3"], `of ${what} is broken off at 16 bytes a token and 4 KiB`, async () => {
      const poured: ServerReply = { type: "pours", pieces: endless(delta(fields)) };
      expect(await failureOn(poured, "streamed")).toEqual(TOO_LONG);
    });
  }

  proves(["S7.3"], "of calls that say nothing is broken off, too", async () => {
    const calls = Array.from({ length: 50 }, (_none, at) => ({ index: at, function: {} }));
    const another = (count: number): string =>
      delta({ tool_calls: calls.map((call) => ({ ...call, index: `${count}.${call.index}` })) });
    const pieces = endless(another);
    expect(await failureOn({ type: "pours", pieces }, "streamed")).toEqual(
      excess(`a reply of more than ${REPLY_BYTES} bytes`, 0),
    );
  });

  proves(["S7.3"], "of one line is broken off where no event can be as long", async () => {
    const poured: ServerReply = { type: "pours", pieces: endless("x".repeat(10_000)) };
    expect(await failureOn(poured, "streamed")).toEqual(
      excess(`an event of more than ${LINE_BYTES} bytes`, Math.ceil(REPLY_BYTES / 3)),
    );
  });

  proves(["S7.3"], "of lines of one event is broken off there, too", async () => {
    const poured: ServerReply = { type: "pours", pieces: endless(`data: ${"x".repeat(10_000)}\n`) };
    expect(await failureOn(poured, "streamed")).toEqual(
      excess(`an event of more than ${LINE_BYTES} bytes`, Math.ceil(REPLY_BYTES / 3)),
    );
  });

  proves(["S7.3"], "of comments, or of events without a reply, is broken off", async () => {
    const facts = [];
    for (const piece of [": still here\n\n", event({ choices: [] })]) {
      const pieces = endless(piece.repeat(1_000));
      facts.push(await failureOn({ type: "pours", pieces }, "streamed"));
    }
    const expected = excess(`a stream of more than ${STREAM_BYTES} bytes`, 0);
    expect(facts).toEqual([expected, expected]);
  });

  test("behind a complete reply leaves the reply as it is", async () => {
    const answer = delta({ content: "It is a tree." }, "stop");
    const pieces = endless(": still here\n".repeat(1_000), answer);
    await using server = await OpenAiServer.start(() => ({ type: "pours", pieces }));
    const { reply: whole } = await reply(modelAt(server), "streamed");
    expect([whole.message.text, whole.finishReason]).toEqual(["It is a tree.", "stop"]);
  });

  test("ends its connection", async () => {
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
    proves(["S7.3"], `is broken off at 16 MiB (${mode})`, async () => {
      const pieces = endless(" ".repeat(60_000));
      expect(await failureOn({ type: "pours", pieces, ...json }, mode)).toEqual(
        excess(`a body of more than ${BODY_BYTES} bytes`, Math.ceil(REPLY_BYTES / 3)),
      );
    });
  }

  test("of an error says what its beginning says", async () => {
    const pieces = endless("Nothing works. ".repeat(100));
    const facts = await failureOn({ type: "pours", pieces, status: 400, ...json });
    expect({ code: facts.code, message: facts.message.slice(0, 80) }).toEqual({
      code: "model_refused_request",
      message: "Expected a reply from the model, got status 400 Nothing works. Nothing works. No",
    });
  });
});

describe.each(MODES)("a reply that comes %s", (mode) => {
  const fits = "y".repeat(REPLY_BYTES);

  test("may be as long as its limit", async () => {
    await using server = await OpenAiServer.start(() => says(fits));
    const { reply: whole } = await reply(modelAt(server), mode);
    expect(whole.message.text.length).toBe(REPLY_BYTES);
  });

  proves(["S7.3"], `may not be a byte longer (${mode})`, async () => {
    const { message, code } = await failureOn(says(`${fits}z`), mode);
    expect({ message, code }).toMatchObject({
      code: "model_protocol_error",
      message: `Expected a reply from the model, got a reply of more than ${REPLY_BYTES} bytes. ${ADVICE}`,
    });
  });

  proves(["S7.3"], `counts its calls (${mode})`, async () => {
    const call = { id: "a", name: "go", arguments: JSON.stringify({ to: fits }) };
    const { code } = await failureOn({ type: "says", toolCalls: [call] }, mode);
    expect(code).toBe("model_protocol_error");
  });
});

proves(["S7.3"], "a whole reply counts its reasoning", async () => {
  const message = { role: "assistant", content: "So.", reasoning_content: "z".repeat(REPLY_BYTES) };
  const body = JSON.stringify({ choices: [{ index: 0, message, finish_reason: "stop" }] });
  expect(await failureOn({ type: "raw", body })).toEqual(TOO_LONG);
});

test("reasoning that was streamed before a break has arrived", async () => {
  const begun = { choices: [{ index: 0, delta: { reasoning_content: "abcdef" } }] };
  const { lostOutputTokens } = await failureOn({ type: "events", data: [begun] }, "streamed");
  expect(lostOutputTokens).toBe(2);
});
