// Goal: reading a state makes nothing up and changes nothing.
// Method: every question on a state in each part of the life cycle.

import { expect, test } from "vitest";

import {
  lastTextOf,
  openStepOf,
  pendingCallsOf,
  pendingState,
} from "../../src/agent/agent-state.ts";
import { proves } from "../harness/proves.ts";
import {
  after,
  changes,
  executionOf,
  opening,
  replyOf,
  states,
  STEP_ID,
} from "../support/changes.ts";
import { thrownBy } from "../support/thrown.ts";

proves(
  ["R37", "R38"],
  "asking for the open step where there is none throws, before, between and after steps",
  () => {
    const { pending, running, stepped, completed } = states();
    for (const state of [pending, running, stepped, completed]) {
      expect(thrownBy(() => openStepOf(state))).toEqual({
        code: "invalid_state",
        message: `Expected an open step, got a ${state.status} execution without one. Read steps after openStep and before recordStep.`,
        data: { status: state.status },
      });
    }
  },
);

test("the open step is the one that was opened", () => {
  expect(openStepOf(states().replied).stepId).toBe(STEP_ID);
});

proves(["R38"], "questions to a state create nothing in it", () => {
  for (const state of Object.values(states())) {
    const before = structuredClone(state);
    pendingCallsOf(state);
    lastTextOf(state);
    expect(state).toEqual(before);
  }
});

test("pending calls are those of the open reply without a result, in call order", () => {
  const { pending, open, replied, answered, stepped } = states();
  const calls = changes().recordReply.reply.message.toolCalls;
  const [first, second] = calls;
  if (first === undefined || second === undefined) throw new Error("two calls");
  expect([pending, open, answered, stepped].map((state) => pendingCallsOf(state))).toEqual([
    [],
    [],
    [],
    [],
  ]);
  expect(pendingCallsOf(replied)).toEqual(calls);
  const half = after(replied, { type: "recordExecutions", executions: [executionOf(second)] });
  expect(pendingCallsOf(half)).toEqual([first]);
});

test("the last text is the last one that the model wrote, replies without text passed over", () => {
  const { running, replied } = states();
  const { openStep, recordReply, recordStep } = changes();
  expect(lastTextOf(running)).toBe("");
  expect(lastTextOf(replied)).toBe("Let me see.");
  const silent = { ...recordReply, reply: replyOf("") };
  expect(lastTextOf(after(replied, recordStep, { ...openStep, number: 2 }, silent))).toBe(
    "Let me see.",
  );
});

test("of several texts the last one counts, also while a step is open that has none yet", () => {
  const { replied } = states();
  const { openStep, recordReply, recordStep } = changes();
  const second = { ...recordReply, reply: replyOf("Found it.") };
  const twice = after(replied, recordStep, { ...openStep, number: 2 }, second, recordStep);
  const third = after(twice, { ...openStep, number: 3 });
  expect([lastTextOf(twice), lastTextOf(third)]).toEqual(["Found it.", "Found it."]);
});

// A child that inherits its parent's messages and fails before it has said a word has said nothing.
test("what an agent inherited from its parent is not its own last text", () => {
  const inherited = replyOf("What the parent said.").message;
  const [system, task] = opening();
  if (system === undefined || task === undefined) throw new Error("two messages");
  const born = pendingState({
    messages: [system, inherited, task],
    prefix: { messageCount: 0, tokens: 0 },
  });
  const { markStarted, openStep, failWith, recordStep, end } = changes();
  const failed = after(born, markStarted, openStep, failWith, recordStep, {
    ...end,
    status: "failed",
  });
  expect(lastTextOf(failed)).toBe("");
});

test("what was said in the execution before is not the last text of the next one", () => {
  const { completed } = states();
  const { nextExecution, markStarted } = changes();
  expect(lastTextOf(after(completed, nextExecution, markStarted))).toBe("");
});
