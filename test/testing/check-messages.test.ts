// Goal: a list of messages that a provider would refuse is reported with the position of the fault;
// a valid list is accepted.
// Method: a table of lists.

import { expect, test } from "vitest";

import type { Message } from "../../src/protocol/message.ts";
import { findMessageProblems } from "../../src/testing/check-messages.ts";
import { toolCall } from "../support/changes.ts";

const SYSTEM: Message = { role: "system", text: "Work.", origin: "instructions" };
const USER: Message = { role: "user", text: "Do it.", origin: "task" };

function calls(...ids: readonly string[]): Message {
  return { role: "assistant", text: "", toolCalls: ids.map((id) => toolCall(id)) };
}

function result(id: string): Message {
  const { callId, toolName } = toolCall(id);
  return { role: "tool", callId, toolName, text: "" };
}

const GOOD: readonly (readonly [string, readonly Message[]])[] = [
  ["a task", [USER]],
  ["instructions and a task", [SYSTEM, USER]],
  ["several instructions", [SYSTEM, SYSTEM, USER]],
  ["a call with its result", [SYSTEM, USER, calls("a"), result("a")]],
  [
    "two calls with their results, then another task",
    [USER, calls("a", "b"), result("a"), result("b"), USER],
  ],
  ["an answer between tasks", [USER, calls(), USER]],
  ["one id in two replies", [USER, calls("a"), result("a"), calls("a"), result("a")]],
];

for (const [what, messages] of GOOD) {
  test(`accepts ${what}`, () => {
    expect(findMessageProblems(messages)).toEqual([]);
  });
}

const BAD: readonly (readonly [string, readonly Message[], readonly string[]])[] = [
  ["nothing", [], ["the list ends with nothing"]],
  ["instructions alone", [SYSTEM], ["the list ends with system"]],
  ["an answer at the end", [USER, calls()], ["the list ends with assistant"]],
  [
    "a call without result at the end",
    [USER, calls("a")],
    ["call a has no result", "the list ends with assistant"],
  ],
  [
    "a call without result before a task",
    [USER, calls("a"), USER],
    ["call a has no result before message 2"],
  ],
  ["one of two results missing", [USER, calls("a", "b"), result("a")], ["call b has no result"]],
  [
    "results in the wrong order",
    [USER, calls("a", "b"), result("b"), result("a")],
    ["message 2 answers b, expected a", "call b has no result"],
  ],
  ["a result without a call", [USER, result("a")], ["message 1 answers a, expected no result"]],
  [
    "a result that comes twice",
    [USER, calls("a"), result("a"), result("a")],
    ["message 3 answers a, expected no result"],
  ],
  [
    "a result after a task came between",
    [USER, calls("a"), USER, result("a")],
    ["call a has no result before message 2", "message 3 answers a, expected no result"],
  ],
  [
    "instructions in the middle",
    [USER, SYSTEM, USER],
    ["message 1 is a system message after others"],
  ],
  [
    "two calls of one id",
    [USER, calls("a", "a"), result("a"), result("a")],
    ["message 1 has two calls of one id"],
  ],
];

for (const [what, messages, problems] of BAD) {
  test(`reports ${what}`, () => {
    expect(findMessageProblems(messages)).toEqual(problems);
  });
}
