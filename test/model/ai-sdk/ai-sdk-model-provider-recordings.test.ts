// Goal: recorded answers of real Anthropic and Gemini servers result in the expected replies,
// however their bytes arrive.
// Method: recordings of other projects (RECORDED_REPLIES), each served four ways to the provider's
// own package. A second request with the reply in its history must contain the data that the server
// wants back. A recording of a whole body is sent as the equivalent stream, since every request
// asks for a stream.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import { aiSdkModel } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import type { ModelReply } from "../../../src/model/model.ts";
import { getReplyPieces, type ReplyPiece } from "../../../src/protocol/reply-message.ts";
import { proves } from "../../harness/proves.ts";
import { rejection } from "../../support/openai-calls.ts";
import {
  bodyOf,
  inPieces,
  recordings,
  WAYS,
  WHY_SKIPPED,
  type ExpectedReply,
  type Recording,
  type Way,
} from "../../support/recorded-replies.ts";
import { after, ask } from "../../support/ai-sdk/fake-model.ts";
import {
  failing,
  FakeNetwork,
  PROVIDERS,
  streaming,
} from "../../support/ai-sdk/provider-fixture.ts";

const RECORDINGS = [...recordings("anthropic"), ...recordings("gemini")];
const CREATED = { anthropic: PROVIDERS.anthropic, gemini: PROVIDERS.google };

test.skipIf(RECORDINGS.length > 0)(`skipped: ${WHY_SKIPPED}`, () => {
  expect(RECORDINGS).toEqual([]);
});

describe.each(RECORDINGS)("$file", (recording) => {
  const { expect: expected, status } = recording;
  for (const way of WAYS) {
    proves(["M34"], `results in the expected reply or error, ${way}`, async () => {
      const network = new FakeNetwork(answerOf(recording, way));
      const model = aiSdkModel(createdFor(recording)(network.fetch));
      if (status >= 400) {
        expect(await rejection(ask(model))).toMatchObject({ code: "model_context_overflow" });
        return;
      }
      const reply = await ask(model, { maxOutputTokens: 10_000 });
      expect(factsOf(reply, expected)).toEqual(readably(expected));
      await ask(model, after(model, reply));
      for (const { value } of expected.sendBack ?? [])
        expect(network.lastText).toContain(JSON.stringify(value).slice(1, -1));
    });
  }
});

function createdFor({ kind }: Recording): (typeof CREATED)["anthropic" | "gemini"] {
  return kind === "anthropic" ? CREATED.anthropic : CREATED.gemini;
}

function answerOf(recording: Recording, way: Way): () => Response {
  const whole = Buffer.concat(bodyOf(recording, "whole"));
  if (recording.status >= 400) return failing(recording.status, whole.toString());
  if (recording.stream) return streaming(...inPieces(whole, way));
  return streaming(...inPieces(Buffer.from(asStream(recording, whole.toString())), way));
}

/** Returns the expectations about replies, with arguments by their value. */
function readably(expected: ExpectedReply): object {
  const { text, calls = [], finish, usage, reasoning, order } = expected;
  return {
    text,
    calls: calls.map((call) => ({ ...call, arguments: valueOf(call.arguments) })),
    finish,
    usage,
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(order === undefined ? {} : { order }),
  };
}

/** Returns the same facts of a reply, as far as they are expected. */
function factsOf({ message, finishReason, usage }: ModelReply, expected: ExpectedReply): object {
  const pieces = getReplyPieces(message);
  const reasoning = pieces.map((piece) => (piece.type === "reasoning" ? piece.text : "")).join("");
  const [first] = expected.calls ?? [];
  return {
    text: message.text,
    calls: message.toolCalls.map(({ callId, toolName, argumentsText }) => ({
      // Gemini sends no ids: its provider generates them.
      id: first?.id === "" && callId !== "" ? "" : callId,
      toolName: toolName,
      arguments: valueOf(argumentsText),
    })),
    finish: finishReason,
    usage:
      usage === undefined
        ? null
        : {
            input: usage.inputTokens,
            cached: usage.cachedInputTokens,
            ...(expected.usage?.cacheWrite === undefined
              ? {}
              : { cacheWrite: usage.cacheWriteInputTokens }),
            output: usage.outputTokens,
            reasoning: usage.reasoningTokens,
          },
    ...(expected.reasoning === undefined ? {} : { reasoning }),
    ...(expected.order === undefined ? {} : { order: pieces.map(blockOf) }),
  };
}

/** Returns Anthropic's name for a piece. */
function blockOf(piece: ReplyPiece): string {
  if (piece.type === "text") return "text";
  if (piece.type === "call") return "tool_use";
  return JSON.stringify(piece.data).includes("redactedData") ? "redacted_thinking" : "thinking";
}

function valueOf(text: string): unknown {
  return JSON.parse(text);
}

const BlockSchema = z.looseObject({ type: z.string() });
const MessageSchema = z.looseObject({
  content: z.array(BlockSchema),
  stop_reason: z.string(),
  usage: z.looseObject({ output_tokens: z.number() }),
});

function asStream({ kind }: Recording, body: string): string {
  if (kind === "gemini") return `data: ${JSON.stringify(JSON.parse(body))}\n\n`;
  const { content, stop_reason, usage, ...message } = MessageSchema.parse(JSON.parse(body));
  const events = [
    { type: "message_start", message: { ...message, content: [], stop_reason: null, usage } },
    ...content.flatMap(blockEvents),
    { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage },
    { type: "message_stop" },
  ];
  return events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
}

function blockEvents(block: z.infer<typeof BlockSchema>, index: number): readonly object[] {
  const { thinking, signature, text, input } = block;
  const deltas: Readonly<Record<string, readonly object[]>> = {
    thinking: [
      { type: "thinking_delta", thinking },
      { type: "signature_delta", signature },
    ],
    text: [{ type: "text_delta", text }],
    tool_use: [{ type: "input_json_delta", partial_json: JSON.stringify(input) }],
  };
  const empty = { thinking: "", signature: "", text: "", input: {} };
  const opened = Object.keys(block).map((name): readonly [string, unknown] => [
    name,
    name in empty ? Reflect.get(empty, name) : block[name],
  ]);
  return [
    { type: "content_block_start", index, content_block: Object.fromEntries<unknown>(opened) },
    ...(deltas[block.type] ?? []).map((delta) => ({ type: "content_block_delta", index, delta })),
    { type: "content_block_stop", index },
  ];
}
