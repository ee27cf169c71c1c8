// Goal: sections that cannot be sent as they are declared are rejected when their role is defined,
// with the remedy.
// Method: one fault at a time; the whole message is compared where it matters, code and field for
// the others.

import { expect, test } from "vitest";

import type { RequestSection } from "../../src/agent/request-sections.ts";
import { EspalierError } from "../../src/kernel/error.ts";
import { proves } from "../harness/proves.ts";
import { soloist } from "../harness/soloist.ts";

/** Accepts any value, as a program without types may pass it. */
function isGiven(value: unknown): value is readonly RequestSection[] {
  return value !== undefined;
}

function define(sections: unknown): readonly string[] {
  if (!isGiven(sections)) throw new Error("Expected sections, got none.");
  return soloist([], { sections }).role.sections.map(({ name }) => name);
}

/** Returns the code and the message of the error. */
function refusal(sections: unknown): readonly string[] {
  try {
    return define(sections);
  } catch (cause) {
    return EspalierError.is(cause) ? [cause.code, cause.message] : [String(cause)];
  }
}

const step = { lifetime: "step", text: "Text." };

proves(["R94"], "rejects a name that another section or a built-in section has", () => {
  expect(
    refusal([
      { ...step, name: "state" },
      { ...step, name: "state" },
    ]),
  ).toEqual([
    "invalid_argument",
    'Expected solo.sections[1].name to be a name that no other section has, got "state". Rename it.',
  ]);
  for (const name of ["instructions", "history", "wrapUp", "budget"])
    expect(refusal([{ ...step, name }])).toEqual([
      "invalid_argument",
      `Expected solo.sections[0].name to be a name that no built-in section has, got "${name}". Built in are instructions, history, wrapUp, budget. Rename it.`,
    ]);
});

proves(["R94"], "rejects a place next to an unknown section or in a cycle", () => {
  expect(refusal([{ ...step, name: "state", after: "memory" }])).toEqual([
    "invalid_argument",
    'Expected solo.sections[0].after to be the name of a section, got "memory". Its sections are instructions, history, wrapUp, budget, state.',
  ]);
  expect(
    refusal([
      { ...step, name: "one", after: "two" },
      { ...step, name: "two", before: "three" },
      { ...step, name: "three", after: "one" },
      { ...step, name: "four" },
    ]),
  ).toEqual([
    "invalid_argument",
    'Expected solo.sections[0] to be next to a section whose place does not depend on it, got "one". Place one of them next to the history.',
  ]);
  expect(refusal([{ ...step, name: "one", after: "one" }])[0]).toBe("invalid_argument");
});

const MISPLACED: Readonly<Record<string, readonly object[]>> = {
  "before the instructions": [{ ...step, name: "a", before: "instructions" }],
  "before what is before the instructions": [
    { ...step, name: "b", before: "a" },
    { ...step, name: "a", before: "instructions" },
  ],
  "behind wrapUp": [{ ...step, name: "a", after: "wrapUp" }],
  "behind budget": [{ ...step, name: "a", after: "budget" }],
  "before budget, and so behind wrapUp": [{ ...step, name: "a", before: "budget" }],
  "a system message behind the history": [{ ...step, name: "a", messageRole: "system" }],
  "a system message behind one of the user": [
    { ...step, name: "b", after: "instructions" },
    { ...step, name: "a", messageRole: "system", after: "b" },
  ],
  "a persistent one before the history": [
    { name: "a", lifetime: "persistent", text: "A", before: "history" },
  ],
  "a persistent one behind one that goes": [
    { ...step, name: "b" },
    { name: "a", lifetime: "persistent", text: "A", after: "b" },
  ],
  "a persistent system message": [
    { name: "a", lifetime: "persistent", text: "A", messageRole: "system" },
  ],
};

for (const [what, sections] of Object.entries(MISPLACED))
  test(`rejects a section in an invalid place: ${what}`, () => {
    const [code, message] = refusal(sections);
    expect([code, message]).toEqual([
      "invalid_argument",
      expect.stringMatching(/^Expected solo\.sections\[\d\].* to be .*, got .+\. .+\.$/),
    ]);
  });

const SLIPS: Readonly<Record<string, unknown>> = {
  "no list": { name: "a" },
  "no section": [1],
  "no name": [step],
  "a name with a blank": [{ ...step, name: "my memory" }],
  "a name of nothing": [{ ...step, name: "" }],
  "a name of a prototype": [{ ...step, name: "__proto__" }],
  "no life cycle": [{ name: "a", text: "A" }],
  "another life cycle": [{ name: "a", lifetime: "forever", text: "A" }],
  "no text": [{ name: "a", lifetime: "step" }],
  "an empty text": [{ name: "a", lifetime: "step", text: " " }],
  "two places": [{ ...step, name: "a", after: "history", before: "history" }],
  "another role": [{ ...step, name: "a", role: "assistant" }],
  "an unknown field": [{ ...step, name: "a", order: 3 }],
  "too many": Array.from({ length: 101 }, (_, index) => ({ ...step, name: `s${index}` })),
};

for (const [what, sections] of Object.entries(SLIPS))
  test(`rejects an invalid section: ${what}`, () => {
    expect(refusal(sections)[0]).toBe("invalid_argument");
  });

test("accepts a section named like a property of every object", () => {
  expect(define([{ ...step, name: "constructor" }])).toEqual([
    "instructions",
    "history",
    "constructor",
    "wrapUp",
    "budget",
  ]);
});

test("orders sections behind the same one by the list, and persistent sections first", () => {
  expect(
    define([
      { ...step, name: "a" },
      { ...step, name: "c" },
      { ...step, name: "b", after: "a" },
      { ...step, name: "z", before: "a" },
      { name: "p", lifetime: "persistent", text: "P" },
    ]),
  ).toEqual(["instructions", "history", "p", "z", "a", "b", "c", "wrapUp", "budget"]);
});

test("orders a chain of a hundred sections", () => {
  const chain = Array.from({ length: 100 }, (_, index) => ({
    ...step,
    name: `s${index}`,
    ...(index === 0 ? {} : { after: `s${index - 1}` }),
  }));
  expect(define(chain.toReversed())).toEqual([
    "instructions",
    "history",
    ...chain.map(({ name }) => name),
    "wrapUp",
    "budget",
  ]);
});
