// Goal: equal values give equal text, and freezing reaches the leaves.
// Method: tables, and random JSON values with their keys shuffled.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { stringifyCanonical, deepFreeze, isRecord } from "../../src/kernel/json.ts";
import { unfrozenParts } from "../support/frozen.ts";

test("sorts keys at every depth and preserves the order of lists", () => {
  expect(stringifyCanonical({ b: [{ d: 1, c: 2 }, 3], a: null })).toBe(
    '{"a":null,"b":[{"c":2,"d":1},3]}',
  );
});

test("throws for a value that is not JSON", () => {
  const cycle: unknown[] = [];
  cycle.push(cycle);
  for (const value of [undefined, () => 1, Symbol("x"), 10n, cycle]) {
    expect(() => stringifyCanonical(value)).toThrow(TypeError);
  }
});

test("writes one text for values that differ only in the order of keys, which can be parsed back", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = stringifyCanonical(value);
      expect(stringifyCanonical(reversed(value))).toBe(text);
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
    }),
    { seed: 1, numRuns: 500 },
  );
});

test("recognises objects as records, but not lists and null", () => {
  const values = [{}, Object.create(null), new Date(0), [], null, undefined, "x", 5, () => 1];
  expect(values.map(isRecord)).toEqual([
    true,
    true,
    true,
    false,
    false,
    false,
    false,
    false,
    false,
  ]);
});

test("freezes a value down to its leaves and returns the value itself", () => {
  const value = { a: { b: [{ c: 1 }] }, d: [] };
  expect(deepFreeze(value)).toBe(value);
  expect(unfrozenParts(value)).toEqual([]);
});

test("freezes a value that contains itself once", () => {
  const loop: Record<string, unknown> = { inner: {} };
  loop["self"] = loop;
  expect([Object.isFrozen(deepFreeze(loop)), Object.isFrozen(loop["inner"])]).toEqual([true, true]);
});

test("returns values without parts unchanged", () => {
  expect([deepFreeze(5), deepFreeze("x"), deepFreeze(null), deepFreeze(undefined)]).toEqual([
    5,
    "x",
    null,
    undefined,
  ]);
});

/** Returns the value with the keys of every object in reverse order. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, part]) => [key, reversed(part)]),
  );
}
