// Goal: pieces and messages say the same both ways, and whatever was made of a message since, its pieces say what it says now.
// Method: one reply with every kind of piece, and all that may happen to a message; whole values compared.

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
} from "../../src/model/written-by.ts";
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

/** A model that takes back what was written under this key. */
const reader = (replayKey: string) => ({ provider: "", id: "", replayKey });

describe("a message of pieces", () => {
  proves(["M1"], "keeps all of them in their order, and gives them back as they were", () => {
    const message = buildReplyMessage(PIECES);
    expect(message).toEqual(WHOLE);
    expect(getReplyPieces(message)).toEqual(PIECES);
    expect(JSON.stringify(buildReplyMessage(getReplyPieces(message)))).toBe(
      JSON.stringify(message),
    );
    expect(unfrozenParts(message).filter((path) => !path.includes(".data"))).toEqual([]);
    expect(MessageSchema().parse(JSON.parse(JSON.stringify(STAMPED)))).toEqual(STAMPED);
  });

  test("has no parts if it says text and then calls, and nothing else", () => {
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

  test("has parts if a text stands behind a call, though neither has data", () => {
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

  test("joins what has no data and stands side by side; an empty text with data is kept, for a signature", () => {
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

  test("counts a text as strings do, whatever is in it", () => {
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

/** What a message that was made from the whole one says, as it is kept and as it goes out. */
function madeOf(change: Partial<AssistantMessage>): readonly ReplyPiece[] {
  const made = { ...STAMPED, ...change };
  const pieces = getReplyPieces(fitParts(made, STAMPED));
  // Changing a message without fitting its parts has the same result.
  expect(getReplyPieces(made)).toEqual(pieces);
  return pieces;
}

describe("the rule for pairs", () => {
  proves(["M3"], "nothing happened: the parts go out, in order", () => {
    expect(madeOf({})).toEqual(PIECES);
    expect(fitParts(STAMPED, STAMPED)).toBe(STAMPED);
  });

  proves(["M3"], "another text stands where the first one was, without its data", () => {
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

  proves(["M3"], "another text of the same length has no data of the first one either", () => {
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

  proves(["M3"], "reasoning before a text that is gone stays apart from that behind it", () => {
    const [one, two] = ["Oak?", "Elm."].map((text) => ({ type: "reasoning", text }) as const);
    const pieces = [one, MORE, two, TWO].flatMap((piece) => piece ?? []);
    const message = buildReplyMessage(pieces);
    const silent = fitParts({ ...message, text: "" }, message);
    expect(getReplyPieces(silent)).toEqual([one, two, TWO]);
  });

  proves(["M3"], "a text that there was none of stands at the end", () => {
    const silent = { ...buildReplyMessage([THOUGHT, ONE]), writtenBy: "acme/one" };
    const made = fitParts({ ...silent, text: "Now." }, silent);
    expect(getReplyPieces(made)).toEqual([THOUGHT, ONE, { type: "text", text: "Now." }]);
  });

  proves(["M3"], "a text that is gone leaves reasoning and calls as they are", () => {
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
    proves(["M3"], `${what}: text and calls go out alone`, () => {
      const plain = toolCalls.map((one) => ({ type: "call", ...one }) as const);
      expect(madeOf({ toolCalls })).toEqual([{ type: "text", text: WHOLE.text }, ...plain]);
      const { parts: _parts, writtenBy: _writer, ...bare } = STAMPED;
      expect(fitParts({ ...STAMPED, toolCalls }, STAMPED)).toEqual({ ...bare, toolCalls });
      expect(madeOf({ toolCalls, text: "" })).toEqual(plain);
    });

  proves(
    ["M3"],
    "parts are renamed with their calls, by their place, also if two had one id",
    () => {
      const twins = buildReplyMessage([THOUGHT, ONE, AGAIN, { ...TWO, ...call("c1") }]);
      const toolCalls = [call("c1"), call("step.2")];
      const parts = renamePartCalls(twins.parts ?? [], toolCalls);
      expect(getReplyPieces({ ...twins, toolCalls, parts })).toEqual([
        THOUGHT,
        ONE,
        AGAIN,
        { type: "call", ...call("step.2") },
      ]);
    },
  );

  proves(["M3"], "reasoning with nothing behind it does not go out", () => {
    expect(getReplyPieces(buildReplyMessage([THOUGHT, MORE, AGAIN]))).toEqual([THOUGHT, MORE]);
    expect(getReplyPieces(buildReplyMessage([THOUGHT, AGAIN]))).toEqual([]);
    const lone = buildReplyMessage([THOUGHT, MORE]);
    expect(getReplyPieces(fitParts({ ...lone, text: "" }, lone))).toEqual([]);
    expect(getReplyPieces(buildReplyMessage([THOUGHT, SEARCHED]))).toEqual([THOUGHT, SEARCHED]);
  });

  test("a part of a later release stays in the message, and goes to no provider", () => {
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

describe("whose parts they are", () => {
  const foreign: AssistantMessage = { ...STAMPED, writtenBy: "acme/two" };
  const plain: Message = { role: "user", text: "Go.", origin: "task" };
  const bare = { role: "assistant", text: WHOLE.text, toolCalls: WHOLE.toolCalls } as const;

  proves(["M2"], "another model sees text and calls alone, the writer all of it", () => {
    const history = [plain, STAMPED, foreign, bare];
    expect(toHistory(history, reader("acme/one"))).toEqual([plain, STAMPED, bare, bare]);
    expect(toHistory(history, reader("acme/two"))).toEqual([plain, bare, foreign, bare]);
    expect(toHistory(history, reader("acme/three"))).toEqual([plain, bare, bare, bare]);
    expect(toHistory([WHOLE], reader("acme/one"))).toEqual([bare]);
    expect(history[1]).toBe(STAMPED);
  });

  proves(["M4"], "a message is always seen as the same value, so that texts of it are kept", () => {
    const [first] = toHistory([STAMPED], reader("acme/two"));
    expect(toHistory([plain, STAMPED], reader("acme/three"))[1]).toBe(first);
    const own = [plain, STAMPED];
    expect(toHistory(own, reader("acme/one"))).toBe(own);
    expect(unfrozenParts(first).filter((path) => path === "value")).toEqual([]);
  });

  test("the key of a model is its own, or provider and id", () => {
    expect([
      toReplayKey({ provider: "acme", id: "one" }),
      toReplayKey({ provider: "acme", id: "one", replayKey: "acme/one@west" }),
    ]).toEqual(["acme/one", "acme/one@west"]);
  });

  test("textOnly leaves texts, calls and results; withoutData leaves what people can read", () => {
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

proves(["M2"], "a list that grows is looked through again", () => {
  const messages: Message[] = [{ role: "user", text: "Go.", origin: "task" }];
  expect(toHistory(messages, reader("a/m"))).toBe(messages);
  const parts = [{ type: "reasoning", text: "Hm." } as const, { type: "text", length: 4 } as const];
  const reply = { role: "assistant", text: "Oak.", toolCalls: [] } as const;
  messages.push({ ...reply, parts, writtenBy: "b/m" });
  expect(toHistory(messages, reader("a/m"))).toEqual([messages[0], reply]);
});
