// Goal: a Chat Completions stream with reasoning results in the right reply, however its bytes are
// split and encoded, and is sent back in the server's format.
// Method: the streams in test/fixtures/streams, served to the real client; whole replies and
// messages are compared.

import { readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

import { describe, expect, test } from "vitest";

import { checkReply } from "../../../src/model/check-reply.ts";
import type { ModelReply } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { buildReplyMessage } from "../../../src/protocol/reply-message.ts";
import { CHAT_FIXTURES, textOfChat, type ChatFixture } from "../../fixtures/streams/chat.ts";
import { proves } from "../../harness/proves.ts";
import { modelAt, never, QUESTION, reply } from "../../support/openai-calls.ts";
import { OpenAiServer, says, type ServerReply } from "../../support/openai-server.ts";
import { inPieces, WAYS } from "../../support/recorded-replies.ts";

const isUpdate = process.env["UPDATE_GOLDEN"] === "1" && (process.env["CI"] ?? "") === "";
const SIZE = { inputTokens: 1_000, maxOutputTokens: 1_000 };

/** Returns the reply, and the message that represents it in the next request. */
async function exchange(
  answer: ServerReply,
): Promise<{ readonly reply: ModelReply; readonly sent: unknown }> {
  await using server = await OpenAiServer.start(
    (_request, count) => (count === 1 ? answer : says("Done.")),
    { takesAnyMessages: true },
  );
  const model = modelAt(server);
  const { reply: said } = await reply(model, "streamed");
  const { message } = checkReply(model, said, SIZE);
  const messages = [...QUESTION.messages, message];
  await model.generate({ ...QUESTION, messages }, { signal: never() });
  const { messages: wired } = server.request(2).body;
  return { reply: said, sent: Array.isArray(wired) ? wired[1] : undefined };
}

function expected({ pieces, finishReason, rawFinishReason, usage, sent }: ChatFixture): object {
  const said = {
    message: buildReplyMessage(pieces),
    finishReason,
    ...(rawFinishReason === undefined ? {} : { rawFinishReason }),
    usage,
    responseId: "chatcmpl-1",
    responseModel: "model-2026",
  };
  return { reply: said, sent };
}

describe.each(Object.entries(CHAT_FIXTURES))("chat-%s.sse", (name, fixture) => {
  const file = `test/fixtures/streams/chat-${name}.sse`;

  test("matches the fixture that it is generated from", () => {
    if (isUpdate) writeFileSync(file, textOfChat(fixture));
    expect(readFileSync(file, "utf8"), "write it with UPDATE_GOLDEN=1").toBe(textOfChat(fixture));
  });

  for (const way of WAYS) {
    proves(["M6"], `results in the expected reply and next request, ${way}`, async () => {
      const pieces = inPieces(readFileSync(file), way);
      expect(await exchange({ type: "pours", pieces })).toEqual(expected(fixture));
    });
  }

  proves(
    ["M6"],
    "results in the expected reply and next request if it is compressed with gzip",
    async () => {
      const pieces = [gzipSync(readFileSync(file))];
      expect(await exchange({ type: "pours", pieces, encoding: "gzip" })).toEqual(
        expected(fixture),
      );
    },
  );
});

proves(
  ["M6"],
  "reports a stream that is cut anywhere as model_unavailable, or returns the whole reply",
  async () => {
    const [, fixture] = Object.entries(CHAT_FIXTURES)[0] ?? [];
    if (fixture === undefined) throw new Error("Expected a fixture.");
    const bytes = Buffer.from(textOfChat(fixture));
    const ends = new Set<string>();
    let end = 1;
    await using server = await OpenAiServer.start(() => ({
      type: "raw",
      contentType: "text/event-stream",
      body: bytes.subarray(0, end).toString(),
    }));
    const model = modelAt(server);
    for (; end < bytes.length; end += 7) {
      const ended = await reply(model, "streamed").then(
        ({ reply: { finishReason } }) => finishReason,
        (thrown: unknown) => (thrown instanceof ModelError ? thrown.code : "unknown"),
      );
      ends.add(ended);
    }
    expect(ends).toEqual(new Set(["model_unavailable", "tool_calls"]));
  },
);
