// Goal: a state changes only as the table allows, and no value can be changed afterwards.
// Method: one state in each part of the life cycle × one change of each kind.

import { expect, test } from "vitest";

import {
  NO_PREFIX,
  getOpenStep,
  createPendingState,
  type AgentState,
} from "../../src/agent/agent-state.ts";
import { createStepId } from "../../src/protocol/ids.ts";
import type { ToolCall } from "../../src/protocol/message.ts";
import { TerminalStatusSchema, type Status } from "../../src/protocol/stop.ts";
import { NO_USAGE } from "../../src/protocol/usage.ts";
import { proves } from "../harness/proves.ts";
import {
  added,
  after,
  changes,
  EXECUTION_ID,
  executionOf,
  opening,
  replyOf,
  states,
  toolCall,
  twoCalls,
  transition,
  functionOf,
  type Change,
} from "../support/changes.ts";
import { unfrozenParts, vandalised } from "../support/frozen.ts";
import { thrownBy } from "../support/thrown.ts";
import { NO_TIMING } from "../../src/protocol/step-timing.ts";

type ChangeType = Change["type"];
type StateName = keyof ReturnType<typeof states>;

const keys = (state: AgentState): readonly string[] => Object.keys(state).toSorted();

const ALWAYS_WHILE_RUNNING = [
  "recordOutput",
  "recordVeto",
  "recordWait",
  "recordSubtasks",
  "addMessages",
  "awaitSubagents",
  "recordSections",
  "recordFired",
  "dropSubagents",
  "compact",
  "addSignal",
  "addTime",
  "failWith",
  "pause",
] as const;
const BETWEEN_STEPS = ["openStep", "end", ...ALWAYS_WHILE_RUNNING] as const;
const IN_A_STEP = ["addUsage", "recordEvaluation", ...ALWAYS_WHILE_RUNNING] as const;
const UNBRIEFED = "brief";

/** The complete table of allowed changes by state. Every other change throws. */
const ALLOWED: Readonly<Record<StateName, readonly ChangeType[]>> = {
  pending: ["markStarted"],
  running: [UNBRIEFED, ...BETWEEN_STEPS],
  briefed: BETWEEN_STEPS,
  open: [UNBRIEFED, "recordReply", "discardReply", "recordOverflow", "recordStep", ...IN_A_STEP],
  spoken: [UNBRIEFED, "applyToolResults", "recordStep", ...IN_A_STEP],
  discarded: [UNBRIEFED, "applyToolResults", "recordStep", ...IN_A_STEP],
  replied: [UNBRIEFED, "recordExecutions", ...IN_A_STEP],
  // The change brings results for both calls, one of which has its result already.
  deferred: [UNBRIEFED, ...IN_A_STEP],
  answered: [UNBRIEFED, "applyToolResults", ...IN_A_STEP],
  applied: [UNBRIEFED, "recordStep", ...IN_A_STEP],
  stepped: [UNBRIEFED, ...BETWEEN_STEPS],
  rested: ["resume"],
  waiting: ["resume"],
  completed: ["nextExecution"],
  stopped: ["nextExecution"],
  failed: ["nextExecution"],
  cancelled: ["nextExecution"],
};

/** All pairs of statuses that a change connects. */
const MOVES: Readonly<Record<Status, readonly Status[]>> = {
  pending: ["running"],
  running: ["cancelled", "completed", "failed", "paused", "running", "stopped"],
  paused: ["running"],
  completed: ["pending"],
  stopped: ["pending"],
  failed: ["pending"],
  cancelled: ["pending"],
};

for (const [name, state] of Object.entries(states())) {
  const allowed: readonly string[] = Object.entries(ALLOWED).flatMap(([key, list]) =>
    key === name ? list : [],
  );

  proves(["R39"], `the state ${name} accepts only ${allowed.join(", ")}`, () => {
    for (const change of Object.values(changes())) {
      if (allowed.includes(change.type)) {
        expect(transition(state, change), change.type).not.toBe(state);
        continue;
      }
      const { code, data } = thrownBy(() => transition(state, change));
      const expected = {
        code: "illegal_transition",
        data: { status: state.status, change: functionOf(change) },
      };
      expect({ code, data }, change.type).toEqual(expected);
    }
  });
}

proves(["R39"], "the status changes only as listed", () => {
  const { end, ...others } = changes();
  const ends = TerminalStatusSchema().options.map((status) => ({ ...end, status }));
  const found = new Map<Status, Set<Status>>();
  for (const from of Object.values(states())) {
    const reached = found.get(from.status) ?? new Set();
    for (const change of [...Object.values(others), ...ends])
      reached.add(landing(from, change) ?? from.status);
    found.set(from.status, reached);
  }
  for (const [from, reached] of found) {
    const stays: readonly Status[] = MOVES[from].includes(from) ? [] : [from];
    expect([...reached].toSorted(), from).toEqual([...MOVES[from], ...stays].toSorted());
  }
  expect([...found.keys()].toSorted()).toEqual(Object.keys(MOVES).toSorted());
});

/** Returns the status after a change, or `undefined` if the change is refused. */
function landing(state: AgentState, change: Change): Status | undefined {
  try {
    return transition(state, change).status;
  } catch {
    return undefined;
  }
}

proves(["R39"], "an ended execution cannot run again, and a pending one cannot end", () => {
  const { completed, pending } = states();
  const { markStarted, resume, end } = changes();
  for (const change of [markStarted, resume])
    expect(thrownBy(() => transition(completed, change)).code).toBe("illegal_transition");
  expect(thrownBy(() => transition(pending, { ...end, status: "completed" })).code).toBe(
    "illegal_transition",
  );
});

proves(["R38", "R39"], "a refused change names the state and the change", () => {
  const { pending, open } = states();
  const { recordStep, end } = changes();
  expect(thrownBy(() => transition(pending, recordStep)).message).toBe(
    "Cannot apply recordStep to a pending execution. See the changes that each status allows in transition.ts.",
  );
  expect(thrownBy(() => transition(open, end)).message).toBe(
    "Cannot apply endExecution to a running execution with an open step. See the changes that each status allows in transition.ts.",
  );
});

// Discarding a second reply would drop calls that the history contains, and they would stay without
// results.
test("a step refuses a second reply, even one to discard", () => {
  const { replied } = states();
  expect(() => transition(replied, changes().discardReply)).toThrow("Cannot apply discardReply");
});

// The calls would be in the step and not in the history, so their results would answer no call.
test("a reply with calls cannot be discarded", () => {
  const { open } = states();
  const discard: Change = { type: "discardReply", reply: replyOf("", twoCalls()) };
  expect(() => transition(open, discard)).toThrow("Cannot apply discardReply");
});

test("a step whose reply has calls cannot be recorded before their results are in the history", () => {
  const { replied, deferred, answered } = states();
  for (const state of [replied, deferred, answered])
    expect(() => transition(state, changes().recordStep)).toThrow("Cannot apply recordStep");
});

test("results cannot be applied before the reply, before all of them exist, or twice", () => {
  const { open, replied, deferred, applied } = states();
  for (const state of [open, replied, deferred, applied])
    expect(() => transition(state, changes().applyToolResults)).toThrow(
      "Cannot apply recordResults",
    );
});

function results(...calls: readonly ToolCall[]): Change {
  return { type: "recordExecutions", executions: calls.map(executionOf), deferrals: [] };
}

test("a result is accepted once, and only for a call of the reply", () => {
  const { open, replied, deferred, applied } = states();
  const [first, second] = twoCalls();
  const refused: readonly (readonly [AgentState, Change])[] = [
    [open, results(first)],
    [replied, results(first, first)],
    [replied, results(toolCall("call_3"))],
    [deferred, results(second)],
    [applied, results()],
  ];
  for (const [state, change] of refused)
    expect(() => transition(state, change)).toThrow("Cannot apply recordExecutions");
});

test("the task is accepted once", () => {
  const { running } = states();
  const { brief } = changes();
  expect(() => after(running, brief, brief)).toThrow("Cannot apply recordTask");
});

proves(["R37"], "a new state is pending with zero usage and no start time", () => {
  const conversation = { messages: opening(), prefix: { messageCount: 0, tokens: 0 } };
  expect(createPendingState(conversation)).toEqual({
    status: "pending",
    conversation: { ...conversation, tags: [], dropped: [], added: 0 },
    log: {
      steps: [],
      compactions: [],
      signals: [],
      errors: [],
      output: undefined,
      isTaskHandled: false,
      uselessReplies: 0,
      overflows: 0,
      failures: { toolErrors: 0, consecutiveErrors: 0, retryErrors: 0, retriesByTool: {} },
      vetoes: 0,
      subtasks: [],
      background: [],
      isAwaiting: false,
    },
    telemetry: { usage: NO_USAGE, startedAtMs: undefined, endedAtMs: undefined, budgetWaitMs: 0 },
  });
});

proves(
  ["R41"],
  "a state consists of conversation, log and telemetry, and contains no part of the role",
  () => {
    const all = states();
    const parts = ["conversation", "log", "telemetry"];
    expect(keys(all.pending)).toEqual([...parts, "status"].toSorted());
    expect(keys(all.answered)).toEqual([...parts, "executionId", "status", "step"].toSorted());
    expect(keys(all.waiting)).toEqual(
      [...parts, "executionId", "reason", "status", "step"].toSorted(),
    );
    expect(keys(all.failed)).toEqual([...parts, "executionId", "reason", "status"].toSorted());
  },
);

proves(
  ["R40"],
  "the next execution keeps history and queued subtasks, adds one message, and resets all else",
  () => {
    const { running } = states();
    const { recordSubtasks, failWith, recordOutput, recordVeto, recordWait, addTime } = changes();
    const { openStep, recordOverflow, discardReply, recordStep, awaitSubagents } = changes();
    const { end, nextExecution, markStarted } = changes();
    const ended = after(
      running,
      openStep,
      discardReply,
      recordStep,
      { ...openStep, number: 2 },
      recordOverflow,
      failWith,
      recordStep,
      recordOutput,
      recordVeto,
      recordWait,
      recordSubtasks,
      addTime,
      awaitSubagents,
      { ...end, status: "failed" },
    );
    const { messages } = ended.conversation;
    const fresh = createPendingState({
      ...ended.conversation,
      messages: [...messages, ...nextExecution.messages],
    });
    // Its message is the task, so the task is marked as handled.
    expect(transition(ended, nextExecution)).toEqual({
      ...fresh,
      log: { ...fresh.log, subtasks: recordSubtasks.subtasks, isTaskHandled: true },
    });
    const idle = after(ended, nextExecution, markStarted, { ...end, status: "completed" });
    const again = transition(idle, { ...nextExecution, messages: [] });
    const { conversation, ...others } = transition(ended, nextExecution);
    expect(again).toEqual({
      ...others,
      conversation: added(ended.conversation, nextExecution.messages, 0),
    });
    expect(conversation.tags).toEqual(ended.conversation.tags);
  },
);

proves(["H15"], "the next execution may have other instructions, under a new id", () => {
  const { running } = states();
  const { end, nextExecution } = changes();
  const ended = after(running, end);
  const { messages, tags, added: count } = ended.conversation;
  const next = transition(ended, { ...nextExecution, instructions: "Other.", messages: [] });
  expect(next.conversation).toEqual({
    ...ended.conversation,
    messages: [{ role: "system", text: "Other.", origin: "instructions" }, ...messages.slice(1)],
    tags: [
      { executionId: nextExecution.executionId, stepNumber: 0, number: count + 1 },
      ...tags.slice(1),
    ],
    added: count + 1,
    prefix: NO_PREFIX,
  });
});

proves(["R40"], "two executions of one history share no mutable value", () => {
  const { pending } = states();
  const { markStarted, addMessages } = changes();
  const one = after(pending, markStarted, addMessages);
  const other = transition(pending, markStarted);
  expect([one, other].flatMap((state) => unfrozenParts(state))).toEqual([]);
  expect(other.conversation.messages).toEqual(opening());
});

proves(
  ["R45"],
  "a recorded step leaves no transient values, and the next step starts empty",
  () => {
    const all = states();
    const { addUsage, recordOverflow, recordStep, failWith, openStep } = changes();
    const recorded = [
      after(all.applied, recordStep),
      after(all.spoken, recordStep),
      after(all.discarded, recordStep),
      after(all.open, addUsage, failWith, recordStep),
      after(all.open, addUsage, recordOverflow, recordStep),
      after(all.applied, failWith, recordStep),
    ];
    for (const state of recorded) {
      expect(state).toHaveProperty("step", undefined);
      expect(thrownBy(() => getOpenStep(state)).code).toBe("invalid_state");
      const stepId = createStepId(EXECUTION_ID, 2);
      const bare = { messageCount: 1, hiddenTools: [], lastStep: undefined };
      const next = { ...openStep, ...bare, stepId, number: 2, startedAtMs: 8 };
      expect(getOpenStep(transition(state, next))).toEqual({
        stepId,
        number: 2,
        startedAtMs: 8,
        context: openStep.context,
        messageCount: 1,
        hiddenTools: [],
        reply: undefined,
        executions: [],
        deferrals: [],
        hasAppliedResults: false,
        lastStep: undefined,
        usage: NO_USAGE,
        timing: NO_TIMING,
        error: undefined,
      });
    }
  },
);

for (const [name, state] of Object.entries(states())) {
  proves(
    ["R44"],
    `the state ${name} is frozen in depth, and attempts to change it have no effect`,
    () => {
      const before = structuredClone(state);
      expect(unfrozenParts(state)).toEqual([]);
      expect(vandalised(state)).toEqual([]);
      expect(state).toEqual(before);
    },
  );
}

proves(["R44"], "a change does not alter the previous state", () => {
  for (const state of Object.values(states())) {
    const before = structuredClone(state);
    for (const change of Object.values(changes())) {
      try {
        transition(state, change);
      } catch {
        // Refused changes must not alter the value either.
      }
    }
    expect(state).toEqual(before);
  }
});
