// Goal: content that is too long for an attribute is cut to its beginning and a mark, and costs no
// more than the beginning.
// Method: any JSON at any length compared with JSON.stringify; values that count their reads.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import type { JsonValue } from "../../../src/kernel/json.ts";
import { beginJson, cutWithMark } from "../../../src/telemetry/spans/bounded-attributes.ts";
import { proves } from "../../harness/proves.ts";

test("leaves a text that fits unchanged", () => {
  expect(["", "x".repeat(60)].map((text) => cutWithMark(text, 60))).toEqual(["", "x".repeat(60)]);
});

proves(["D642"], "ends a cut text with a mark and splits no surrogate pair", () => {
  expect(cutWithMark("x".repeat(61), 60)).toBe(`${"x".repeat(53)}… (cut)`);
  expect(cutWithMark("😀".repeat(50), 60)).toBe(`${"😀".repeat(26)}… (cut)`);
  expect(cutWithMark("😀".repeat(50), 61)).toBe(`${"😀".repeat(27)}… (cut)`);
});

proves(["D642"], "cuts any JSON to its beginning at any length", () => {
  const texts = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.string({ unit: "binary", minLength: 1 }).map((unit) => unit.repeat(300)),
  );
  const { tree } = fc.letrec<{ tree: JsonValue; leaf: JsonValue }>((tie) => ({
    leaf: fc.oneof(texts, fc.integer(), fc.boolean(), fc.constant(null)),
    tree: fc.oneof(
      { depthSize: "small", withCrossShrink: true },
      tie("leaf"),
      fc.array(tie("tree"), { maxLength: 12 }),
      fc.dictionary(texts, tie("tree"), { maxKeys: 12 }),
    ),
  }));
  fc.assert(
    fc.property(tree, fc.integer({ min: 240, max: 3_000 }), (value, room) => {
      const whole = JSON.stringify(value);
      const begun = beginJson(value, room);
      expect(begun.length > room).toBe(whole.length > room);
      expect(begun.slice(0, room)).toBe(whole.slice(0, room));
      expect(cutWithMark(begun, room)).toBe(cutWithMark(whole, room));
      expect(cutWithMark(begun, room).isWellFormed()).toBe(true);
    }),
    { numRuns: 300 },
  );
});

proves(["D642"], "reads no more of a large value than its beginning", () => {
  let reads = 0;
  const counted = <T extends object>(value: T): T =>
    new Proxy(value, {
      get: (target, key): unknown => {
        reads += 1;
        return Reflect.get(target, key);
      },
    });
  const texts = Array.from({ length: 100_000 }, () => "y".repeat(20_000));
  const fields = Object.fromEntries(texts.map((text, at) => [`k${at}`, text]));
  const numbers = Array.from({ length: 1_000_000 }, () => 1);
  for (const value of [counted(texts), counted(fields), { a: [counted(numbers)] }]) {
    reads = 0;
    const begun = beginJson(value, 16_384);
    expect(begun.length).toBeGreaterThan(16_384);
    expect(begun.length).toBeLessThan(40_000);
    expect(reads).toBeLessThan(40_000);
  }
  const long = "\u0001".repeat(50_000_000);
  expect(beginJson({ [long]: long }, 16_384).length).toBeLessThan(6 * 16_384 + 100);
});
