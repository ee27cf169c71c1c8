// Goal: whatever was done to a history, the replies in a request match their messages, related
// parts stay together, no writer's data reaches another writer, and a request that only grew begins
// with the text of the request before.
// Method: arbitrary histories of several writers, and arbitrary edits of every kind. Each part
// bears a number, by which it is recognised in the outgoing parts and in the bodies of both
// interfaces.

import * as fc from "fast-check";
import { expect } from "vitest";
import { z } from "zod";

import { deepFreeze } from "../../src/kernel/json.ts";
import type { Model, ModelRequest } from "../../src/model/model.ts";
import { toOpenAi } from "../../src/model/openai/to-openai.ts";
import { toResponses } from "../../src/model/openai/from-responses.ts";
import { getReplyPieces, type ReplyPiece } from "../../src/protocol/reply-message.ts";
import { toHistory } from "../../src/model/recipient-messages.ts";
import { repairMessages } from "../../src/policies/message-repair.ts";
import type { AssistantMessage, Message } from "../../src/protocol/message.ts";
import { findMessageProblems } from "../../src/testing/check-messages.ts";
import { proves } from "../harness/proves.ts";
import {
  EDITS,
  edits,
  KEYS,
  told,
  turns,
  type Key,
  type Story,
} from "../support/reply-parts-story.ts";

const RUNS = { numRuns: Number(process.env["FC_RUNS"] ?? 1_000) };
const FORM = {
  modelId: "m",
  options: {
    settings: {},
    serviceTier: undefined,
    promptCacheKey: false,
    strictTools: false,
    extraBody: {},
  },
} as const;

/** A model that accepts the data that was written under this key. */
function reader(replayKey: string): Pick<Model, "provider" | "id" | "replayKey"> {
  return { provider: "", id: "", replayKey };
}

function requestOf(messages: readonly Message[]): ModelRequest {
  return { messages, tools: [], maxOutputTokens: 1 };
}

function chatText(messages: readonly Message[], replayKey: string): string {
  const settings = { maxTokensField: "max_tokens", replayKey, reasoningField: undefined } as const;
  return toOpenAi(requestOf(messages), { ...FORM, ...settings }, false);
}

function responsesText(messages: readonly Message[]): string {
  return toResponses(requestOf(messages), FORM, false, true);
}

/** Returns the number that a part bears; `undefined` if any writer might have written it. */
function numberOf(piece: ReplyPiece): number | undefined {
  const known =
    /seal-(\d+)-of/u.exec(JSON.stringify(piece.data ?? null)) ??
    (piece.type === "reasoning" ? /Thought (\d+)\./u.exec(piece.text) : null);
  return known === null ? undefined : Number(known[1]);
}

function nameless(piece: ReplyPiece): object {
  return piece.type === "call" ? { ...piece, callId: "" } : piece;
}

/** Checks the laws for the parts of a reply, whatever was done to it. */
function checkPieces(message: AssistantMessage, story: Story, key: Key): void {
  const { origins } = story;
  const pieces = getReplyPieces(message);
  const calls = pieces.filter((piece) => piece.type === "call");
  const texts = pieces.flatMap((piece) => (piece.type === "text" ? [piece.text] : []));
  expect(texts.join(""), "the text").toBe(message.text);
  expect(
    calls.map(({ callId, toolName, argumentsText }) => ({ callId, toolName, argumentsText })),
    "the calls",
  ).toEqual(message.toolCalls);
  expect(pieces.at(-1)?.type, "reasoning stands before something").not.toBe("reasoning");
  const known = pieces.flatMap((piece) => {
    const number = numberOf(piece);
    return number === undefined ? [] : [{ number, piece }];
  });
  for (const { number, piece } of known) {
    const origin = origins.get(number) ?? expect.fail("a piece without a writer");
    expect(nameless(piece), "as it was written").toEqual(nameless(origin.piece));
    expect(JSON.stringify(piece.data), "to the byte").toBe(JSON.stringify(origin.piece.data));
    expect(origin.writer, "to its writer").toBe(key);
    expect(
      calls.map(({ argumentsText }) => argumentsText),
      "with all calls of its reply, and no others",
    ).toEqual(origin.calls);
  }
  const numbers = known.map(({ number }) => number);
  if (story.messages.includes(message))
    expect(numbers, "all of it, unless something happened to it").toEqual(
      numbersOf(message, story),
    );
  expect(numbers, "in order, each once").toEqual(
    [...new Set(numbers)].toSorted((one, other) => one - other),
  );
  expect(new Set(numbers.map((number) => origins.get(number)?.reply)).size).toBeLessThan(2);
}

/** Returns the parts of a reply that are recognisable, except for reasoning at its end. */
function numbersOf(message: AssistantMessage, { messages, origins }: Story): readonly number[] {
  if (message.parts === undefined) return [];
  const replies = messages.filter(({ role }) => role === "assistant");
  const own = [...origins].filter(([, { reply }]) => replies[reply] === message);
  const last = own.findLastIndex(([, { piece }]) => piece.type !== "reasoning");
  return own.slice(0, last + 1).flatMap(([, { piece }]) => numberOf(piece) ?? []);
}

/** Expects that the body matches the messages. */
function checkBodies(messages: readonly Message[], key: Key): void {
  const bodies = [chatText(messages, key), responsesText(messages)];
  const others = KEYS.filter((one) => one !== key);
  for (const body of bodies)
    expect(
      others.filter((one) => body.includes(`of-${one}`)),
      "no data of another writer",
    ).toEqual([]);
  const chat: unknown = JSON.parse(bodies[0] ?? "");
  const replies = messages.filter((message) => message.role === "assistant");
  expect(chat).toMatchObject({
    messages: messages.map((message) =>
      message.role === "assistant" ? {} : { content: message.text },
    ),
  });
  expect(repliesIn(chat)).toEqual(
    replies.map(({ text, toolCalls }) => [
      text === "" && toolCalls.length > 0 ? null : text,
      toolCalls.map(({ callId, argumentsText }) => [callId, argumentsText]),
    ]),
  );
}

const BodySchema = z.object({
  messages: z.array(
    z.object({
      role: z.string(),
      content: z.string().nullable(),
      tool_calls: z
        .array(z.object({ id: z.string(), function: z.object({ arguments: z.string() }) }))
        .optional(),
    }),
  ),
});

function repliesIn(body: unknown): readonly unknown[] {
  const { messages } = BodySchema.parse(body);
  return messages
    .filter(({ role }) => role === "assistant")
    .map(({ content, tool_calls = [] }) => [
      content,
      tool_calls.map(({ id, function: { arguments: given } }) => [id, given]),
    ]);
}

proves(
  ["M2", "M3"],
  "sends matching, complete parts to their own writer only, whatever was done to a history",
  () => {
    let sealed = 0;
    fc.assert(
      fc.property(turns, edits, (all, changes) => {
        const story = told(all);
        let { messages } = story;
        for (const edit of changes) messages = deepFreeze(EDITS[edit.kind](messages, edit));
        const before = JSON.stringify(messages);
        for (const key of KEYS) {
          const seen = toHistory(messages, reader(key));
          for (const message of seen) {
            if (message.role !== "assistant") continue;
            checkPieces(message, story, key);
            sealed += getReplyPieces(message).filter(({ data }) => data !== undefined).length;
          }
          const sent = repairMessages(seen).messages;
          expect(findMessageProblems(sent)).toEqual([]);
          for (const message of sent)
            if (message.role === "assistant") checkPieces(message, story, key);
          checkBodies(sent, key);
        }
        expect(JSON.stringify(messages)).toBe(before);
      }),
      RUNS,
    );
    expect(sealed, "much goes out").toBeGreaterThan(RUNS.numRuns);
  },
);

const FILLED = '"reasoning_content":';
const FILLER = `,${FILLED}""`;

/** Returns the body up to the end of its messages. */
function upToEnd(body: string): string {
  return body.slice(
    0,
    Math.max(body.lastIndexOf('],"max_tokens"'), body.lastIndexOf('],"max_output_tokens"')),
  );
}

proves(
  ["M4"],
  "extends the text of the previous request, parts included, even if other models were called in between",
  () => {
    fc.assert(
      fc.property(turns, (all) => {
        const { messages } = told(all);
        const ends = messages.flatMap((one, at) => (one.role === "user" ? [at + 1] : []));
        for (const [step, end] of ends.entries()) {
          const next = ends[step + 1];
          if (next === undefined) continue;
          for (const key of KEYS) {
            const [now, later] = [end, next].map((to) =>
              toHistory(messages.slice(0, to), reader(key)),
            );
            expect(now?.every((message, at) => message === later?.[at])).toBe(true);
            const [body, longer] = [now, later].map((one = []) => responsesText(one));
            expect(longer?.startsWith(upToEnd(body ?? ""))).toBe(true);
            const [chat, longerChat] = [now, later].map((one = []) => chatText(one, key));
            // The first thought in `reasoning_content` fills the field of the replies before it.
            const isFilled = !chat?.includes(FILLED) && longerChat?.includes(FILLED) === true;
            const whole = isFilled ? longerChat.replaceAll(FILLER, "") : longerChat;
            expect(whole?.startsWith(upToEnd(chat ?? ""))).toBe(true);
          }
        }
      }),
      RUNS,
    );
  },
);
