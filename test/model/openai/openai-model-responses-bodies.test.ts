// Goal: a whole response results in the same reply as its stream, and an invalid response in the
// right error.
// Method: the last events of the streams in test/fixtures/streams, and bodies written out here,
// served to the real client.

import { describe, expect, test } from "vitest";

import { ModelError } from "../../../src/model/model-error.ts";
import type { ModelReply } from "../../../src/model/model.ts";
import { buildReplyMessage } from "../../../src/protocol/reply-message.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import {
  replyOf,
  RESPONSES_FIXTURES,
  type StreamFixture,
} from "../../fixtures/streams/responses.ts";
import { proves } from "../../harness/proves.ts";
import { modelAt, rejection, reply } from "../../support/openai-calls.ts";
import { OpenAiServer } from "../../support/openai-server.ts";

proves(["D732"], "maps an unknown finish reason to other in both APIs of OpenAI", async () => {
  const content = [{ type: "output_text", text: "Hi." }];
  const bodies = {
    chat_completions: { choices: [{ message: { content: "Hi." }, finish_reason: "superseded" }] },
    responses: { status: "superseded", output: [{ type: "message", content }] },
  };
  for (const api of ["chat_completions", "responses"] as const) {
    const body = JSON.stringify(bodies[api]);
    await using server = await OpenAiServer.start(() => ({ type: "raw", body }));
    const { finishReason, rawFinishReason } = (await reply(modelAt(server, { api }), "whole"))
      .reply;
    expect([finishReason, rawFinishReason]).toEqual(["other", "superseded"]);
  }
});

const FIXTURES: readonly (readonly [string, StreamFixture])[] = Object.entries(RESPONSES_FIXTURES);

describe("a whole body", () => {
  async function whole(body: unknown): Promise<ModelReply> {
    const raw = typeof body === "string" ? body : JSON.stringify(body);
    await using server = await OpenAiServer.start(() => ({ type: "raw", body: raw }));
    return (await reply(modelAt(server, { api: "responses" }), "whole")).reply;
  }

  const codeOf = async (body: unknown): Promise<unknown> => {
    const thrown = await rejection(whole(body));
    return thrown instanceof ModelError ? [thrown.code, thrown.lostOutputTokens] : thrown;
  };

  for (const [name, { events: all, expected }] of FIXTURES) {
    const responses = all.flatMap((one) => ("response" in one ? [one.response] : []));
    const response = responses.at(-1);
    if (expected.type === "error" || response === undefined) continue;
    if (response.output.length === 0 && expected.pieces.length > 0) continue;
    proves(["M10"], `results in the same reply as responses-${name}.sse`, async () => {
      expect(await whole(response)).toEqual(replyOf(expected).reply);
    });
  }

  proves(["M11"], "is an error if it is not a response or a failed one", async () => {
    expect([
      await codeOf("<html>"),
      await codeOf('{"output":['),
      await codeOf({ id: "x" }),
      await codeOf({ error: { code: "rate_limit_exceeded", message: "No." } }),
      await codeOf({ status: "failed", error: null, output: [] }),
      await codeOf({ status: "failed", error: null, output: [], usage: { output_tokens: 9 } }),
      await codeOf({ output: [{ type: "function_call", call_id: "a", arguments: "{}" }] }),
    ]).toEqual([
      ["model_protocol_error", undefined],
      ["model_protocol_error", 4],
      ["model_protocol_error", undefined],
      ["model_rate_limited", undefined],
      ["model_unavailable", undefined],
      ["model_unavailable", 9],
      ["model_protocol_error", 23],
    ]);
  });

  test("is read as far as possible if it omits or changes fields that OpenAI sends", async () => {
    const message = { type: "message", content: [{ type: "output_text", text: "Hello." }] };
    const bent = { type: "function_call", id: "fc_1", name: "go", arguments: { a: 1 } };
    const ended = { status: "superseded", output: [message, null, bent, { type: 7 }] };
    expect(await whole(ended)).toEqual({
      message: buildReplyMessage([
        { type: "text", text: "Hello." },
        {
          type: "call",
          callId: CallIdSchema().parse("fc_1"),
          toolName: "go",
          argumentsText: '{"a":1}',
        },
      ]),
      finishReason: "other",
      rawFinishReason: "superseded",
    });
    expect((await whole({ output: [{ ...bent, id: "" }] })).message.toolCalls[0]?.callId).toBe(
      "call.0",
    );
  });

  test("limits the parts of its usage to the whole and omits a usage without valid figures", async () => {
    const usages = [
      { input_tokens: 10, output_tokens: 5 },
      {
        input_tokens: 10,
        output_tokens: 5,
        input_tokens_details: { cached_tokens: 8, cache_write_tokens: 8 },
        output_tokens_details: { reasoning_tokens: 8 },
      },
      { input_tokens: 0, output_tokens: 0 },
      { input_tokens: "10", output_tokens: 5 },
    ];
    const read = [];
    for (const usage of usages) read.push((await whole({ output: [], usage })).usage);
    expect(read).toEqual([
      { inputTokens: 10, cachedInputTokens: 0, outputTokens: 5, reasoningTokens: 0 },
      {
        inputTokens: 10,
        cachedInputTokens: 8,
        cacheWriteInputTokens: 2,
        outputTokens: 5,
        reasoningTokens: 5,
      },
      undefined,
      undefined,
    ]);
  });
});
