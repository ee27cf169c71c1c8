// Goal: pieces and messages convert into each other without loss, and the pieces follow later
// changes of a message.
// Method: one reply with every kind of piece, and all possible changes of a message; whole values
// are compared.

import { describe, expect, test } from "vitest";

import {
  buildReplyMessage,
  fitParts,
  renamePartCalls,
  getReplyPieces,
  type ReplyPiece,
} from "../../src/protocol/reply-message.ts";
import {
  toHistory,
  toReplayKey,
  stripToText,
  removeProviderData,
} from "../../src/model/recipient-messages.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import {
  MessageSchema,
  type AssistantMessage,
  type Message,
  type ToolCall,
} from "../../src/protocol/message.ts";
import { proves } from "../harness/proves.ts";
import { unfrozenParts } from "../support/frozen.ts";

function call(id: string, toolName = "look"): ToolCall {
  return { callId: CallIdSchema().parse(id), toolName, argumentsText: '{ "at": 1 }' };
}

function sealed(seal: string): { readonly acme: { readonly seal: string } } {
  return { acme: { seal } };
}

const THOUGHT = { type: "reasoning", text: "First I look.", data: sealed("r1") } as const;
const SPOKEN = { type: "text", text: "Looking. ", data: sealed("t1") } as const;
const SEARCHED = { type: "opaque", kind: "search", data: sealed("o1") } as const;
const MORE = { type: "text", text: "Here." } as const;
const AGAIN = { type: "reasoning", text: "", data: sealed("r2") } as const;
const ONE = { type: "call", ...call("c1"), data: sealed("c1") } as const;
const TWO = { type: "call", ...call("c2") } as const;

const PIECES: readonly ReplyPiece[] = [THOUGHT, SPOKEN, SEARCHED, MORE, AGAIN, ONE, TWO];

const WHOLE: AssistantMessage = {
  role: "assistant",
  text: "Looking. Here.",
  toolCalls: [call("c1"), call("c2")],
  parts: [
    { type: "reasoning", text: "First I look.", data: sealed("r1") },
    { type: "text", length: 9, data: sealed("t1") },
    { type: "opaque", kind: "search", data: sealed("o1") },
    { type: "text", length: 5 },
    { type: "reasoning", text: "", data: sealed("r2") },
    { type: "call", callId: CallIdSchema().parse("c1"), data: sealed("c1") },
    { type: "call", callId: CallIdSchema().parse("c2") },
  ],
};

const STAMPED: AssistantMessage = { ...WHOLE, writtenBy: "acme/one" };

/** A model that accepts data that was written under this key. */
const reader = (replayKey: string) => ({ provider: "", id: "", replayKey });

describe("a message of pieces", () => {
  proves(["M1"], "preserves all pieces in their order and returns them unchanged", () => {
    const message = buildReplyMessage(PIECES);
    expect(message).toEqual(WHOLE);
    expect(getReplyPieces(message)).toEqual(PIECES);
    expect(JSON.stringify(buildReplyMessage(getReplyPieces(message)))).toBe(
      JSON.stringify(message),
    );
    expect(unfrozenParts(message).filter((path) => !path.includes(".data"))).toEqual([]);
    expect(MessageSchema().parse(JSON.parse(JSON.stringify(STAMPED)))).toEqual(STAMPED);
  });

  test("has no parts if it is only text followed by calls", () => {
    const plain = { role: "assistant", text: "Looking.", toolCalls: [call("c1")] } as const;
    const asText = [
      { type: "text", text: "Look" },
      { type: "text", text: "" },
      { type: "text", text: "ing." },
      { type: "call", ...call("c1") },
    ] as const;
    expect(buildReplyMessage(asText)).toEqual(plain);
    expect(getReplyPieces(plain)).toEqual([{ type: "text", text: "Looking." }, ONE_BARE]);
    expect(getReplyPieces({ ...plain, text: "" })).toEqual([ONE_BARE]);
    expect(buildReplyMessage([])).toEqual({ role: "assistant", text: "", toolCalls: [] });
    expect(getReplyPieces(buildReplyMessage([]))).toEqual([]);
    expect(Object.keys(buildReplyMessage(asText))).toEqual(["role", "text", "toolCalls"]);
  });

  test("has parts if a text follows a call, even without data", () => {
    const message = buildReplyMessage([ONE_BARE, MORE]);
    expect(message).toEqual({
      role: "assistant",
      text: "Here.",
      toolCalls: [call("c1")],
      parts: [
        { type: "call", callId: "c1" },
        { type: "text", length: 5 },
      ],
    });
    expect(getReplyPieces(message)).toEqual([ONE_BARE, MORE]);
  });

  test("joins adjacent pieces without data and preserves an empty text with data", () => {
    const thoughts = ["Well, ", "", "yes."].map((text) => ({ type: "reasoning", text }) as const);
    const seal = { type: "text", text: "", data: sealed("g") } as const;
    const message = buildReplyMessage([
      ...thoughts,
      THOUGHT,
      MORE,
      { type: "text", text: "" },
      seal,
    ]);
    expect(getReplyPieces(message)).toEqual([
      { type: "reasoning", text: "Well, yes." },
      THOUGHT,
      MORE,
      seal,
    ]);
  });

  test("measures text by the length of its string, whatever characters it contains", () => {
    const pieces = [
      { type: "text", text: "\u{1F600}é", data: sealed("a") },
      { type: "reasoning", text: "hm" },
      { type: "text", text: "你\u2028", data: sealed("b") },
    ] as const;
    const kept: unknown = JSON.parse(JSON.stringify(buildReplyMessage(pieces)));
    expect(getReplyPieces(assistant(MessageSchema().parse(kept)))).toEqual(pieces);
  });
});

const ONE_BARE = { type: "call", ...call("c1") } as const;

function assistant(message: Message): AssistantMessage {
  if (message.role !== "assistant") throw new Error("Expected a reply.");
  return message;
}

/** Returns the pieces of a changed message, as it is persisted and as it is sent. */
function madeOf(change: Partial<AssistantMessage>): readonly ReplyPiece[] {
  const made = { ...STAMPED, ...change };
  const pieces = getReplyPieces(fitParts(made, STAMPED));
  // Changing a message without fitting its parts has the same result.
  expect(getReplyPieces(made)).toEqual(pieces);
  return pieces;
}

describe("the parts of a changed message", () => {
  proves(["M3"], "are sent in order if nothing changed", () => {
    expect(madeOf({})).toEqual(PIECES);
    expect(fitParts(STAMPED, STAMPED)).toBe(STAMPED);
  });

  proves(["M3"], "contain a changed text in place of the first text, without its data", () => {
    const other = { type: "text", text: "Otherwise, and longer." } as const;
    expect(madeOf({ text: other.text })).toEqual([THOUGHT, other, SEARCHED, AGAIN, ONE, TWO]);
    expect(fitParts({ ...STAMPED, text: "*" }, STAMPED)).toEqual({
      ...STAMPED,
      text: "*",
      parts: [
        WHOLE.parts?.[0],
        { type: "text", length: 1 },
        ...(WHOLE.parts ?? []).filter((_part, index) => ![0, 1, 3].includes(index)),
      ],
    });
  });

  proves(["M3"], "contain no data of the old text if the changed one has the same length", () => {
    const other = "LOOKING. HERE.";
    const fitted = fitParts({ ...STAMPED, text: other }, STAMPED);
    expect(getReplyPieces(fitted)).toEqual([
      THOUGHT,
      { type: "text", text: other },
      SEARCHED,
      AGAIN,
      ONE,
      TWO,
    ]);
  });

  proves(["M3"], "separate the reasoning before and after a removed text", () => {
    const [one, two] = ["Oak?", "Elm."].map((text) => ({ type: "reasoning", text }) as const);
    const pieces = [one, MORE, two, TWO].flatMap((piece) => piece ?? []);
    const message = buildReplyMessage(pieces);
    const silent = fitParts({ ...message, text: "" }, message);
    expect(getReplyPieces(silent)).toEqual([one, two, TWO]);
  });

  proves(["M3"], "contain an added text at the end", () => {
    const silent = { ...buildReplyMessage([THOUGHT, ONE]), writtenBy: "acme/one" };
    const made = fitParts({ ...silent, text: "Now." }, silent);
    expect(getReplyPieces(made)).toEqual([THOUGHT, ONE, { type: "text", text: "Now." }]);
  });

  proves(["M3"], "contain reasoning and calls unchanged if the text is removed", () => {
    expect(madeOf({ text: "" })).toEqual([THOUGHT, SEARCHED, AGAIN, ONE, TWO]);
  });

  const gone: readonly (readonly [string, readonly ToolCall[]])[] = [
    ["a call that is gone", [call("c2")]],
    ["all calls gone", []],
    ["calls in another order", [call("c2"), call("c1")]],
    ["a call more", [call("c1"), call("c2"), call("c3")]],
    ["a twin that is gone", [call("c1")]],
    ["another call in the place of one", [call("c1"), call("c9")]],
  ];
  for (const [what, toolCalls] of gone)
    proves(["M3"], `are replaced by plain text and calls: ${what}`, () => {
      const plain = toolCalls.map((one) => ({ type: "call", ...one }) as const);
      expect(madeOf({ toolCalls })).toEqual([{ type: "text", text: WHOLE.text }, ...plain]);
      const { parts: _parts, writtenBy: _writer, ...bare } = STAMPED;
      expect(fitParts({ ...STAMPED, toolCalls }, STAMPED)).toEqual({ ...bare, toolCalls });
      expect(madeOf({ toolCalls, text: "" })).toEqual(plain);
    });

  proves(["M3"], "are renamed with their calls by position, even if two calls had one id", () => {
    const twins = buildReplyMessage([THOUGHT, ONE, AGAIN, { ...TWO, ...call("c1") }]);
    const toolCalls = [call("c1"), call("step.2")];
    const parts = renamePartCalls(twins.parts ?? [], toolCalls);
    expect(getReplyPieces({ ...twins, toolCalls, parts })).toEqual([
      THOUGHT,
      ONE,
      AGAIN,
      { type: "call", ...call("step.2") },
    ]);
  });

  proves(["M3"], "omit reasoning that nothing follows", () => {
    expect(getReplyPieces(buildReplyMessage([THOUGHT, MORE, AGAIN]))).toEqual([THOUGHT, MORE]);
    expect(getReplyPieces(buildReplyMessage([THOUGHT, AGAIN]))).toEqual([]);
    const lone = buildReplyMessage([THOUGHT, MORE]);
    expect(getReplyPieces(fitParts({ ...lone, text: "" }, lone))).toEqual([]);
    expect(getReplyPieces(buildReplyMessage([THOUGHT, SEARCHED]))).toEqual([THOUGHT, SEARCHED]);
  });

  test("contain a part of a later release, which is sent to no provider", () => {
    const later: unknown = JSON.parse('{"type":"dream","text":"~","data":{"acme":{"seal":"d"}}}');
    const stored = MessageSchema().parse({ ...STAMPED, parts: [later, ...(STAMPED.parts ?? [])] });
    expect(assistant(stored).parts?.[0]).toEqual(later);
    expect(getReplyPieces(assistant(stored))).toEqual(PIECES);
    const last = MessageSchema().parse({
      ...buildReplyMessage([THOUGHT]),
      parts: [WHOLE.parts?.[0], later],
    });
    expect(getReplyPieces(assistant(last))).toEqual([]);
    expect(JSON.stringify(removeProviderData(assistant(stored)))).not.toMatch(/seal|dream/u);
  });
});

describe("a history with parts of several models", () => {
  const foreign: AssistantMessage = { ...STAMPED, writtenBy: "acme/two" };
  const plain: Message = { role: "user", text: "Go.", origin: "task" };
  const bare = { role: "assistant", text: WHOLE.text, toolCalls: WHOLE.toolCalls } as const;

  proves(["M2"], "contains parts only for the model that wrote them", () => {
    const history = [plain, STAMPED, foreign, bare];
    expect(toHistory(history, reader("acme/one"))).toEqual([plain, STAMPED, bare, bare]);
    expect(toHistory(history, reader("acme/two"))).toEqual([plain, bare, foreign, bare]);
    expect(toHistory(history, reader("acme/three"))).toEqual([plain, bare, bare, bare]);
    expect(toHistory([WHOLE], reader("acme/one"))).toEqual([bare]);
    expect(history[1]).toBe(STAMPED);
  });

  proves(
    ["M4"],
    "contains the same value of a message each time, so cached texts stay valid",
    () => {
      const [first] = toHistory([STAMPED], reader("acme/two"));
      expect(toHistory([plain, STAMPED], reader("acme/three"))[1]).toBe(first);
      const own = [plain, STAMPED];
      expect(toHistory(own, reader("acme/one"))).toBe(own);
      expect(unfrozenParts(first).filter((path) => path === "value")).toEqual([]);
    },
  );

  test("uses the replay key of a model, or its provider and id", () => {
    expect([
      toReplayKey({ provider: "acme", id: "one" }),
      toReplayKey({ provider: "acme", id: "one", replayKey: "acme/one@west" }),
    ]).toEqual(["acme/one", "acme/one@west"]);
  });

  test("is reduced by `stripToText` to text, and by `removeProviderData` to readable parts", () => {
    const result: Message = {
      role: "tool",
      callId: call("c1").callId,
      toolName: "look",
      text: "Seen.",
    };
    expect(stripToText([plain, STAMPED, result])).toEqual([plain, bare, result]);
    expect(removeProviderData(bare)).toBe(bare);
    expect(removeProviderData(STAMPED)).toEqual({
      ...bare,
      parts: [
        { type: "reasoning", text: "First I look." },
        { type: "text", length: 9 },
        { type: "text", length: 5 },
        { type: "reasoning", text: "" },
        { type: "call", callId: "c1" },
        { type: "call", callId: "c2" },
      ],
    });
  });
});

proves(["M2"], "computes the history of a list again when the list has grown", () => {
  const messages: Message[] = [{ role: "user", text: "Go.", origin: "task" }];
  expect(toHistory(messages, reader("a/m"))).toBe(messages);
  const parts = [{ type: "reasoning", text: "Hm." } as const, { type: "text", length: 4 } as const];
  const reply = { role: "assistant", text: "Oak.", toolCalls: [] } as const;
  messages.push({ ...reply, parts, writtenBy: "b/m" });
  expect(toHistory(messages, reader("a/m"))).toEqual([messages[0], reply]);
});
