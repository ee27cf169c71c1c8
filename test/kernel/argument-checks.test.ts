// Goal: each check accepts valid values and rejects all others with one error that names field,
// expected and got.
// Method: tables of values.

import { expect, test } from "vitest";

import {
  checkAmount,
  checkCount,
  checkKeys,
  checkList,
  checkName,
  checkText,
  adviseDefault,
} from "../../src/kernel/argument-checks.ts";
import { thrownBy } from "../support/thrown.ts";

const passes = (check: () => void): boolean => {
  try {
    check();
    return true;
  } catch {
    return false;
  }
};

const NUMBERS = [
  0,
  -0,
  1,
  2 ** 53 - 1,
  2 ** 53,
  0.5,
  -1,
  NaN,
  Infinity,
  "1",
  1n,
  null,
  undefined,
  true,
  {},
];

test("accepts only exact whole numbers from 0 up as a count", () => {
  expect(NUMBERS.map((value) => passes(() => checkCount("x", value)))).toEqual([
    true,
    true,
    true,
    true,
    ...NUMBERS.slice(4).map(() => false),
  ]);
});

test("accepts only finite numbers from 0 up as an amount", () => {
  expect(NUMBERS.map((value) => passes(() => checkAmount("x", value)))).toEqual([
    true,
    true,
    true,
    true,
    true,
    true,
    ...NUMBERS.slice(6).map(() => false),
  ]);
});

test("accepts only strings that are not blank as a text", () => {
  const values = ["a", " a ", "", " ", "\n\t", null, 5, ["a"], undefined];
  expect(values.map((value) => passes(() => checkText("x", value)))).toEqual([
    true,
    true,
    ...values.slice(2).map(() => false),
  ]);
});

test("accepts only strings that match the pattern as a name", () => {
  const values = ["ab", "AB", "", "ab1", null, 5, ["ab"]];
  expect(
    values.map((value) => passes(() => checkName("x", value, /^[a-z]+$/i, "letters"))),
  ).toEqual([true, true, ...values.slice(2).map(() => false)]);
});

const SHOWN: readonly (readonly [unknown, string])[] = [
  ["text", '"text"'],
  [undefined, "undefined"],
  [null, "null"],
  [NaN, "NaN"],
  [-0.5, "-0.5"],
  [true, "true"],
  [() => 1, "a function"],
  [[1, 2], "an array"],
  [{ secret: 1 }, "an object"],
  [Symbol("x"), "Symbol(x)"],
];

for (const [value, got] of SHOWN) {
  test(`shows ${got} as the value it got`, () => {
    const expected = "a whole number from 0 up";
    expect(thrownBy(() => checkCount("limits.maxDepth", value))).toEqual({
      code: "invalid_argument",
      message: `Expected limits.maxDepth to be ${expected}, got ${got}. Leave it out for the default.`,
      data: { field: "limits.maxDepth", expected, got },
    });
  });
}

test("names the default of a number in the advice", () => {
  const advice = adviseDefault(50_000);
  for (const check of [checkCount, checkAmount])
    expect(thrownBy(() => check("settings.size", -1, advice)).message).toMatch(
      /^Expected settings\.size to be .*, got -1\. Leave it out for the default, 50,000\.$/,
    );
});

const NO_LISTS: readonly (readonly [unknown, string, string])[] = [
  [Promise.resolve([]), "a promise", "Await it."],
  [{ a: 1 }, "an object", "List its parts: [a, b]."],
  ["a", '"a"', "Pass an array: [a, b]."],
  [null, "null", "Pass an array: [a, b]."],
  [() => [], "a function", "Pass an array: [a, b]."],
];

for (const [value, got, advice] of NO_LISTS) {
  test(`rejects ${got} as a list: ${advice}`, () => {
    expect(thrownBy(() => checkList("agent.hooks", value))).toEqual({
      code: "invalid_argument",
      message: `Expected agent.hooks to be an array, got ${got}. ${advice}`,
      data: { field: "agent.hooks", expected: "an array", got },
    });
  });
}

test("names the field, the expectation and the remedy for names and texts", () => {
  expect(thrownBy(() => checkName("agent.name", 5, /^a$/, "the letter a"))).toEqual({
    code: "invalid_argument",
    message: "Expected agent.name to be the letter a, got 5. Choose another name.",
    data: { field: "agent.name", expected: "the letter a", got: "5" },
  });
  expect(thrownBy(() => checkText("task", ""))).toEqual({
    code: "invalid_argument",
    message: 'Expected task to be a non-empty string, got "". Pass some text.',
    data: { field: "task", expected: "a non-empty string", got: '""' },
  });
});

test("accepts known keys in any number and rejects others", () => {
  for (const value of [{}, { a: 1 }, { a: undefined, b: 2 }])
    expect(passes(() => checkKeys("x", value, ["a", "b"]))).toBe(true);
  expect(
    thrownBy(() => checkKeys("start options", { a: 1, budgets: {} }, ["a", "budget"])),
  ).toEqual({
    code: "invalid_argument",
    message: 'Expected start options.budgets to be one of a, budget, got "budgets". Use budget.',
    data: { field: "start options.budgets", expected: "one of a, budget", got: '"budgets"' },
  });
});

test("rejects a value that is not a plain object", () => {
  const values = [[], () => 1, null, "x", 5];
  const shown = values.map(
    (value) => thrownBy(() => Reflect.apply(checkKeys, undefined, ["options", value, ["a"]])).data,
  );
  expect(shown).toEqual(
    ["an array", "a function", "null", '"x"', "5"].map((got) => ({
      field: "options",
      expected: "a plain object",
      got,
    })),
  );
});
