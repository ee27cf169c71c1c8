// Goal: reading a state invents no values and changes nothing.
// Method: every getter on a state in each part of the life cycle.

import { expect, test } from "vitest";

import {
  hasReply,
  hasAllResults,
  getLastText,
  getOpenStep,
  getPausedChildren,
  getPendingCalls,
  createPendingState,
  findAskedQuestions,
} from "../../src/agent/agent-state.ts";
import { proves } from "../harness/proves.ts";
import {
  after,
  changes,
  opening,
  questionAbout,
  replyOf,
  states,
  STEP_ID,
  subagentOn,
  twoCalls,
} from "../support/changes.ts";
import { thrownBy } from "../support/thrown.ts";

const QUESTIONS = [
  hasReply,
  hasAllResults,
  getLastText,
  getPausedChildren,
  getPendingCalls,
  findAskedQuestions,
] as const;

proves(["R37", "R38"], "`getOpenStep` throws before, between and after steps", () => {
  const { pending, running, stepped, rested, completed } = states();
  for (const state of [pending, running, stepped, rested, completed]) {
    expect(thrownBy(() => getOpenStep(state))).toEqual({
      code: "invalid_state",
      message: `Cannot read the open step: the ${state.status} execution has none. Read it after openStep and before recordStep.`,
      data: { status: state.status },
    });
  }
});

test("`getOpenStep` returns the step that was opened", () => {
  expect(getOpenStep(states().replied).stepId).toBe(STEP_ID);
});

proves(["R38"], "getters do not change the state", () => {
  for (const state of Object.values(states())) {
    const before = structuredClone(state);
    for (const ask of QUESTIONS) ask(state);
    expect(state).toEqual(before);
  }
});

test("`getPendingCalls` returns the calls of the open reply without a result, in call order", () => {
  const [first, second] = twoCalls();
  const { replied, deferred, waiting, ...others } = states();
  expect(getPendingCalls(replied)).toEqual([first, second]);
  expect([deferred, waiting].map(getPendingCalls)).toEqual([[first], [first]]);
  for (const [name, state] of Object.entries(others))
    expect(getPendingCalls(state), name).toEqual([]);
});

test("`hasAllResults` is true if every call has its result and the history has none", () => {
  const { answered, ...others } = states();
  expect(hasAllResults(answered)).toBe(true);
  for (const [name, state] of Object.entries(others))
    expect(hasAllResults(state), name).toBe(false);
});

test("`hasReply` is true from the reply to the record of its step, including a pause", () => {
  const having = Object.entries(states()).filter(([, state]) => hasReply(state));
  expect(having.map(([name]) => name)).toEqual([
    "spoken",
    "discarded",
    "replied",
    "deferred",
    "answered",
    "applied",
    "waiting",
  ]);
});

test("a pause between steps has no open step, and one within a step has", () => {
  const { rested, deferred, waiting } = states();
  expect([rested.step, waiting.step]).toEqual([undefined, deferred.step]);
  expect(getOpenStep(waiting).stepId).toBe(STEP_ID);
  expect(thrownBy(() => getOpenStep(rested)).code).toBe("invalid_state");
});

test("an agent waits for the questions and subagents of its open calls, and the subagents of its subtasks", () => {
  const { waiting, replied } = states();
  const { pause, recordSubtasks } = changes();
  const [first, second] = twoCalls();
  const question = questionAbout(first);
  if (question.type !== "question") throw new Error("a question");
  expect([findAskedQuestions(waiting), getPausedChildren(waiting)]).toEqual([
    [question.question],
    [],
  ]);
  const deferrals = [question, subagentOn(second)];
  const both = after(replied, { type: "recordExecutions", executions: [], deferrals }, pause);
  expect(findAskedQuestions(both)).toEqual([question.question]);
  expect(getPausedChildren(both)).toEqual(["agent_of_call_2"]);
  const three = after(both, { type: "resume" }, recordSubtasks, pause);
  expect(getPausedChildren(three)).toEqual(["agent_of_call_2", "agent_2"]);
  const { pending, completed } = states();
  for (const state of [pending, completed])
    expect([findAskedQuestions(state), getPausedChildren(state)]).toEqual([[], []]);
});

test("`getLastText` returns the last text of the model, and skips replies without text", () => {
  const { running, replied, waiting, applied } = states();
  const { openStep, recordReply, recordStep } = changes();
  expect(getLastText(running)).toBe("");
  expect([getLastText(replied), getLastText(waiting)]).toEqual(["Let me see.", "Let me see."]);
  const silent = { ...recordReply, reply: replyOf("") };
  expect(getLastText(after(applied, recordStep, { ...openStep, number: 2 }, silent))).toBe(
    "Let me see.",
  );
});

test("`getLastText` returns the last of several texts, even while an open step has none yet", () => {
  const { applied } = states();
  const { openStep, recordReply, recordStep } = changes();
  const second = { ...recordReply, reply: replyOf("Found it.") };
  const twice = after(applied, recordStep, { ...openStep, number: 2 }, second, recordStep);
  const third = after(twice, { ...openStep, number: 3 });
  expect([getLastText(twice), getLastText(third)]).toEqual(["Found it.", "Found it."]);
});

// A child that inherits its parent's messages and fails before its first text has no last text.
test("`getLastText` ignores messages inherited from the parent", () => {
  const inherited = replyOf("What the parent said.").message;
  const [system, task] = opening();
  if (system === undefined || task === undefined) throw new Error("two messages");
  const born = createPendingState({
    messages: [system, inherited, task],
    prefix: { messageCount: 0, tokens: 0 },
  });
  const { markStarted, openStep, failWith, recordStep, end } = changes();
  const failed = after(born, markStarted, openStep, failWith, recordStep, {
    ...end,
    status: "failed",
  });
  expect(getLastText(failed)).toBe("");
});

test("`getLastText` ignores texts of the previous execution", () => {
  const { completed } = states();
  const { nextExecution, markStarted } = changes();
  expect(getLastText(after(completed, nextExecution, markStarted))).toBe("");
});
