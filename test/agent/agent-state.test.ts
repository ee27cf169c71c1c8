// Goal: reading a state makes nothing up and changes nothing.
// Method: every question on a state in each part of the life cycle.

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

proves(
  ["R37", "R38"],
  "asking for the open step where there is none throws, before, between and after steps",
  () => {
    const { pending, running, stepped, rested, completed } = states();
    for (const state of [pending, running, stepped, rested, completed]) {
      expect(thrownBy(() => getOpenStep(state))).toEqual({
        code: "invalid_state",
        message: `Cannot read the open step: the ${state.status} execution has none. Read it after openStep and before recordStep.`,
        data: { status: state.status },
      });
    }
  },
);

test("the open step is the one that was opened", () => {
  expect(getOpenStep(states().replied).stepId).toBe(STEP_ID);
});

proves(["R38"], "questions to a state create nothing in it", () => {
  for (const state of Object.values(states())) {
    const before = structuredClone(state);
    for (const ask of QUESTIONS) ask(state);
    expect(state).toEqual(before);
  }
});

test("pending calls are those of the open reply without a result, in call order", () => {
  const [first, second] = twoCalls();
  const { replied, deferred, waiting, ...others } = states();
  expect(getPendingCalls(replied)).toEqual([first, second]);
  expect([deferred, waiting].map(getPendingCalls)).toEqual([[first], [first]]);
  for (const [name, state] of Object.entries(others))
    expect(getPendingCalls(state), name).toEqual([]);
});

test("a state is answered if every call has its result and the history has none", () => {
  const { answered, ...others } = states();
  expect(hasAllResults(answered)).toBe(true);
  for (const [name, state] of Object.entries(others))
    expect(hasAllResults(state), name).toBe(false);
});

test("a state has a reply from the reply to the record of its step, a pause included", () => {
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

test("a pause between steps has no open step, one within a step has it", () => {
  const { rested, deferred, waiting } = states();
  expect([rested.step, waiting.step]).toEqual([undefined, deferred.step]);
  expect(getOpenStep(waiting).stepId).toBe(STEP_ID);
  expect(thrownBy(() => getOpenStep(rested)).code).toBe("invalid_state");
});

test("what an agent waits for are the questions and the subagents of its open calls, and those of its subtasks", () => {
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

test("the last text is the last one that the model wrote, replies without text passed over", () => {
  const { running, replied, waiting, applied } = states();
  const { openStep, recordReply, recordStep } = changes();
  expect(getLastText(running)).toBe("");
  expect([getLastText(replied), getLastText(waiting)]).toEqual(["Let me see.", "Let me see."]);
  const silent = { ...recordReply, reply: replyOf("") };
  expect(getLastText(after(applied, recordStep, { ...openStep, number: 2 }, silent))).toBe(
    "Let me see.",
  );
});

test("of several texts the last one counts, also while a step is open that has none yet", () => {
  const { applied } = states();
  const { openStep, recordReply, recordStep } = changes();
  const second = { ...recordReply, reply: replyOf("Found it.") };
  const twice = after(applied, recordStep, { ...openStep, number: 2 }, second, recordStep);
  const third = after(twice, { ...openStep, number: 3 });
  expect([getLastText(twice), getLastText(third)]).toEqual(["Found it.", "Found it."]);
});

// A child that inherits its parent's messages and fails before it has said a word has said nothing.
test("what an agent inherited from its parent is not its own last text", () => {
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

test("what was said in the execution before is not the last text of the next one", () => {
  const { completed } = states();
  const { nextExecution, markStarted } = changes();
  expect(getLastText(after(completed, nextExecution, markStarted))).toBe("");
});
