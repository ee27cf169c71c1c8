// Goal: no order of changes leads to an unfrozen or inconsistent state.
// Method: random changes in any order, and random runs that follow the rules of the loop, from a
// fixed seed.

import * as fc from "fast-check";
import { expect } from "vitest";

import { getOpenStep, type AgentState } from "../../src/agent/agent-state.ts";
import { EspalierError } from "../../src/kernel/error.ts";
import { createStepId } from "../../src/protocol/ids.ts";
import type { ToolCall } from "../../src/protocol/message.ts";
import { addUsage, NO_USAGE, type Usage } from "../../src/protocol/usage.ts";
import { findMessageProblems } from "../../src/testing/check-messages.ts";
import { proves } from "../harness/proves.ts";
import {
  after,
  changes,
  EXECUTION_ID,
  executionOf,
  questionAbout,
  replyOf,
  states,
  subagentOn,
  toolCall,
  twoCalls,
  transition,
  type Change,
} from "../support/changes.ts";
import { unfrozenParts } from "../support/frozen.ts";
import { callUsage } from "../support/ledger-fixture.ts";
import { contextOf } from "../support/step-context.ts";

const FIXED = { seed: 20_261_121, numRuns: 1_000 };

const [FIRST, SECOND] = twoCalls();

/** Each change; changes that need others before them appear in several forms. */
const anyChange: fc.Arbitrary<Change> = fc.oneof(
  fc.constantFrom(...Object.values(changes())),
  fc.constantFrom<Change>(
    { ...changes().recordReply, reply: replyOf("This is it.") },
    { type: "discardReply", reply: replyOf("", [FIRST]) },
    { type: "brief", messages: [] },
    { type: "recordSubtasks", subtasks: [] },
  ),
  fc
    .record({
      executed: fc.subarray([FIRST, SECOND, toolCall("call_3")], { minLength: 0 }),
      isTurned: fc.boolean(),
      isAsked: fc.boolean(),
    })
    .map(({ executed, isTurned, isAsked }): Change => ({
      type: "recordExecutions",
      executions: (isTurned ? executed.toReversed() : executed).map(executionOf),
      deferrals: isAsked ? [questionAbout(FIRST), subagentOn(SECOND)] : [],
    })),
);

/**
 * Changes in a productive order with others in between, so that states deep in the life cycle are
 * reached often.
 */
const anyChanges = fc
  .array(
    fc.oneof(
      fc.array(anyChange, { maxLength: 3 }),
      fc.constantFrom<readonly Change[]>(
        [changes().markStarted, changes().openStep],
        [changes().openStep, changes().recordReply],
        [changes().recordExecutions, changes().applyToolResults],
        [changes().recordStep, changes().openStep],
        [changes().pause, changes().resume],
      ),
    ),
    { maxLength: 25, size: "max" },
  )
  .map((lists) => lists.flat());

proves(
  ["R38", "R39", "R44"],
  "returns a new frozen state, or a coded error without any change, for any change on any state",
  () => {
    fc.assert(
      fc.property(anyChanges, (list) => {
        let state: AgentState = states().pending;
        for (const change of list) {
          const before = JSON.stringify(state);
          const next = moved(state, change);
          expect(JSON.stringify(state)).toBe(before);
          if (next === undefined) continue;
          expect(next).not.toBe(state);
          expect(unfrozenParts(next)).toEqual([]);
          state = next;
        }
      }),
      { ...FIXED, numRuns: 300 },
    );
  },
);

/**
 * Applies the permitted changes and passes each one with the states around it to `look`. Returns
 * the last state.
 */
function driven(
  list: readonly Change[],
  look: (before: AgentState, change: Change, next: AgentState) => void,
): AgentState {
  return list.reduce<AgentState>((state, change) => {
    const next = moved(state, change);
    if (next !== undefined) look(state, change, next);
    return next ?? state;
  }, states().pending);
}

proves(
  ["R39", "R42"],
  "adds results to the history together, in call order, and only when all are known (L3)",
  () => {
    let applied = 0;
    fc.assert(
      fc.property(anyChanges, (list) => {
        driven(list, (before, change, next) => {
          const step = next.step;
          const calls = callsOf(next).map(({ callId }) => callId);
          const known = (step?.executions ?? []).map(({ call }) => call.callId);
          expect(known).toEqual(calls.filter((call) => known.includes(call)));
          expect(new Set(known).size).toBe(known.length);
          if (change.type === "applyToolResults") applied += calls.length;
          const added = change.type === "applyToolResults" ? calls : [];
          if (change.type !== "compact")
            expect(answeredIn(next).slice(answeredIn(before).length)).toEqual(added);
          if (change.type === "recordStep" && callsOf(before).length > 0)
            expect(before.step?.hasAppliedResults).toBe(true);
          for (const { tools } of next.log.steps)
            expect(tools.executions.map(({ call }) => call)).toEqual(tools.calls);
        });
      }),
      { ...FIXED, numRuns: 500 },
    );
    expect(applied).toBeGreaterThan(100);
  },
);

proves(["R39", "R42"], "records a step once in any order of changes (L4)", () => {
  let recorded = 0;
  fc.assert(
    fc.property(anyChanges, (list) => {
      let opened = 0;
      driven(list, (before, change, next) => {
        if (change.type === "nextExecution") opened = 0;
        // A step whose request was too long is opened again.
        if (change.type === "openStep" && before.step === undefined) opened += 1;
        if (change.type === "recordStep") recorded += 1;
        const isOpen = next.step !== undefined;
        expect(next.log.steps.length + Number(isOpen)).toBe(opened);
        if (change.type === "nextExecution") return;
        expect(next.log.steps.slice(0, before.log.steps.length)).toEqual(before.log.steps);
      });
    }),
    { ...FIXED, numRuns: 500 },
  );
  expect(recorded).toBeGreaterThan(100);
});

proves(
  ["R39", "R42"],
  "preserves everything across a pause, which only resume ends, in any order of changes",
  () => {
    let paused = 0;
    fc.assert(
      fc.property(anyChanges, anyChange, (list, other) => {
        driven(list, (before, change, next) => {
          if (change.type !== "pause") return;
          paused += 1;
          expect(next).toEqual({ ...before, status: "paused", reason: change.reason });
          expect(next.step).toBe(before.step);
          if (other.type !== "resume") expect(moved(next, other)).toBeUndefined();
          expect(transition(next, { type: "resume" })).toStrictEqual(before);
        });
      }),
      { ...FIXED, numRuns: 500 },
    );
    expect(paused).toBeGreaterThan(100);
  },
);

function callsOf(state: AgentState): readonly ToolCall[] {
  return state.step?.reply?.message.toolCalls ?? [];
}

/** Returns the calls that have a result in the history, in order. */
function answeredIn({ conversation }: AgentState): readonly string[] {
  return conversation.messages.flatMap((message) =>
    message.role === "tool" ? [message.callId] : [],
  );
}

/** One step of a run that follows the rules. */
interface ScriptedStep {
  readonly reply: "recorded" | "discarded" | "none";
  readonly calls: number;
  /**
   * The number of first calls whose results arrive later than the others; with more than there are,
   * all.
   */
  readonly cut: number;
  readonly usages: readonly number[];
  readonly hasFailed: boolean;
  readonly notice: boolean;
  /** Pauses while it waits for the calls after the cut, and once more before the next step. */
  readonly isPaused: boolean;
}

const scriptedStep: fc.Arbitrary<ScriptedStep> = fc.record({
  reply: fc.constantFrom(
    "recorded" as const,
    "recorded" as const,
    "discarded" as const,
    "none" as const,
  ),
  calls: fc.nat({ max: 4 }),
  cut: fc.nat({ max: 4 }),
  usages: fc.array(fc.nat({ max: 500 }), { maxLength: 3 }),
  hasFailed: fc.boolean(),
  notice: fc.boolean(),
  isPaused: fc.boolean(),
});

proves(
  ["R42", "R43", "R44"],
  "numbers steps, records one result per call, and sums usage in a run that follows the rules",
  () => {
    fc.assert(
      fc.property(fc.array(scriptedStep, { maxLength: 8, size: "max" }), (script) => {
        const ended = played(script);
        expect(unfrozenParts(ended)).toEqual([]);
        expect(ended.log.steps.map((step) => [step.number, step.stepId])).toEqual(
          script.map((_step, index) => [index + 1, createStepId(EXECUTION_ID, index + 1)]),
        );
        for (const { tools } of ended.log.steps)
          expect(tools.executions.map(({ call }) => call)).toEqual(tools.calls);
        const summed = ended.log.steps.reduce<Usage>(
          (sum, step) => addUsage(sum, step.telemetry.usage),
          NO_USAGE,
        );
        expect(ended.telemetry.usage).toEqual(summed);
        const spent = script
          .flatMap((step) => step.usages)
          .reduce((sum, tokens) => sum + tokens, 0);
        expect(summed.totalTokens).toBe(spent);
        expect(
          findMessageProblems(ended.conversation.messages).filter(
            (problem) => !problem.startsWith("the list ends"),
          ),
        ).toEqual([]);
        expect(ended.log.errors).toHaveLength(script.filter((step) => step.hasFailed).length);
        expect(ended).not.toHaveProperty("step");
        const counts = ended.log.steps.map(({ io }) => io.messageCount);
        expect(counts).toEqual(counts.toSorted((left, right) => left - right));
      }),
      FIXED,
    );
  },
);

proves(["R42"], "only appends to the history", () => {
  fc.assert(
    fc.property(fc.array(scriptedStep, { maxLength: 6, size: "max" }), (script) => {
      const histories = script.map(
        (_step, count) => played(script.slice(0, count)).conversation.messages,
      );
      const whole = played(script).conversation.messages;
      for (const earlier of histories) expect(whole.slice(0, earlier.length)).toEqual(earlier);
    }),
    { ...FIXED, numRuns: 200 },
  );
});

function moved(state: AgentState, change: Change): AgentState | undefined {
  try {
    return transition(state, change);
  } catch (cause) {
    expect(EspalierError.is(cause) && cause.code).toBe("illegal_transition");
    return undefined;
  }
}

function played(script: readonly ScriptedStep[]): AgentState {
  const { markStarted, end } = changes();
  const state = script.reduce(playStep, after(states().pending, markStarted));
  return transition(state, end);
}

function playStep(state: AgentState, step: ScriptedStep, index: number): AgentState {
  const number = index + 1;
  const { failWith, addMessages, pause, resume } = changes();
  const calls = Array.from({ length: step.calls }, (_call, at) => toolCall(`call_${number}_${at}`));
  const open = after(state, {
    type: "openStep",
    stepId: createStepId(EXECUTION_ID, number),
    number,
    context: contextOf(number),
    messageCount: state.conversation.messages.length,
    hiddenTools: [],
    lastStep: undefined,
    startedAtMs: number,
  });
  const paid = step.usages.reduce(
    (current, tokens) => transition(current, { type: "addUsage", usage: callUsage(tokens, 0) }),
    open,
  );
  const replied = after(paid, ...replyChanges(step, calls));
  const failed = step.hasFailed ? transition(replied, failWith) : replied;
  expect(getOpenStep(failed).number).toBe(number);
  const recorded = transition(failed, { type: "recordStep", atMs: number, elapsedMs: number });
  const rested = step.isPaused ? after(recorded, pause, resume) : recorded;
  return step.notice ? transition(rested, addMessages) : rested;
}

function replyChanges(
  step: ScriptedStep,
  calls: readonly ReturnType<typeof toolCall>[],
): readonly Change[] {
  if (step.reply === "none") return [];
  if (step.reply === "discarded") return [{ type: "discardReply", reply: replyOf("") }];
  const reply = replyOf("Said.", calls);
  const recordReply = {
    type: "recordReply",
    reply,
    prefix: { messageCount: 0, tokens: 0 },
  } as const;
  if (calls.length === 0) return [recordReply];
  const { pause, resume, applyToolResults } = changes();
  const executions = calls.map(executionOf);
  // Results after the cut are known first; they still appear in call order.
  return [
    recordReply,
    {
      type: "recordExecutions",
      executions: executions.slice(step.cut).toReversed(),
      deferrals: calls.slice(0, step.cut).map(subagentOn),
    },
    ...(step.isPaused ? [pause, resume] : []),
    { type: "recordExecutions", executions: executions.slice(0, step.cut), deferrals: [] },
    applyToolResults,
  ];
}
