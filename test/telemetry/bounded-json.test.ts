// Goal: whatever is too long for an attribute is still JSON, still says what it was, and is no longer than allowed.
// Method: examples that are compared whole; then any JSON there is, in any room, against the rules of the module.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { parseJson, type JsonValue } from "../../src/kernel/json.ts";
import { leftOutOf } from "../../src/telemetry/content/content-messages.ts";
import { boundedJson, boundedText } from "../../src/telemetry/bounded/bounded-json.ts";

test("what fits comes whole", () => {
  const value = { a: [1, "two", null, true], b: { c: "…" } };
  expect(boundedJson(value, 240)).toEqual({ text: JSON.stringify(value), isShortened: false });
  const exact = "x".repeat(998);
  expect(boundedJson(exact, 1_000).isShortened).toBe(false);
  expect(boundedJson(`${exact}x`, 1_000).isShortened).toBe(true);
});

test("the longest texts are shortened first, and say by how much", () => {
  const value = { path: "notes/today.md", content: "a".repeat(20_000), mode: "w" };
  const { text, isShortened } = boundedJson(value, 1_000);
  expect(isShortened).toBe(true);
  expect(text.length).toBeLessThanOrEqual(1_000);
  const shown =
    1_000 - JSON.stringify({ ...value, content: "… (20,000 characters left out)" }).length;
  expect(parseJson(text)).toEqual({
    path: "notes/today.md",
    content: `${"a".repeat(shown)}… (${(20_000 - shown).toLocaleString("en-US")} characters left out)`,
    mode: "w",
  });
});

test("of a list the first entry and the last ones stay", () => {
  const list = Array.from({ length: 12_000 }, (_, index) => index);
  const { text } = boundedJson(list, 240);
  const kept = Array.from({ length: 34 }, (_, index) => 12_000 - 34 + index);
  expect(parseJson(text)).toEqual([0, "… (11,965 entries left out)", ...kept]);
});

test("an object with more entries than there is room for says how many are missing, and its keys are never cut", () => {
  const many: Record<string, JsonValue> = { ["k".repeat(5_000)]: 1, kept: true };
  for (let index = 0; index < 100; index += 1) many[`n${index}`] = 1_000_000;
  const { text } = boundedJson(many, 240);
  expect(text.length).toBeLessThanOrEqual(240);
  expect(text.startsWith('{"kept":true,"n0":1000000,"n1":1000000,')).toBe(true);
  parseJson(text);
  expect(text).toMatch(/"…":"… \(\d+ entries left out\)"\}$/);
});

test("no surrogate pair is parted, and what needs a backslash counts as it is written", () => {
  for (const unit of ["😀", '"', "\\", "\n", "\u0001", "\ud800", "é", "a😀"]) {
    for (let room = 240; room < 250; room += 1) {
      const { text } = boundedJson(unit.repeat(3_000), room);
      const [shown = ""] = textOf(text).split("… (");
      expect([unit, room, text.length <= room, text.length > room - 12]).toEqual([
        unit,
        room,
        true,
        true,
      ]);
      expect(unit.repeat(3_000).startsWith(shown)).toBe(true);
      if (unit !== "\ud800") expect(shown.isWellFormed()).toBe(true);
    }
  }
});

test("a plain text is shortened in the same way", () => {
  expect(boundedText("x".repeat(60), 60)).toBe("x".repeat(60));
  expect(boundedText("x".repeat(61), 60)).toBe(`${"x".repeat(34)}… (27 characters left out)`);
  expect(boundedText("😀".repeat(50), 60)).toBe(`${"😀".repeat(16)}… (68 characters left out)`);
});

test("any JSON in any room is JSON that is no longer than the room", () => {
  const long = fc
    .tuple(fc.string({ unit: "binary" }), fc.nat(400))
    .map(([unit, times]) => unit.repeat(times).slice(0, 5_000));
  const texts = fc.oneof(fc.string({ unit: "binary" }), long);
  const { tree } = fc.letrec<{ tree: JsonValue; leaf: JsonValue }>((tie) => ({
    leaf: fc.oneof(
      texts,
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.boolean(),
      fc.constant(null),
    ),
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
      const { text, isShortened } = boundedJson(value, room);
      expect(text.length).toBeLessThanOrEqual(room);
      parseJson(text);
      expect(isShortened).toBe(whole.length > room);
      if (!isShortened) expect(text).toBe(whole);
    }),
    { numRuns: 150 },
  );
});

test("so is a list of mixed shape, whose mark may be one of several", () => {
  const entries = fc.oneof(
    fc.constant({ parts: ["x".repeat(500)] }),
    fc.constant({ parameters: {}, name: "y".repeat(80) }),
    fc.constant({ type: "text", content: "z".repeat(300) }),
    fc.integer(),
    fc.string({ minLength: 1, maxLength: 400 }),
  );
  const lists = fc.array(entries, { maxLength: 120 });
  fc.assert(
    fc.property(
      lists,
      fc.integer({ min: 1, max: 60 }),
      fc.integer({ min: 240, max: 3_000 }),
      (list, keys, room) => {
        const value = Object.fromEntries(
          Array.from({ length: keys }, (_, nth) => [`k${nth}`, list]),
        );
        for (const one of [list, value]) {
          const { text } = boundedJson(one, room, leftOutOf);
          expect(text.length).toBeLessThanOrEqual(room);
          parseJson(text);
        }
      },
    ),
    { numRuns: 300 },
  );
  const texts = Array.from({ length: 104 }, () => "a".repeat(60));
  for (let keys = 1; keys < 60; keys += 1) {
    const list = [{ parts: ["x".repeat(500)] }, ...texts];
    const value = Object.fromEntries(Array.from({ length: keys }, (_, nth) => [`k${nth}`, list]));
    expect(boundedJson(value, 1_000, leftOutOf).text.length).toBeLessThanOrEqual(1_000);
  }
});

test("a value that is nested to the limit of arguments is shortened, too", () => {
  let nested: JsonValue = "x".repeat(100_000);
  for (let level = 0; level < 200; level += 1) nested = level % 2 === 0 ? [nested] : { a: nested };
  const { text } = boundedJson(nested, 2_000);
  expect(text.length).toBeLessThanOrEqual(2_000);
  expect(text).toContain("xxx… (");
});

test("a text of 2 MB costs no more than the room there is for it", () => {
  let read = 0;
  const counted = new Proxy<readonly JsonValue[]>(
    Array.from({ length: 200 }, () => "y".repeat(20_000)),
    {
      get: (list, key) => {
        read += 1;
        const part: unknown = Reflect.get(list, key);
        return part;
      },
    },
  );
  expect(boundedJson(counted, 16_384).text.length).toBeLessThanOrEqual(16_384);
  expect(read).toBeLessThan(2_000);
});

function textOf(json: string): string {
  const value = parseJson(json);
  return typeof value === "string" ? value : expect.fail("no text");
}
