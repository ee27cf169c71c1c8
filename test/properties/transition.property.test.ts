// Goal: no order of changes leads to a state that is unfrozen or at odds with itself.
// Method: random changes in any order, and random runs that keep to the rules of the loop, from a fixed seed.

import * as fc from "fast-check";
import { expect } from "vitest";

import { openStepOf, type AgentState } from "../../src/agent/agent-state.ts";
import { transition, type Change } from "../../src/agent/transition.ts";
import { EspalierError } from "../../src/kernel/error.ts";
import { stepIdOf } from "../../src/protocol/ids.ts";
import { addUsage, NO_USAGE, type Usage } from "../../src/protocol/usage.ts";
import { checkMessages } from "../../src/testing/check-messages.ts";
import { proves } from "../harness/proves.ts";
import {
  after,
  changes,
  EXECUTION_ID,
  executionOf,
  replyOf,
  states,
  toolCall,
} from "../support/changes.ts";
import { unfrozenParts } from "../support/frozen.ts";
import { callUsage } from "../support/ledger-scene.ts";

const FIXED = { seed: 20_261_121, numRuns: 1_000 };

const anyChange = fc.constantFrom(...Object.values(changes()));

proves(
  ["R38", "R39", "R44"],
  "any change on any state gives a new frozen state, or a coded error and no change",
  () => {
    fc.assert(
      fc.property(fc.array(anyChange, { maxLength: 40, size: "max" }), (list) => {
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

/** One step of a run that keeps to the rules. */
interface ScriptedStep {
  readonly reply: "recorded" | "discarded" | "none";
  readonly calls: number;
  /** After how many calls the results come in two parts; more than there are: in one. */
  readonly cut: number;
  readonly usages: readonly number[];
  readonly hasFailed: boolean;
  readonly notice: boolean;
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
});

proves(
  ["R42", "R43", "R44"],
  "a run by the rules has numbered steps, one result per call and usage that adds up",
  () => {
    fc.assert(
      fc.property(fc.array(scriptedStep, { maxLength: 8, size: "max" }), (script) => {
        const ended = played(script);
        expect(unfrozenParts(ended)).toEqual([]);
        expect(ended.log.steps.map((step) => [step.number, step.stepId])).toEqual(
          script.map((_step, index) => [index + 1, stepIdOf(EXECUTION_ID, index + 1)]),
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
          checkMessages(ended.conversation.messages).filter(
            (problem) => !problem.startsWith("the list ends"),
          ),
        ).toEqual([]);
        expect(ended.log.errors).toHaveLength(script.filter((step) => step.hasFailed).length);
        expect(ended).not.toHaveProperty("step");
      }),
      FIXED,
    );
  },
);

proves(["R42"], "the history only grows: what was said stays where it was", () => {
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
  const { failWith, addMessage } = changes();
  const calls = Array.from({ length: step.calls }, (_call, at) => toolCall(`call_${number}_${at}`));
  const open = after(state, {
    type: "openStep",
    stepId: stepIdOf(EXECUTION_ID, number),
    number,
    atMs: number,
  });
  const paid = step.usages.reduce(
    (current, tokens) => transition(current, { type: "addUsage", usage: callUsage(tokens, 0) }),
    open,
  );
  const replied = after(paid, ...replyChanges(step, calls));
  const failed = step.hasFailed ? transition(replied, failWith) : replied;
  expect(openStepOf(failed).number).toBe(number);
  const recorded = transition(failed, { type: "recordStep", atMs: number });
  return step.notice ? transition(recorded, addMessage) : recorded;
}

function replyChanges(
  step: ScriptedStep,
  calls: readonly ReturnType<typeof toolCall>[],
): readonly Change[] {
  if (step.reply === "none") return [];
  if (step.reply === "discarded") return [{ type: "discardReply", reply: replyOf("") }];
  const executions = calls.map(executionOf);
  return [
    { type: "recordReply", reply: replyOf("Said.", calls), prefix: { messageCount: 0, tokens: 0 } },
    { type: "recordExecutions", executions: executions.slice(0, step.cut) },
    { type: "recordExecutions", executions: executions.slice(step.cut) },
  ];
}
