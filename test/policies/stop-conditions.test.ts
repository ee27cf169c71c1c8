// Goal: a stop condition decides by what it is shown and gives whole reasons, or nothing; combined ones keep no state either.
// Method: hand-written step records; every combination over parts that answer at once or later.

import { runInNewContext } from "node:vm";

import { expect, test } from "vitest";

import { FinishReasonSchema } from "../../src/protocol/finish-reason.ts";
import {
  allOf,
  anyOf,
  hasFinishReason,
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

/** The codes of an answer, whatever its form. */
async function codesOf(answer: ReturnType<StopCondition>): Promise<readonly string[]> {
  const given = await answer;
  return [given ?? []].flat().map(({ code }) => code);
}

const costly: StopCondition = () => undefined;

/** Calls a function from where no types are checked. */
function untyped(definition: (...given: never) => unknown, ...given: readonly unknown[]): unknown {
  return Reflect.apply(definition, undefined, given);
}

/** A condition from there. */
function answering(answer: unknown): StopCondition {
  return new Proxy(NEVER, { apply: () => answer });
}

proves(
  ["R54"],
  "a tool that was called in an earlier step does not count, one of the last step does",
  () => {
    const submitted = hasToolCall("submit");
    expect(judge(submitted, stepCalling(1, "submit"), stepCalling(2, "search"))).toBeUndefined();
    expect(judge(submitted, stepCalling(1, "search"), stepCalling(2, "search", "submit"))).toEqual({
      code: "tool_called",
      message: "The tool submit was called.",
      data: { toolName: "submit", step: 2 },
    });
  },
);

proves(["R51"], "a reason is a value: code, message and the facts behind it", () => {
  for (const condition of [hasToolCall("submit"), hasFinishReason("tool_calls")]) {
    const reason = judge(condition, stepCalling(1, "submit"));
    expect(StopReasonSchema().parse(reason)).toEqual(reason);
    expect(JSON.parse(JSON.stringify(reason))).toEqual(reason);
  }
});

test("before the first step, and after a step without calls, nothing was called", () => {
  expect(judge(hasToolCall("submit"))).toBeUndefined();
  expect(judge(hasToolCall("submit"), stepCalling(1))).toBeUndefined();
});

test("a name counts as a whole and letter for letter", () => {
  for (const name of ["submit_all", "Submit", "submi", " submit"]) {
    expect(judge(hasToolCall("submit"), stepCalling(1, name)), name).toBeUndefined();
  }
});

test("a condition keeps nothing of what it saw", async () => {
  const submitted = hasToolCall("submit");
  const called = stepCalling(1, "submit");
  const answers = [
    judge(submitted, called),
    judge(submitted, stepCalling(1, "search")),
    judge(submitted, called),
  ];
  expect(await Promise.all(answers.map(codesOf))).toEqual([["tool_called"], [], ["tool_called"]]);
});

test("a tool without a name is refused at once", () => {
  const { code, data } = thrownBy(() => hasToolCall(""));
  expect([code, data["field"], data["got"]]).toEqual([
    "invalid_argument",
    "hasToolCall(toolName)",
    '""',
  ]);
});

test("a finish reason fires on the last step only, also when the reply asked for tools", () => {
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

test("every finish reason that a model may give can be named, and no other", () => {
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

// Over two parts: what they answer, and what the combinations make of it.
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
      `or, and and not of parts that answer ${when} and ${whenOther} tell which fired`,
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

test("what a combination gives is a list of reasons, what a negation gives as well, and nothing is nothing", () => {
  expect(judge(anyOf(ALWAYS))).toEqual([reasonOf("always")]);
  expect(judge(allOf(ALWAYS))).toEqual([reasonOf("always")]);
  expect(judge(not(NEVER, NO), stepCalling(1))).toEqual([NO]);
  for (const silent of [anyOf(NEVER), allOf(NEVER), not(ALWAYS, NO)])
    expect(judge(silent)).toBeUndefined();
});

test("of two that fired at one time both are given, in order, and the higher wins", () => {
  const answer = judge(
    anyOf(hasFinishReason("tool_calls"), hasToolCall("save")),
    stepCalling(1, "save"),
  );
  const reasons = StopReasonSchema().array().parse(answer);
  expect(reasons.map(({ code }) => code)).toEqual(["finish_reason", "tool_called"]);
  const signals = reasons.map((reason) => ({ reason, source: "stop_condition" as const }));
  expect(findWinningSignal(signals)?.reason.code).toBe("tool_called");
});

test("what a part throws, or rejects with, comes through", async () => {
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

test("a part that answers something else fails, instead of counting as one or the other", async () => {
  for (const answer of [false, null, true, 0, "", "done", {}, [undefined], [{ code: "" }]]) {
    const wrong = answering(answer);
    expect(() => judge(not(wrong, NO)), JSON.stringify(answer)).toThrow(
      /^condition returned neither a reason/,
    );
    await expect(judge(anyOf(late(wrong))), JSON.stringify(answer)).rejects.toThrow(TypeError);
  }
});

test("a part may give several reasons, or an empty list for none", () => {
  const several = answering([reasonOf("one"), reasonOf("two")]);
  const none = answering([]);
  expect(judge(allOf(several))).toEqual([reasonOf("one"), reasonOf("two")]);
  expect([judge(anyOf(none)), judge(allOf(none))]).toEqual([undefined, undefined]);
  expect(judge(not(none, NO), stepCalling(1))).toEqual([NO]);
});

test("a promise from another realm is waited for", async () => {
  const foreign: unknown = runInNewContext("Promise.resolve(reason)", { reason: NO });
  expect(foreign).not.toBeInstanceOf(Promise);
  expect(await codesOf(judge(anyOf(answering(foreign), ALWAYS)))).toEqual(["no", "always"]);
});

test("what is no condition, and no parts at all, are refused at definition by name", () => {
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

test("the reason of a negation is a copy that cannot be changed", () => {
  const data = { limits: [1] };
  const condition = not(NEVER, { code: "no", message: "No.", data });
  data.limits.push(2);
  const [reason] = StopReasonSchema()
    .array()
    .parse(judge(condition, stepCalling(1)));
  expect(reason).toEqual({ code: "no", message: "No.", data: { limits: [1] } });
  expect(unfrozenParts([judge(condition, stepCalling(1))].flat()[0])).toEqual([]);
});

test("a combination says in its name what it is made of, in bounded length", () => {
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
