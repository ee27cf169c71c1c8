// Steps, facts and conditions for tests of stop conditions, and an execution that checks
// conditions.

import type { FinishReason } from "../../src/protocol/finish-reason.ts";
import {
  evaluateCondition,
  type Check,
  type StopCondition,
  type StopConditionReason,
  type StopContext,
} from "../../src/policies/stop-conditions.ts";
import { ExecutionIdSchema, createStepId } from "../../src/protocol/ids.ts";
import type { StepRecord } from "../../src/protocol/step-record.ts";
import { NO_TIMING } from "../../src/protocol/step-timing.ts";
import type { StopReason } from "../../src/protocol/stop.ts";
import { addUsage, NO_USAGE } from "../../src/protocol/usage.ts";
import { executionOf, toolCall } from "./changes.ts";
import { callUsage } from "./ledger-fixture.ts";
import { contextOf } from "./step-context.ts";

export function stepCalling(number: number, ...toolNames: readonly string[]): StepRecord {
  const calls = toolNames.map((name, index) => toolCall(`call_${number}_${index}`, name));
  return {
    stepId: createStepId(ExecutionIdSchema().parse("execution_1"), number),
    number,
    context: contextOf(number),
    io: { messageCount: 2, text: "", finishReason: "tool_calls" },
    tools: { calls, executions: calls.map(executionOf) },
    telemetry: {
      usage: callUsage(10 * number, number),
      startedAtMs: 100 * number,
      endedAtMs: 100 * number + 50,
      elapsedMs: 100 * number - 20,
      timing: NO_TIMING,
    },
  };
}

export function stepEnding(
  number: number,
  finishReason: FinishReason,
  ...toolNames: readonly string[]
): StepRecord {
  const step = stepCalling(number, ...toolNames);
  return { ...step, io: { ...step.io, finishReason } };
}

/**
 * Returns the facts of the loop: the execution started at 70, and the check follows the end of a
 * step at once.
 */
export function factsOf(...steps: readonly StepRecord[]): StopContext {
  const usage = steps.reduce((sum, step) => addUsage(sum, step.telemetry.usage), NO_USAGE);
  const endedAtMs = steps.at(-1)?.telemetry.endedAtMs;
  const elapsedMs = endedAtMs === undefined ? 0 : endedAtMs - 70;
  return { steps, usage, elapsedMs, context: undefined };
}

/**
 * Returns the answer at each check of an execution, before the first step and after each. Fired
 * parts are remembered, as in an agent.
 */
export async function checked(
  condition: StopCondition,
  ...steps: readonly StepRecord[]
): Promise<readonly (readonly StopConditionReason[])[]> {
  const answers: (readonly StopConditionReason[])[] = [];
  let fired: Check["fired"] = {};
  for (let count = 0; count <= steps.length; count += 1) {
    const firing: Check["firing"] = new Map();
    const facts = factsOf(...steps.slice(0, count));
    const answer = await evaluateCondition(condition, { facts, place: "0", fired, firing });
    answers.push([answer ?? []].flat());
    fired = { ...fired, ...Object.fromEntries(firing) };
  }
  return answers;
}

export async function codesAt(
  condition: StopCondition,
  ...steps: readonly StepRecord[]
): Promise<readonly (readonly string[])[]> {
  const answers = await checked(condition, ...steps);
  return answers.map((reasons) => reasons.map(({ code }) => code));
}

export function reasonOf(code: string): StopReason {
  return { code, message: `${code}.`, data: {} };
}

/** Fires after the steps of these numbers; 0 is before the first step. */
export function firingAfter(code: string, ...numbers: readonly number[]): StopCondition {
  return ({ steps }) => (numbers.includes(steps.length) ? reasonOf(code) : undefined);
}

export function late(condition: StopCondition): StopCondition {
  return async (facts) => {
    await Promise.resolve();
    return condition(facts);
  };
}

export const ALWAYS = firingAfter("always", 0, 1, 2, 3);
export const NEVER = firingAfter("never");

export const NO = reasonOf("no");
