// Goal: a history is truncated from its old end, in whole groups, without losing instructions and
// task, and contains a notice of it.
// Method: one hand-written history at every length, and the edge cases one by one.

import { expect, test } from "vitest";

import { truncateHistory } from "../../src/policies/truncate-history.ts";
import type { Message, MessageOrigin } from "../../src/protocol/message.ts";
import { findMessageProblems } from "../../src/testing/check-messages.ts";
import { toolCall } from "../support/changes.ts";

function user(text: string, origin: MessageOrigin = "injected"): Message {
  return { role: "user", text, origin };
}

function calls(...ids: readonly string[]): Message {
  return { role: "assistant", text: "", toolCalls: ids.map((id) => toolCall(id)) };
}

function result(id: string): Message {
  const { callId, toolName } = toolCall(id);
  return { role: "tool", callId, toolName, text: "found" };
}

function dropped(count: number): Message {
  const text = `Earlier messages were removed here to save space: ${count}. Request again what you still need.`;
  return user(text, "notice");
}

const SYSTEM: Message = { role: "system", text: "Work.", origin: "instructions" };
const TASK = user("Do it.", "task");
const PAIR = [calls("a"), result("a")];
const TRIPLE = [calls("b", "c"), result("b"), result("c")];
const HINT = user("Mind the gap.");
const LAST = [calls("d"), result("d")];
const HISTORY = [SYSTEM, TASK, ...PAIR, ...TRIPLE, HINT, ...LAST];

const LENGTHS: readonly (readonly [number, readonly Message[]])[] = [
  [0, [SYSTEM, TASK, dropped(6), ...LAST]],
  [1, [SYSTEM, TASK, dropped(6), ...LAST]],
  [2, [SYSTEM, TASK, dropped(6), ...LAST]],
  [3, [SYSTEM, TASK, dropped(5), HINT, ...LAST]],
  [5, [SYSTEM, TASK, dropped(5), HINT, ...LAST]],
  [6, [SYSTEM, TASK, dropped(2), ...TRIPLE, HINT, ...LAST]],
  [7, [SYSTEM, TASK, dropped(2), ...TRIPLE, HINT, ...LAST]],
];

for (const [keepMessages, expected] of LENGTHS) {
  test(`keeps the last whole groups that fit into ${keepMessages} messages`, () => {
    const before = JSON.stringify(HISTORY);
    const truncated = truncateHistory(HISTORY, { keepMessages });
    expect(truncated).toEqual(expected);
    expect(findMessageProblems(truncated)).toEqual([]);
    expect(JSON.stringify(HISTORY)).toBe(before);
  });
}

test("returns a history that fits unchanged", () => {
  for (const keepMessages of [8, 100]) {
    expect(truncateHistory(HISTORY, { keepMessages })).toBe(HISTORY);
  }
  for (const short of [[], [SYSTEM], [TASK], [SYSTEM, TASK], [SYSTEM, TASK, ...TRIPLE]])
    expect(truncateHistory(short, { keepMessages: 0 })).toBe(short);
});

test("drops inherited messages before those after the task, and places the notice where they were", () => {
  const inherited = [user("Once.", "inherited"), user("Twice.", "inherited")];
  const messages = [SYSTEM, SYSTEM, ...inherited, TASK, ...PAIR];
  expect(truncateHistory(messages, { keepMessages: 3 })).toEqual([
    SYSTEM,
    SYSTEM,
    dropped(1),
    user("Twice.", "inherited"),
    TASK,
    ...PAIR,
  ]);
  expect(truncateHistory(messages, { keepMessages: 2 })).toEqual([
    SYSTEM,
    SYSTEM,
    TASK,
    dropped(2),
    ...PAIR,
  ]);
});

test("keeps only the current task permanently, and without a task only the instructions", () => {
  const next = user("And now?", "task");
  expect(truncateHistory([TASK, next, HINT], { keepMessages: 1 })).toEqual([
    next,
    dropped(1),
    HINT,
  ]);
  expect(truncateHistory([SYSTEM, HINT, HINT], { keepMessages: 1 })).toEqual([
    SYSTEM,
    dropped(1),
    HINT,
  ]);
  expect(truncateHistory([HINT, ...PAIR], { keepMessages: 1 })).toEqual([dropped(1), ...PAIR]);
});

test("keeps a task at the end at the end", () => {
  expect(truncateHistory([SYSTEM, HINT, HINT, TASK], { keepMessages: 1 })).toEqual([
    SYSTEM,
    dropped(1),
    HINT,
    TASK,
  ]);
});

test("replaces the last notice by the next, with the added number", () => {
  const once = truncateHistory(HISTORY, { keepMessages: 6 });
  const grown = [...once, user("More."), calls("e"), result("e")];
  const twice = truncateHistory(grown, { keepMessages: 3 });
  expect(twice).toEqual([SYSTEM, TASK, dropped(8), user("More."), calls("e"), result("e")]);
  expect(truncateHistory(twice, { keepMessages: 3 })).toBe(twice);
  expect(truncateHistory(grown, { keepMessages: 9 })).toBe(grown);
});

test("counts no notice as a message to keep, and recognises only its own notices", () => {
  const withNotice = [SYSTEM, TASK, dropped(4), ...PAIR];
  expect(truncateHistory(withNotice, { keepMessages: 2 })).toBe(withNotice);
  const lookalike = user("Earlier messages were removed here to save space: 9.", "injected");
  expect(truncateHistory([TASK, lookalike, ...PAIR], { keepMessages: 2 })).toEqual([
    TASK,
    dropped(1),
    ...PAIR,
  ]);
});

test("keeps a notice that ends the list, which may be the only message to answer", () => {
  const messages = [TASK, HINT, calls(), dropped(3)];
  const truncated = truncateHistory(messages, { keepMessages: 1 });
  expect(truncated).toEqual([TASK, dropped(2), dropped(3)]);
});
