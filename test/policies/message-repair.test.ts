// Goal: a list that a hook changed becomes one that a provider accepts, with minimal changes, and
// every change is reported.
// Method: a table of broken lists, their repaired forms and the reports.

import { expect, test } from "vitest";

import { repairMessages, type MessageRepair } from "../../src/policies/message-repair.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import type { Message } from "../../src/protocol/message.ts";
import { findMessageProblems } from "../../src/testing/check-messages.ts";
import { toolCall } from "../support/changes.ts";

const SYSTEM: Message = { role: "system", text: "Work.", origin: "instructions" };
const LATE: Message = { role: "system", text: "Be brief.", origin: "injected" };
const USER: Message = { role: "user", text: "Do it.", origin: "task" };
const GO_ON: Message = { role: "user", text: "Continue.", origin: "notice" };

function calls(...ids: readonly string[]): Message {
  return { role: "assistant", text: "", toolCalls: ids.map((id) => toolCall(id)) };
}

function result(id: string, text = "found"): Message {
  const { callId, toolName } = toolCall(id);
  return { role: "tool", callId, toolName, text };
}

function lost(id: string): Message {
  return result(id, "The result of this call is no longer available.");
}

type CallRepair = Extract<MessageRepair, { readonly callId: unknown }>["type"];

function of(type: CallRepair, id: string): MessageRepair {
  return { type, callId: CallIdSchema().parse(id) };
}

interface Broken {
  readonly what: string;
  readonly given: readonly Message[];
  readonly messages: readonly Message[];
  readonly repairs: readonly MessageRepair[];
}

const BROKEN: readonly Broken[] = [
  {
    what: "drops a result whose call is gone",
    given: [SYSTEM, USER, calls(), result("a"), USER],
    messages: [SYSTEM, USER, calls(), USER],
    repairs: [of("dropped_result", "a")],
  },
  {
    what: "adds a notice for a call whose result is gone",
    given: [USER, calls("a", "b"), result("a"), USER],
    messages: [USER, calls("a", "b"), result("a"), lost("b"), USER],
    repairs: [of("added_result", "b")],
  },
  {
    what: "adds a result for a call at the end, and no notice",
    given: [USER, calls("a")],
    messages: [USER, calls("a"), lost("a")],
    repairs: [of("added_result", "a")],
  },
  {
    what: "keeps the first of two results of one call",
    given: [USER, calls("a"), result("a", "first"), result("a", "second")],
    messages: [USER, calls("a"), result("a", "first")],
    repairs: [of("dropped_result", "a")],
  },
  {
    what: "keeps the first of two calls of one id in a reply",
    given: [USER, calls("a", "b", "a"), result("a"), result("b"), result("a", "again")],
    messages: [USER, calls("a", "b"), result("a"), result("b")],
    repairs: [of("dropped_result", "a"), of("dropped_call", "a")],
  },
  {
    what: "sorts results into call order",
    given: [USER, calls("a", "b", "c"), result("b"), result("a"), result("c")],
    messages: [USER, calls("a", "b", "c"), result("a"), result("b"), result("c")],
    repairs: [of("moved_result", "a"), of("moved_result", "b")],
  },
  {
    what: "moves a separated result up to its reply",
    given: [USER, calls("a", "b"), result("a"), USER, result("b")],
    messages: [USER, calls("a", "b"), result("a"), result("b"), USER],
    repairs: [of("moved_result", "b")],
  },
  {
    what: "reports no moved result behind a missing one",
    given: [USER, calls("a", "b", "c"), result("b"), result("c")],
    messages: [USER, calls("a", "b", "c"), lost("a"), result("b"), result("c")],
    repairs: [of("added_result", "a")],
  },
  {
    what: "drops a result before its call",
    given: [USER, result("a"), calls("a")],
    messages: [USER, calls("a"), lost("a")],
    repairs: [of("dropped_result", "a"), of("added_result", "a")],
  },
  {
    what: "assigns a result of an id in two replies to the nearest one before it",
    given: [USER, calls("a"), USER, calls("a"), result("a"), result("a", "again")],
    messages: [USER, calls("a"), lost("a"), USER, calls("a"), result("a")],
    repairs: [of("dropped_result", "a"), of("added_result", "a")],
  },
  {
    what: "moves instructions in the middle to the top, even from between call and result",
    given: [SYSTEM, USER, calls("a"), LATE, result("a")],
    messages: [SYSTEM, LATE, USER, calls("a"), result("a")],
    repairs: [{ type: "moved_system_message" }],
  },
  {
    what: "adds a message to answer after a final answer",
    given: [SYSTEM, USER, calls()],
    messages: [SYSTEM, USER, calls(), GO_ON],
    repairs: [{ type: "added_notice" }],
  },
  {
    what: "adds a message to answer to instructions alone",
    given: [SYSTEM],
    messages: [SYSTEM, GO_ON],
    repairs: [{ type: "added_notice" }],
  },
  {
    what: "adds a message to answer to an empty list",
    given: [],
    messages: [GO_ON],
    repairs: [{ type: "added_notice" }],
  },
];

for (const { what, given, messages, repairs } of BROKEN) {
  test(what, () => {
    const before = JSON.stringify(given);
    expect(repairMessages(given)).toEqual({ messages, repairs });
    expect(findMessageProblems(messages)).toEqual([]);
    expect(JSON.stringify(given)).toBe(before);
  });
}

test("returns a valid list unchanged", () => {
  for (const { messages } of BROKEN) {
    const repaired = repairMessages(messages);
    expect(repaired.messages).toBe(messages);
    expect(repaired.repairs).toEqual([]);
  }
});

test("drops the second occurrence of one call object in a reply", () => {
  const call = toolCall("a");
  const reply: Message = { role: "assistant", text: "", toolCalls: [call, call] };
  expect(repairMessages([USER, reply, result("a")])).toEqual({
    messages: [USER, calls("a"), result("a")],
    repairs: [of("dropped_call", "a")],
  });
});

test("returns intact messages by identity, and keeps all other fields of replies", () => {
  const reply = {
    role: "assistant",
    text: "Both.",
    toolCalls: [toolCall("a"), toolCall("a")],
    refusal: "Not all.",
  } as const;
  const given: readonly Message[] = [SYSTEM, USER, reply, USER, result("a")];
  const { messages } = repairMessages(given);
  expect(messages[0]).toBe(given[0]);
  expect(messages[1]).toBe(given[1]);
  expect(messages[2]).toEqual({ ...reply, toolCalls: [toolCall("a")] });
  expect(messages[3]).toBe(given[4]);
});

test("reports repairs as plain values", () => {
  for (const { given } of BROKEN) {
    const { repairs } = repairMessages(given);
    expect(JSON.parse(JSON.stringify(repairs))).toEqual(repairs);
  }
});
