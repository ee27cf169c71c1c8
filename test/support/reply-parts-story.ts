// Histories of several writers whose every part bears a number, and every kind of edit of a
// history.

import * as fc from "fast-check";
import { expect } from "vitest";

import { getPatchContract } from "../../src/hooks/patch-contract.ts";
import { deepFreeze } from "../../src/kernel/json.ts";
import {
  buildReplyMessage,
  fitParts,
  renamePartCalls,
  type ReplyPiece,
} from "../../src/protocol/reply-message.ts";
import { selectInheritedMessages } from "../../src/policies/inherit-context.ts";
import { repairMessages } from "../../src/policies/message-repair.ts";
import { truncateHistory } from "../../src/policies/truncate-history.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import {
  MessageSchema,
  type AssistantMessage,
  type Message,
  type ToolCall,
} from "../../src/protocol/message.ts";

export const KEYS = ["acme/one", "acme/two", "acme/three"] as const;
export type Key = (typeof KEYS)[number];

/** The description of a part. */
interface Clay {
  readonly type: ReplyPiece["type"];
  readonly text: string;
  readonly isSealed: boolean;
  readonly id: string;
}

interface Turn {
  readonly writer: Key;
  readonly clay: readonly Clay[];
}

const clay: fc.Arbitrary<Clay> = fc.record({
  type: fc.constantFrom<ReplyPiece["type"][]>("reasoning", "text", "call", "call", "opaque"),
  text: fc.constantFrom("", "Oak. ", "Elm?", '{"n":1}', "\u{1F600}"),
  isSealed: fc.boolean(),
  id: fc.constantFrom("c1", "c2", "c3"),
});
const turn: fc.Arbitrary<Turn> = fc.record({
  writer: fc.constantFrom(...KEYS),
  clay: fc.array(clay, { maxLength: 7, size: "max" }),
});
export const turns = fc.array(turn, { minLength: 1, maxLength: 5, size: "max" });

/** A history, and every part in it by its number. */
export interface Story {
  readonly messages: readonly Message[];
  readonly origins: ReadonlyMap<number, Origin>;
}

interface Origin {
  readonly piece: ReplyPiece;
  readonly writer: Key;
  readonly reply: number;
  readonly calls: readonly string[];
}

const FIELDS = ["reasoning_content", "reasoning"] as const;

/** In the forms of both interfaces, so that request bodies contain it. */
function sealOf(number: number, writer: Key): Extract<ReplyPiece, { type: "opaque" }>["data"] {
  const seal = `seal-${number}-of-${writer}`;
  const field = FIELDS[number % 2] ?? "reasoning";
  return {
    chat: { field, details: [{ seal }], extra_content: { seal } },
    openai: { encrypted_content: seal, type: "search" },
  };
}

function pieceOf({ type, text, isSealed, id }: Clay, number: number, writer: Key): ReplyPiece {
  const data = sealOf(number, writer);
  const sealed = isSealed ? { data } : {};
  switch (type) {
    case "reasoning":
      return { type, text: isSealed ? text : `Thought ${number}.`, ...sealed };
    case "text":
      return { type, text, ...sealed };
    case "call": {
      const argumentsText = JSON.stringify({ number });
      return { type, callId: CallIdSchema().parse(id), toolName: "look", argumentsText, ...sealed };
    }
    case "opaque":
      return { type, kind: "search", data };
  }
}

function isThought(one: Clay | undefined): boolean {
  return one?.type === "reasoning" && !one.isSealed;
}

export function told(all: readonly Turn[]): Story {
  const messages: Message[] = [
    { role: "system", text: "Work.", origin: "instructions" },
    { role: "user", text: "Do it.", origin: "task" },
  ];
  const origins = new Map<number, Origin>();
  for (const [reply, one] of all.entries()) {
    const { writer } = one;
    // Unsealed reasoning is identified by its text: two adjacent pieces would be one.
    const said = one.clay.filter(
      (each) => each.type !== "text" || each.isSealed || each.text !== "",
    );
    const clays = said.filter((each, at) => !isThought(each) || !isThought(said[at - 1]));
    const pieces = clays.map((each, at) => pieceOf(each, reply * 10 + at, writer));
    const calls = pieces.flatMap((piece) => (piece.type === "call" ? [piece.argumentsText] : []));
    for (const [at, piece] of pieces.entries())
      origins.set(reply * 10 + at, { piece, writer, reply, calls });
    const message = withOwnIds(buildReplyMessage(pieces), reply);
    messages.push(message.parts === undefined ? message : { ...message, writtenBy: writer });
    messages.push(...includeResultsFrom(message));
    messages.push({ role: "user", text: `And ${reply}?`, origin: "injected" });
  }
  return { messages: deepFreeze(messages), origins };
}

/** As the loop does where a server gives several calls one id. */
function withOwnIds(message: AssistantMessage, reply: number): AssistantMessage {
  const ids = message.toolCalls.map(({ callId }) => callId);
  const toolCalls = message.toolCalls.map((call, at) =>
    ids.indexOf(call.callId) === at
      ? call
      : { ...call, callId: CallIdSchema().parse(`own_${reply}_${at}`) },
  );
  const { parts } = message;
  const renamed = parts === undefined ? {} : { parts: renamePartCalls(parts, toolCalls) };
  return { ...message, toolCalls, ...renamed };
}

function includeResultsFrom({ toolCalls }: AssistantMessage): readonly Message[] {
  return toolCalls.map(({ callId, toolName }) => ({
    role: "tool",
    callId,
    toolName,
    text: "Seen.",
  }));
}

interface Edit {
  readonly kind: keyof typeof EDITS;
  readonly at: number;
  readonly text: string;
  readonly mask: number;
}

type Change = (messages: readonly Message[], edit: Edit) => readonly Message[];

function changed(
  messages: readonly Message[],
  at: number,
  change: (reply: AssistantMessage) => AssistantMessage,
): readonly Message[] {
  const places = messages.flatMap((one, place) => (one.role === "assistant" ? [place] : []));
  const chosen = places[at % Math.max(1, places.length)];
  return messages.map((one, place) =>
    place === chosen && one.role === "assistant" ? change(one) : one,
  );
}

/**
 * Some of the calls, possibly in another order, with an invented one, or with the first one twice.
 */
function someOf(calls: readonly ToolCall[], mask: number): readonly ToolCall[] {
  const left = calls.filter((_call, at) => ((mask >> at) & 1) === 1);
  const [first] = calls;
  if (mask > 12) return left.toReversed();
  if (mask > 9) return [...calls, INVENTED];
  return mask > 6 && first !== undefined ? [...calls, first] : left;
}

const INVENTED: ToolCall = {
  callId: CallIdSchema().parse("invented"),
  toolName: "look",
  argumentsText: "{}",
};

function hooked(messages: readonly Message[], patched: readonly Message[]): readonly Message[] {
  const { fitted } = getPatchContract("beforeModel");
  const shown = { instructions: "Work.", messages, steps: [] };
  const place = { point: "beforeModel", hook: "random" };
  const patch = fitted?.({ messages: patched }, shown, place);
  return patch?.messages ?? expect.fail("The patch was lost.");
}

export const EDITS = {
  hookText: (messages, { at, text }) =>
    hooked(
      messages,
      changed(messages, at, (reply) => ({ ...reply, text })),
    ),
  hookCalls: (messages, { at, mask }) =>
    hooked(
      messages,
      changed(messages, at, (reply) => ({ ...reply, toolCalls: someOf(reply.toolCalls, mask) })),
    ),
  hookBoth: (messages, { at, mask, text }) =>
    hooked(
      messages,
      changed(messages, at, (reply) => ({
        ...reply,
        text,
        toolCalls: someOf(reply.toolCalls, mask),
      })),
    ),
  hookParts: (messages, { at }) =>
    hooked(
      messages,
      changed(messages, at, ({ parts: _parts, writtenBy: _writer, ...reply }) => reply),
    ),
  /** A hook that ignores parts: it changes the length of the text and the calls. */
  stranger: (messages, { at, mask, text }) =>
    changed(messages, at, (reply) => ({
      ...reply,
      text: `${reply.text}${text}`,
      toolCalls: someOf(reply.toolCalls, mask),
    })),
  leak: (messages, { at }) =>
    changed(messages, at, (reply) => fitParts({ ...reply, text: "" }, reply)),
  loss: (messages, { at, mask }) =>
    messages.filter((_one, place) => place < 2 || (place + at) % (mask + 2) !== 0),
  repair: (messages) => repairMessages(messages).messages,
  compaction: (messages, { mask }) =>
    truncateHistory(repairMessages(messages).messages, { keepMessages: mask }),
  inheritance: (messages, { mask }) => [
    ...messages.slice(0, 1),
    ...selectInheritedMessages(repairMessages(messages).messages, {
      agentPath: "lead",
      messageWindowSize: mask,
      selectMessages: undefined,
    }),
    { role: "user", text: "Go.", origin: "task" },
  ],
  journal: (messages) =>
    MessageSchema()
      .array()
      .parse(JSON.parse(JSON.stringify(messages))),
} satisfies Record<string, Change>;

export const edits = fc.array(
  fc.record({
    kind: fc.constantFrom<(keyof typeof EDITS)[]>(
      "hookText",
      "hookCalls",
      "hookBoth",
      "hookParts",
      "stranger",
      "leak",
      "loss",
      "repair",
      "compaction",
      "inheritance",
      "journal",
    ),
    at: fc.nat({ max: 6 }),
    text: fc.constantFrom("", "***", "Another text.", "Elm?Oak. "),
    mask: fc.nat({ max: 15 }),
  }),
  { maxLength: 5, size: "max" },
);
