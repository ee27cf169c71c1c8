// Goal: a stop condition judges by what it is shown and gives a whole reason, or nothing.
// Method: hand-written step records.

import { expect, test } from "vitest";

import { toolWasCalled, type StopCondition } from "../../src/policies/stop-conditions.ts";
import { ExecutionIdSchema, stepIdOf } from "../../src/protocol/ids.ts";
import { StopReasonSchema } from "../../src/protocol/stop.ts";
import type { StepRecord } from "../../src/protocol/step-record.ts";
import { NO_USAGE } from "../../src/protocol/usage.ts";
import { proves } from "../harness/proves.ts";
import { executionOf, toolCall } from "../support/changes.ts";
import { thrownBy } from "../support/thrown.ts";

function stepCalling(number: number, ...toolNames: readonly string[]): StepRecord {
  const calls = toolNames.map((name, index) => toolCall(`call_${number}_${index}`, name));
  return {
    stepId: stepIdOf(ExecutionIdSchema.parse("execution_1"), number),
    number,
    io: { messageCount: 2, text: "", finishReason: "tool_calls" },
    tools: { calls, executions: calls.map(executionOf) },
    telemetry: { usage: NO_USAGE, startedAtMs: 0, endedAtMs: 0 },
  };
}

const judge = (
  condition: StopCondition,
  ...steps: readonly StepRecord[]
): ReturnType<StopCondition> => condition({ steps, usage: NO_USAGE, elapsedMs: 0 });

proves(
  ["R54"],
  "a tool that was called in an earlier step does not count, one of the last step does",
  () => {
    const submitted = toolWasCalled("submit");
    expect(judge(submitted, stepCalling(1, "submit"), stepCalling(2, "search"))).toBeUndefined();
    expect(judge(submitted, stepCalling(1, "search"), stepCalling(2, "search", "submit"))).toEqual({
      code: "tool_called",
      message: "The tool submit was called.",
      data: { toolName: "submit", step: 2 },
    });
  },
);

proves(["R51"], "a reason is a value: code, message and the facts behind it", () => {
  const reason = judge(toolWasCalled("submit"), stepCalling(1, "submit"));
  expect(StopReasonSchema.parse(reason)).toEqual(reason);
  expect(JSON.parse(JSON.stringify(reason))).toEqual(reason);
});

test("before the first step, and after a step without calls, nothing was called", () => {
  expect(judge(toolWasCalled("submit"))).toBeUndefined();
  expect(judge(toolWasCalled("submit"), stepCalling(1))).toBeUndefined();
});

test("a name counts as a whole and letter for letter", () => {
  for (const name of ["submit_all", "Submit", "submi", " submit"]) {
    expect(judge(toolWasCalled("submit"), stepCalling(1, name)), name).toBeUndefined();
  }
});

test("a condition keeps nothing of what it saw", () => {
  const submitted = toolWasCalled("submit");
  const called = stepCalling(1, "submit");
  const answers = [
    judge(submitted, called),
    judge(submitted, stepCalling(1, "search")),
    judge(submitted, called),
  ];
  expect(answers.map((answer) => answer?.code)).toEqual(["tool_called", undefined, "tool_called"]);
});

test("a tool without a name is refused at once", () => {
  const { code, data } = thrownBy(() => toolWasCalled(""));
  expect([code, data["field"], data["got"]]).toEqual([
    "invalid_definition",
    "toolWasCalled(toolName)",
    '""',
  ]);
});
