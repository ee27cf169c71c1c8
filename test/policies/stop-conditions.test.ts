// Goal: a stop condition decides by its facts and returns complete reasons, or undefined;
// combinations keep no state either.
// Method: hand-written step records; every combination over parts that answer synchronously or
// later.

import { runInNewContext } from "node:vm";

import { assert, expect, test } from "vitest";

import { FinishReasonSchema } from "../../src/protocol/finish-reason.ts";
import {
  allOf,
  anyOf,
  hasFinishReason,
  isStepCount,
  not,
  hasToolCall,
  type StopCondition,
} from "../../src/policies/stop-conditions.ts";
import { findWinningSignal } from "../../src/policies/stop-signals.ts";
import { StopReasonSchema } from "../../src/protocol/stop.ts";
import type { StepRecord } from "../../src/protocol/step-record.ts";
import { proves } from "../harness/proves.ts";
import { unfrozenParts } from "../support/frozen.ts";
import {
  ALWAYS,
  factsOf,
  firingAfter,
  late,
  NEVER,
  NO,
  reasonOf,
  stepCalling,
  stepEnding,
} from "../support/stop-facts.ts";
import { thrownBy } from "../support/thrown.ts";

const judge = (
  condition: StopCondition,
  ...steps: readonly StepRecord[]
): ReturnType<StopCondition> => condition(factsOf(...steps));

/** Returns the codes of an answer of any form. */
async function codesOf(answer: ReturnType<StopCondition>): Promise<readonly string[]> {
  const given = await answer;
  return [given ?? []].flat().map(({ code }) => code);
}

const costly: StopCondition = () => undefined;

/** Calls a function without type checks. */
function untyped(definition: (...given: never) => unknown, ...given: readonly unknown[]): unknown {
  return Reflect.apply(definition, undefined, given);
}

/** Returns a condition with an unchecked answer. */
function answering(answer: unknown): StopCondition {
  return new Proxy(NEVER, { apply: () => answer });
}

proves(["R54"], "fires for a tool call of the last step, and not of an earlier one", () => {
  const submitted = hasToolCall("submit");
  expect(judge(submitted, stepCalling(1, "submit"), stepCalling(2, "search"))).toBeUndefined();
  expect(judge(submitted, stepCalling(1, "search"), stepCalling(2, "search", "submit"))).toEqual({
    code: "tool_called",
    message: "The tool submit was called.",
    data: { toolName: "submit", step: 2 },
  });
});

test("counts the agent's own steps, and lets an answer complete", () => {
  const twoSteps = isStepCount(2);
  expect(judge(twoSteps)).toBeUndefined();
  expect(judge(twoSteps, stepCalling(1, "search"))).toBeUndefined();
  expect(judge(twoSteps, stepCalling(1, "search"), stepCalling(2))).toBeUndefined();
  expect(judge(twoSteps, stepCalling(1, "search"), stepCalling(2, "Finish"))).toBeUndefined();
  expect(judge(twoSteps, stepCalling(1, "search"), stepCalling(2, "search"))).toEqual({
    code: "step_count",
    message: "The agent took 2 steps, and isStepCount allows 2.",
    data: { maximum: 2, current: 2 },
  });
});

test("fires for a rejected result, and for a step after the number", () => {
  const oneStep = isStepCount(1);
  const finish = stepCalling(1, "Finish");
  const [execution] = finish.tools.executions;
  assert(execution !== undefined);
  const executions = [{ ...execution, type: "retry" as const }];
  const rejected = { ...finish, tools: { ...finish.tools, executions } };
  expect(judge(oneStep, rejected)).toMatchObject({ code: "step_count" });
  const late = judge(oneStep, stepCalling(1), stepCalling(2, "search"));
  expect(late).toMatchObject({ data: { maximum: 1, current: 2 } });
});

test.each([0, 1.5, "2", undefined])("refuses %j as the number of steps", (count) => {
  expect(() => untyped(isStepCount, count)).toThrow(
    "Expected isStepCount(count) to be a whole number from 1 up",
  );
});

proves(["R51"], "returns a reason as a plain value with code, message and data", () => {
  for (const condition of [hasToolCall("submit"), hasFinishReason("tool_calls")]) {
    const reason = judge(condition, stepCalling(1, "submit"));
    expect(StopReasonSchema().parse(reason)).toEqual(reason);
    expect(JSON.parse(JSON.stringify(reason))).toEqual(reason);
  }
});

test("does not fire before the first step and after a step without calls", () => {
  expect(judge(hasToolCall("submit"))).toBeUndefined();
  expect(judge(hasToolCall("submit"), stepCalling(1))).toBeUndefined();
});

test("compares the whole tool name, case-sensitively", () => {
  for (const name of ["submit_all", "Submit", "submi", " submit"]) {
    expect(judge(hasToolCall("submit"), stepCalling(1, name)), name).toBeUndefined();
  }
});

test("keeps no state between checks", async () => {
  const submitted = hasToolCall("submit");
  const called = stepCalling(1, "submit");
  const answers = [
    judge(submitted, called),
    judge(submitted, stepCalling(1, "search")),
    judge(submitted, called),
  ];
  expect(await Promise.all(answers.map(codesOf))).toEqual([["tool_called"], [], ["tool_called"]]);
});

test("refuses an empty tool name at once", () => {
  const { code, data } = thrownBy(() => hasToolCall(""));
  expect([code, data["field"], data["got"]]).toEqual([
    "invalid_argument",
    "hasToolCall(toolName)",
    '""',
  ]);
});

test("fires for the finish reason of the last step only, even if the reply called tools", () => {
  const cutOff = hasFinishReason("length", "content_filter");
  expect(judge(cutOff, stepCalling(1, "search"), stepEnding(2, "length", "search"))).toEqual({
    code: "finish_reason",
    message: "The model's reply ended with the finish reason length.",
    data: { finishReason: "length", step: 2 },
  });
  expect(judge(cutOff, stepEnding(1, "content_filter"))).toMatchObject({
    data: { finishReason: "content_filter", step: 1 },
  });
  expect(judge(cutOff, stepEnding(1, "length"), stepEnding(2, "stop"))).toBeUndefined();
  expect(judge(cutOff)).toBeUndefined();
});

test("accepts every finish reason of models, and refuses others", () => {
  for (const finishReason of FinishReasonSchema().options) {
    expect(judge(hasFinishReason(finishReason), stepEnding(1, finishReason))).toBeDefined();
  }
  const misspelt = ["stop", "lenght"];
  const { code, data } = thrownBy(() => untyped(hasFinishReason, ...misspelt));
  expect([code, data]).toEqual([
    "invalid_argument",
    {
      field: "hasFinishReason(finishReasons[1])",
      expected: `one of ${FinishReasonSchema().options.join(", ")}`,
      got: '"lenght"',
    },
  ]);
  expect(thrownBy(() => hasFinishReason()).data["field"]).toBe("hasFinishReason(finishReasons)");
});

// Two parts: their answers, and those of the combinations.
const TABLE: readonly (readonly [StopCondition, StopCondition, object])[] = [
  [NEVER, NEVER, { or: [], and: [], notOr: ["no"], notAnd: ["no"] }],
  [ALWAYS, NEVER, { or: ["always"], and: [], notOr: [], notAnd: ["no"] }],
  [NEVER, ALWAYS, { or: ["always"], and: [], notOr: [], notAnd: ["no"] }],
  [
    ALWAYS,
    firingAfter("second", 1),
    { or: ["always", "second"], and: ["always", "second"], notOr: [], notAnd: [] },
  ],
];
const TIMES: readonly (readonly [string, (one: StopCondition) => StopCondition])[] = [
  ["at once", (one) => one],
  ["later", late],
];

for (const [when, first] of TIMES) {
  for (const [whenOther, second] of TIMES) {
    proves(
      ["X32"],
      `combines parts that answer ${when} and ${whenOther} by anyOf, allOf and not, and names those that fired`,
      async () => {
        for (const [left, right, expected] of TABLE) {
          const parts = [first(left), second(right)] as const;
          const [or, and] = [anyOf(...parts), allOf(...parts)];
          const answers = {
            or: judge(or, stepCalling(1)),
            and: judge(and, stepCalling(1)),
            notOr: judge(not(or, NO), stepCalling(1)),
            notAnd: judge(not(and, NO), stepCalling(1)),
          };
          if (first === second)
            for (const answer of Object.values(answers))
              expect(answer instanceof Promise).toBe(first === late);
          const codes = Object.entries(answers).map(async ([key, answer]) => [
            key,
            await codesOf(answer),
          ]);
          expect(Object.fromEntries(await Promise.all(codes))).toEqual(expected);
        }
      },
    );
  }
}

test("returns a list of reasons from combinations and negations, or undefined", () => {
  expect(judge(anyOf(ALWAYS))).toEqual([reasonOf("always")]);
  expect(judge(allOf(ALWAYS))).toEqual([reasonOf("always")]);
  expect(judge(not(NEVER, NO), stepCalling(1))).toEqual([NO]);
  for (const silent of [anyOf(NEVER), allOf(NEVER), not(ALWAYS, NO)])
    expect(judge(silent)).toBeUndefined();
});

test("returns both of two fired reasons, in order, and the higher one wins", () => {
  const answer = judge(
    anyOf(hasFinishReason("tool_calls"), hasToolCall("save")),
    stepCalling(1, "save"),
  );
  const reasons = StopReasonSchema().array().parse(answer);
  expect(reasons.map(({ code }) => code)).toEqual(["finish_reason", "tool_called"]);
  const signals = reasons.map((reason) => ({ reason, source: "stop_condition" as const }));
  expect(findWinningSignal(signals)?.reason.code).toBe("tool_called");
});

test("rethrows errors and rejections of a part", async () => {
  const bug = new Error("bug");
  const broken: StopCondition = ({ steps }) => {
    if (steps.length > 0) return undefined;
    throw bug;
  };
  for (const combine of [anyOf, allOf, (part: StopCondition) => not(part, NO)]) {
    expect(() => combine(broken)(factsOf())).toThrow(bug);
    await expect(combine(late(broken))(factsOf())).rejects.toBe(bug);
  }
  expect(judge(allOf(broken), stepCalling(1))).toBeUndefined();
});

test("throws for a part that returns neither a reason nor undefined", async () => {
  for (const answer of [false, null, true, 0, "", "done", {}, [undefined], [{ code: "" }]]) {
    const wrong = answering(answer);
    expect(() => judge(not(wrong, NO)), JSON.stringify(answer)).toThrow(
      /^condition returned neither a reason/,
    );
    await expect(judge(anyOf(late(wrong))), JSON.stringify(answer)).rejects.toThrow(TypeError);
  }
});

test("accepts several reasons or an empty list from a part", () => {
  const several = answering([reasonOf("one"), reasonOf("two")]);
  const none = answering([]);
  expect(judge(allOf(several))).toEqual([reasonOf("one"), reasonOf("two")]);
  expect([judge(anyOf(none)), judge(allOf(none))]).toEqual([undefined, undefined]);
  expect(judge(not(none, NO), stepCalling(1))).toEqual([NO]);
});

test("awaits a promise from another realm", async () => {
  const foreign: unknown = runInNewContext("Promise.resolve(reason)", { reason: NO });
  expect(foreign).not.toBeInstanceOf(Promise);
  expect(await codesOf(judge(anyOf(answering(foreign), ALWAYS)))).toEqual(["no", "always"]);
});

test("refuses invalid conditions and missing parts at definition, by name", () => {
  const attempts: readonly (readonly [() => unknown, string, string])[] = [
    [() => anyOf(), "anyOf(conditions)", "undefined"],
    [() => allOf(), "allOf(conditions)", "undefined"],
    [() => untyped(anyOf, ALWAYS, "done"), "anyOf(conditions[1])", '"done"'],
    [() => untyped(allOf, [ALWAYS]), "allOf(conditions[0])", "an array"],
    [() => untyped(not, "done", NO), "not(condition)", '"done"'],
    [() => untyped(not, ALWAYS), "not(reason)", "undefined"],
    [() => not(ALWAYS, { code: "", message: "", data: {} }), "not(reason)", "an object"],
  ];
  for (const [attempt, field, got] of attempts) {
    const { code, data } = thrownBy(attempt);
    expect([code, data["field"], data["got"]]).toEqual(["invalid_argument", field, got]);
  }
});

test("returns the reason of a negation as a frozen copy", () => {
  const data = { limits: [1] };
  const condition = not(NEVER, { code: "no", message: "No.", data });
  data.limits.push(2);
  const [reason] = StopReasonSchema()
    .array()
    .parse(judge(condition, stepCalling(1)));
  expect(reason).toEqual({ code: "no", message: "No.", data: { limits: [1] } });
  expect(unfrozenParts([judge(condition, stepCalling(1))].flat()[0])).toEqual([]);
});

test("names a combination after its parts, in bounded length", () => {
  const names = [
    hasToolCall("save"),
    hasFinishReason("length", "error"),
    allOf(hasToolCall("save"), costly),
    not(
      anyOf(costly, () => undefined),
      NO,
    ),
  ].map(({ name }) => name);
  expect(names).toEqual([
    "hasToolCall(save)",
    "hasFinishReason(length, error)",
    "allOf(hasToolCall(save), costly)",
    "not(anyOf(costly, condition))",
  ]);
  let nested = costly;
  for (let depth = 0; depth < 20; depth += 1) nested = anyOf(nested, nested);
  expect(nested.name).toHaveLength(120);
  expect(nested.name).toMatch(/^anyOf\(anyOf\(.*…$/);
});
