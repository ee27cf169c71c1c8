// Goal: a Responses stream results in the right reply or the right error, however its events are
// split, ordered and formatted.
// Method: the streams in test/fixtures/streams, and some written out here, served to the real
// client; whole replies are compared.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";

import { describe, expect, test } from "vitest";

import { ModelError } from "../../../src/model/model-error.ts";
import type { ModelReply } from "../../../src/model/model.ts";
import { StreamedResponse } from "../../../src/model/openai/streamed-response.ts";
import { computeReplyLimits } from "../../../src/model/reply-limits.ts";
import {
  replyOf,
  RESPONSES_FIXTURES,
  textOfStream,
  type ExpectedError,
  type StreamFixture,
} from "../../fixtures/streams/responses.ts";
import { proves } from "../../harness/proves.ts";
import { modelAt, rejection, reply } from "../../support/openai-calls.ts";
import { OpenAiServer, type ServerReply } from "../../support/openai-server.ts";
import { inPieces, WAYS } from "../../support/recorded-replies.ts";
import { getReplyPieces } from "../../../src/protocol/reply-message.ts";

const FOLDER = "test/fixtures/streams";
const isUpdate = process.env["UPDATE_GOLDEN"] === "1" && (process.env["CI"] ?? "") === "";

function fileOf(name: string): string {
  return `${FOLDER}/responses-${name}.sse`;
}

async function streamed(
  answer: ServerReply,
): Promise<{ readonly reply: ModelReply; readonly pieces: readonly string[] }> {
  await using server = await OpenAiServer.start(() => answer);
  return await reply(modelAt(server, { api: "responses" }), "streamed");
}

async function errorOf(answer: ServerReply): Promise<ExpectedError> {
  const thrown = await rejection(streamed(answer));
  if (!(thrown instanceof ModelError)) throw thrown;
  const { code, isRetryable, lostOutputTokens } = thrown;
  return { type: "error", code, isRetryable, lostOutputTokens };
}

const FIXTURES: readonly (readonly [string, StreamFixture])[] = Object.entries(RESPONSES_FIXTURES);

describe.each(FIXTURES)("responses-%s.sse", (name, fixture) => {
  test("matches the fixture that it is generated from", () => {
    const text = textOfStream(fixture);
    if (isUpdate) {
      mkdirSync(FOLDER, { recursive: true });
      writeFileSync(fileOf(name), text);
    }
    expect(readFileSync(fileOf(name), "utf8"), "write it with UPDATE_GOLDEN=1").toBe(text);
  });

  for (const way of WAYS) {
    proves(["M10"], `results in the expected reply or error, ${way}`, async () => {
      const { expected } = fixture;
      const answer: ServerReply = {
        type: "pours",
        pieces: inPieces(readFileSync(fileOf(name)), way),
      };
      if (expected.type === "error") expect(await errorOf(answer)).toEqual(expected);
      else expect(await streamed(answer)).toEqual(replyOf(expected));
    });
  }
});

const event = (type: string, fields: object): object => ({ type, ...fields });
const added = (place: number, item: object): object =>
  event("response.output_item.added", { output_index: place, item });
const done = (place: number, item: object): object =>
  event("response.output_item.done", { output_index: place, item });
const ended = (response: object = {}): object => event("response.completed", { response });
const events = (...data: unknown[]): ServerReply => ({ type: "events", data });
const text = (words: string): object => ({
  type: "message",
  content: [{ type: "output_text", text: words }],
});
const call = (id: string): object => ({
  type: "function_call",
  call_id: id,
  name: "go",
  arguments: "{}",
});

async function piecesOf(...data: unknown[]): Promise<readonly unknown[]> {
  const { reply: result } = await streamed(events(...data));
  return getReplyPieces(result.message);
}

const words = (said: string): object => ({ type: "text", text: said });
const go = (callId: string): object => ({
  type: "call",
  callId,
  toolName: "go",
  argumentsText: "{}",
});

proves(
  ["M10"],
  "orders items by their index, with gaps, and uses the last end of each",
  async () => {
    expect(
      await piecesOf(
        done(7, call("c")),
        done(2, text("Wrong.")),
        done(5, call("b")),
        done(2, text("Right.")),
        ended({ output: [text("Right."), call("b"), call("c")] }),
      ),
    ).toEqual([words("Right."), go("b"), go("c")]);
  },
);

proves(
  ["M10"],
  "reads streams without indexes, without ends of items, or with all output at the end",
  async () => {
    const unplaced = await piecesOf(
      event("response.output_item.added", { item: { type: "message" } }),
      event("response.output_text.delta", { delta: "Hel" }),
      event("response.output_text.delta", { delta: "lo." }),
      event("response.output_item.added", { item: { ...call("a"), arguments: "" } }),
      event("response.function_call_arguments.delta", { delta: "{" }),
      event("response.function_call_arguments.delta", { delta: "}" }),
      ended(),
    );
    const whole = await piecesOf(ended({ output: [text("Hello."), call("a")] }));
    const output = [text("Hello."), call("a")];
    const inPart = await piecesOf(done(0, text("Hello.")), ended({ output }));
    const withGaps = await piecesOf(done(7, text("Hello.")), ended({ output }));
    const all = [words("Hello."), go("a")];
    expect([unplaced, whole, inPart, withGaps]).toEqual([all, all, all, all]);
  },
);

test("preserves unfinished reasoning and drops its partial encrypted content", async () => {
  const summary = (index: number, delta: string): object =>
    event("response.reasoning_summary_text.delta", {
      output_index: 0,
      summary_index: index,
      delta,
    });
  expect(
    await piecesOf(
      added(0, { type: "reasoning", encrypted_content: "gAA" }),
      summary(0, "One"),
      summary(0, ", two"),
      summary(1, "Three"),
      done(1, text("3")),
      ended(),
    ),
  ).toEqual([{ type: "reasoning", text: "One, two\n\nThree" }, words("3")]);
});

test("emits text that had no deltas when its item ends", async () => {
  const { pieces } = await streamed(
    events(
      added(0, text("")),
      event("response.output_text.delta", { output_index: 0, delta: "It is" }),
      done(0, text("It is a tree.")),
      done(1, text(" And a house.")),
      ended(),
    ),
  );
  expect(pieces).toEqual(["It is", " a tree.", " And a house."]);
});

test("preserves an unknown item without its id, and unencrypted reasoning", async () => {
  const compaction = { type: "compaction", id: "cmp_1", encrypted_content: "gAAAA" };
  const open = { type: "reasoning", content: [{ type: "reasoning_text", text: "Hm." }] };
  expect(
    await piecesOf(done(0, compaction), done(1, open), done(2, text("Yes.")), ended()),
  ).toEqual([
    {
      type: "opaque",
      kind: "compaction",
      data: { openai: { type: "compaction", encrypted_content: "gAAAA" } },
    },
    { type: "reasoning", text: "Hm." },
    words("Yes."),
  ]);
});

proves(["M10"], "does not parse the first events of a stream and unknown events", async () => {
  const pours = (body: string): ServerReply => ({ type: "pours", pieces: [body] });
  const skipped = [
    'data: {"type":"response.created","response":{broken\n\n',
    'data: {"response":{broken},"type":"response.in_progress"}\n\n',
    'data: {"type":"response.dreaming.delta",broken\n\n',
  ];
  const end = `data: ${JSON.stringify(ended({ output: [text("Hello.")] }))}\n\n`;
  expect((await streamed(pours([...skipped, end].join("")))).pieces).toEqual(["Hello."]);
  const read = 'data: {"type":"response.output_text.delta",broken\n\n';
  expect(await errorOf(pours(read))).toEqual({
    type: "error",
    code: "model_protocol_error",
    isRetryable: false,
    lostOutputTokens: undefined,
  });
});

const failed = (error: object | null, more: object = {}): ServerReply =>
  events(event("response.failed", { response: { status: "failed", error, ...more } }));

proves(["M11"], "classifies a failed response by its code", async () => {
  const codes = await Promise.all(
    [
      "rate_limit_exceeded",
      "server_error",
      "vector_store_timeout",
      "bio_policy",
      "misalignment_policy_violation",
      "invalid_prompt",
      "invalid_image_url",
      "image_too_large",
      "unsupported_image_media_type",
      "context_length_exceeded",
      "insufficient_quota",
    ].map(async (code) => [code, (await errorOf(failed({ code, message: "No." }))).code]),
  );
  expect(Object.fromEntries(codes)).toEqual({
    rate_limit_exceeded: "model_rate_limited",
    server_error: "model_unavailable",
    vector_store_timeout: "model_unavailable",
    bio_policy: "model_invalid_request",
    misalignment_policy_violation: "model_invalid_request",
    invalid_prompt: "model_invalid_request",
    invalid_image_url: "model_invalid_request",
    image_too_large: "model_invalid_request",
    unsupported_image_media_type: "model_invalid_request",
    context_length_exceeded: "model_context_overflow",
    insufficient_quota: "model_invalid_request",
  });
});

proves(
  ["M11"],
  "reports a failure without a reason as retryable, and its charged output as lost",
  async () => {
    expect([
      await errorOf(failed(null)),
      await errorOf(
        failed({ code: "server_error", message: "No." }, { usage: { output_tokens: 40 } }),
      ),
    ]).toEqual([
      { type: "error", code: "model_unavailable", isRetryable: true, lostOutputTokens: undefined },
      { type: "error", code: "model_unavailable", isRetryable: true, lostOutputTokens: 40 },
    ]);
  },
);

test("recognises errors in each form in which servers report them", async () => {
  const report = { code: "rate_limit_exceeded", message: "Slow down." };
  const codes = await Promise.all(
    [
      event("error", report),
      event("error", { error: report }),
      { error: report },
      { object: "error", ...report },
      event("response.completed", { response: { error: report } }),
    ].map(async (data) => (await errorOf(events(data))).code),
  );
  expect(new Set(codes)).toEqual(new Set(["model_rate_limited"]));
});

proves(["M11"], "rejects a stream without an end or without content", async () => {
  const begun = added(0, text(""));
  const delta = event("response.output_text.delta", { output_index: 0, delta: "It is" });
  expect([
    await errorOf(events(begun, delta)),
    await errorOf(events(begun, delta, "[DONE]")),
    await errorOf(events("[DONE]")),
    await errorOf(events()),
  ]).toEqual([
    { type: "error", code: "model_unavailable", isRetryable: true, lostOutputTokens: 2 },
    { type: "error", code: "model_unavailable", isRetryable: true, lostOutputTokens: 2 },
    {
      type: "error",
      code: "model_protocol_error",
      isRetryable: false,
      lostOutputTokens: undefined,
    },
    { type: "error", code: "model_unavailable", isRetryable: true, lostOutputTokens: undefined },
  ]);
});

describe("a reply that is longer than its cap allows", () => {
  /** Twice the cap of 100 tokens, at three bytes each. */
  const MOST = 600;
  const excess = { type: "error", code: "model_protocol_error", isRetryable: false };

  const deltaTypes = [
    "response.output_text.delta",
    "response.refusal.delta",
    "response.reasoning_text.delta",
    "response.reasoning_summary_text.delta",
    "response.function_call_arguments.delta",
  ];
  for (const type of deltaTypes) {
    proves(["M12", "D432"], `is cut at twice the cap and ends as length: ${type}`, async () => {
      const begun = type.includes("arguments")
        ? [added(0, { type: "function_call", name: "go", call_id: "c" })]
        : [];
      const deltas = Array.from({ length: 6 }, () =>
        event(type, { output_index: 0, delta: "x".repeat(1_000) }),
      );
      await using server = await OpenAiServer.start(() => events(...begun, ...deltas));
      const model = modelAt(server, { api: "responses" });
      const { reply: cut } = await reply(model, "streamed");
      const { text, refusal = "", parts = [], toolCalls } = cut.message;
      const reasoning = parts.map((part) => (part.type === "reasoning" ? part.text : ""));
      const calls = toolCalls.map((call) => call.toolName + call.argumentsText);
      const said = [text, refusal, ...reasoning, ...calls].join("").length;
      expect([cut.finishReason, cut.usage, said]).toEqual(["length", undefined, MOST]);
    });
  }

  proves(["M12"], "is aborted if other events exceed its limit", async () => {
    const opened = Array.from({ length: 360 }, (_item, place) => added(place, {}));
    expect(await errorOf(events(...opened))).toMatchObject(excess);
    const data = Array.from({ length: 3 }, (_item, place) =>
      done(place, { type: "compaction", encrypted_content: "x".repeat(400_000) }),
    );
    expect(await errorOf(events(...data))).toMatchObject(excess);
  });

  proves(
    ["M12"],
    "is accepted at exactly twice the cap, counting a repeated item once",
    async () => {
      const fits = text("x".repeat(MOST));
      expect(await piecesOf(done(0, fits), done(0, fits), ended())).toEqual([
        words("x".repeat(MOST)),
      ]);
    },
  );
});

test("does not measure the deltas of an item again each time the item ends", () => {
  const stream = new StreamedResponse(computeReplyLimits(1_000_000), () => undefined);
  const long = { output_index: 0, delta: "語".repeat(400_000) };
  stream.take(JSON.stringify({ type: "response.output_text.delta", ...long }));
  const empty = { output_index: 0, item: { type: "message", content: [] } };
  const event = JSON.stringify({ type: "response.output_item.done", ...empty });
  const { byteLength } = Buffer;
  let measured = 0;
  Buffer.byteLength = (value, encoding) => {
    measured += typeof value === "string" ? value.length : 0;
    return byteLength(value, encoding);
  };
  try {
    for (let count = 0; count < 100; count += 1) stream.take(event);
  } finally {
    Buffer.byteLength = byteLength;
  }
  expect(measured).toBeLessThan(400_000);
});

proves(["M11"], "never reports a stream that is cut before its end as complete", () => {
  for (const [, { events: all, expected }] of FIXTURES) {
    const datas = all.map((one) => ("unknown" in one ? one.unknown : JSON.stringify(one)));
    const end = all.findIndex((one) => "type" in one && isEnd(one.type));
    for (let count = 0; count < datas.length; count += 1) {
      const stream = new StreamedResponse(computeReplyLimits(100), () => undefined);
      const taken = datas.slice(0, count);
      if (end !== -1 && count > end && expected.type === "error") continue;
      for (const data of taken) stream.take(data);
      const isWhole = end !== -1 && count > end;
      expect(stream.isComplete).toBe(isWhole);
      if (!isWhole) expect(() => stream.finish()).toThrow(/ended before the model had finished/);
    }
  }
});

function isEnd(type: string): boolean {
  return /^(response\.(completed|incomplete|failed)|error)$/.test(type);
}
