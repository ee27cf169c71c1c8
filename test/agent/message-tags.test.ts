// Goal: tags remain with their messages, whatever happens to a history.
// Method: the pure functions, over lists with equal and with identical messages; random
// shortenings.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import {
  collectAddedMessages,
  assignTagOwner,
  replaceMessages,
  createStoredMessages,
  appendMessages,
  type TaggedHistory,
} from "../../src/agent/message-tags.ts";
import { AgentIdSchema, ExecutionIdSchema } from "../../src/protocol/ids.ts";
import type { Message } from "../../src/protocol/message.ts";

const AGENT = AgentIdSchema().parse("agent_1");
const FIRST = { executionId: ExecutionIdSchema().parse("execution_1"), stepNumber: 0 };
const EMPTY: TaggedHistory = { messages: [], tags: [], dropped: [], added: 0 };

const note = (text: string): Message => ({ role: "user", text, origin: "notice" });

test("appending no messages returns the same history", () => {
  expect(appendMessages(EMPTY, [], FIRST)).toBe(EMPTY);
});

test("the same object twice in a history counts as two messages", () => {
  const twice = note("Go on.");
  const history = appendMessages(EMPTY, [twice, note("Stop."), twice], FIRST);
  const ids = (list: readonly Message[]): readonly number[] =>
    replaceMessages(history, list, FIRST).tags.map(({ number }) => number);
  expect(ids([twice, twice])).toEqual([1, 3]);
  expect(ids([twice])).toEqual([1]);
  expect(ids(history.messages)).toEqual([1, 2, 3]);
});

test("a copy of a message counts as another message, and the original as left out", () => {
  const history = appendMessages(EMPTY, [note("Long."), note("Stop.")], FIRST);
  const shorter = replaceMessages(history, [note("Long."), ...history.messages.slice(1)], FIRST);
  expect(shorter.tags).toEqual([
    { ...FIRST, number: 3, note: "left_out" },
    { ...FIRST, number: 2 },
  ]);
  expect(collectAddedMessages(shorter, AGENT).map(({ messageId }) => messageId)).toEqual([
    "execution_1.m1",
    "execution_1.m2",
  ]);
});

test("added messages are reported once in order with unique ids, whatever is left out", () => {
  const cuts = fc.array(
    fc.record({
      keep: fc.array(fc.boolean(), { maxLength: 12 }),
      notes: fc.nat(2),
      more: fc.nat(3),
    }),
    { maxLength: 6 },
  );
  fc.assert(
    fc.property(cuts, (list) => {
      const others = assignTagOwner(appendMessages(EMPTY, [note("old")], FIRST).tags, AGENT);
      let history: TaggedHistory = { ...EMPTY, messages: [note("old")], tags: others };
      const said: string[] = [];
      for (const [round, { keep, notes, more }] of list.entries()) {
        const texts = Array.from({ length: more }, (_, index) => `${round}.${index}`);
        said.push(...texts);
        history = appendMessages(history, texts.map(note), { ...FIRST, stepNumber: round });
        const kept = history.messages.filter((_message, index) => keep[index] ?? true);
        const digest = Array.from({ length: notes }, (_, index) => note(`note ${round}.${index}`));
        history = replaceMessages(history, [...digest, ...kept], { ...FIRST, stepNumber: round });
      }
      expect(history.tags).toHaveLength(history.messages.length);
      expect(collectAddedMessages(history, AGENT).map(({ text }) => text)).toEqual(said);
      const own = createStoredMessages(history, AGENT).filter(({ text }) => text !== "old");
      const ids = own.map(({ messageId }) => messageId);
      expect(new Set(ids).size).toBe(ids.length);
      expect(
        own.every(({ text, note: kind }) => text.startsWith("note") === (kind !== undefined)),
      ).toBe(true);
    }),
  );
});
