import * as fc from "fast-check";
import { expect, test } from "vitest";

import { applyDeltaInPlace, diffJson, applyJsonDelta } from "../../src/kernel/json-delta.ts";
import { deepFreeze } from "../../src/kernel/json.ts";

type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

const key = fc.constantFrom("a", "b", "steps", "messages", "set", "keys", "keep");
const { json } = fc.letrec<{ json: Json; list: Json; record: Json }>((tie) => ({
  json: fc.oneof(
    { depthSize: "small" },
    fc.string(),
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    tie("list"),
    tie("record"),
  ),
  list: fc.array(tie("json"), { maxLength: 5 }),
  record: fc.dictionary(key, tie("json"), { maxKeys: 4 }),
}));

test("restores any next value from a value and its delta, including as JSON text", () => {
  fc.assert(
    fc.property(json, json, (before, after) => {
      const delta = diffJson(before, after);
      const read: unknown = delta === undefined ? undefined : JSON.parse(JSON.stringify(delta));
      expect(delta === undefined ? before : applyJsonDelta(before, delta)).toEqual(after);
      if (delta !== undefined) expect(read).toEqual(delta);
    }),
    { numRuns: 2_000 },
  );
});

test("applies deltas in place to a value of one's own, and never to a frozen value", () => {
  fc.assert(
    fc.property(
      fc.array(json, { minLength: 2, maxLength: 6 }),
      fc.boolean(),
      (values, isFrozen) => {
        const [first] = values;
        const text = JSON.stringify(first);
        let own: unknown = isFrozen ? deepFreeze(structuredClone(first)) : structuredClone(first);
        for (const [index, value] of values.slice(1).entries()) {
          const delta = diffJson(values[index], value);
          if (delta !== undefined) own = applyDeltaInPlace(own, structuredClone(delta));
          expect(own).toEqual(value);
        }
        expect(JSON.stringify(first)).toBe(text);
      },
    ),
    { numRuns: 1_000 },
  );
  const list = [1, 2];
  expect(applyDeltaInPlace(list, { keep: 1, append: [3] })).toBe(list);
  const frozen = deepFreeze({ a: [1] });
  expect(applyDeltaInPlace(frozen, { keys: { a: { keep: 1, append: [2] } } })).toEqual({
    a: [1, 2],
  });
  expect(frozen).toEqual({ a: [1] });
  expect(() => applyDeltaInPlace([1], { keep: 2, append: [] })).toThrow("at least 2");
});

test("writes only the new parts into a delta, without visiting the unchanged ones", () => {
  const long = deepFreeze(
    Array.from({ length: 1_000 }, (_one, index) => ({ text: `old ${index}` })),
  );
  const before = { messages: long, log: { steps: long } };
  const after = { messages: [...long, { text: "new" }], log: { steps: long } };
  expect(diffJson(before, after)).toEqual({
    keys: { messages: { keep: 1_000, append: [{ text: "new" }] } },
  });
});

test("retains the part of a list before a cut", () => {
  const [a, b, c] = [{ n: 1 }, { n: 2 }, { n: 3 }];
  expect(diffJson([a, b, c], [a, c])).toEqual({ keep: 1, append: [{ n: 3 }] });
});

test("treats a key that holds undefined as absent", () => {
  expect(diffJson({ a: 1, b: undefined }, { a: 1, c: undefined })).toBeUndefined();
  expect(diffJson({ a: 1, b: 2 }, { a: 1, b: undefined })).toEqual({ keys: {}, gone: ["b"] });
  expect(applyJsonDelta({ a: 1, b: 2 }, { keys: {}, gone: ["b"] })).toEqual({ a: 1 });
});

test("rejects a delta that was made for another value", () => {
  expect(() => applyJsonDelta([1], { keep: 2, append: [] })).toThrow("at least 2");
  expect(() => applyJsonDelta("text", { keys: {} })).toThrow("Expected an object");
});

test("rejects a value that is not JSON", () => {
  expect(() => diffJson({ a: 1 }, { a: () => 1 })).toThrow("A function is not JSON");
});
