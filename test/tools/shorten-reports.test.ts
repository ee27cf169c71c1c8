// Goal: the JSON report of a subagent stays valid JSON with outcome and name, however short it must
// be.
// Method: shorten results with hostile texts to every length, and compare a few whole values.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { stringifyCanonical } from "../../src/kernel/json.ts";
import { shortenReports } from "../../src/tools/shorten-reports.ts";
import { proves } from "../harness/proves.ts";

const OUTCOMES = ["completed", "partial", "no_output", "failed", "cancelled"] as const;

const pieces = fc.constantFrom(
  "a",
  '"',
  "\\",
  "\n",
  "\u0000",
  "\u001f",
  "\u2028",
  "é",
  "\u{1F600}",
  "\ud83d",
  "\ude00",
  '"}',
  "{",
);
const texts = fc.oneof(
  fc.string({ unit: pieces, maxLength: 200 }),
  fc
    .tuple(fc.string({ unit: pieces, minLength: 1, maxLength: 20 }), fc.nat(2_000))
    .map(([unit, times]) => unit.repeat(times)),
);
const reports = fc.record(
  {
    subagent: fc.constantFrom("child#1", `${"r".repeat(64)}#1000`),
    outcome: fc.constantFrom(...OUTCOMES),
    reason: fc.constantFrom("error", "completed"),
    explanation: texts,
    error: fc.constantFrom("model_unavailable"),
    text: texts,
    output: fc.oneof(fc.jsonValue(), texts),
    steps: fc.nat(100),
    totalTokens: fc.nat(1_000_000),
  },
  { requiredKeys: ["subagent", "outcome", "steps", "totalTokens"] },
);

function isPaired(value: string): boolean {
  return !/[\ud800-\udbff]$/.test(value.split("\n[Shortened: ")[0] ?? "");
}

proves(
  ["S7.23", "R111"],
  "shortens each report to valid JSON with outcome and name, within the bound or at the minimum",
  () => {
    fc.assert(
      fc.property(
        fc.array(reports, { minLength: 1, maxLength: 3 }),
        fc.integer({ min: 100, max: 10_000 }),
        (given, bound) => {
          const whole = given.map((report) => stringifyCanonical(report)).join("\n");
          const shortened = shortenReports(whole, bound);
          const text = shortened?.text ?? "";
          const read = text.split("\n").map((line): unknown => JSON.parse(line));
          const floors = given.map(({ outcome, subagent }) => ({ outcome, subagent }));
          expect(read).toMatchObject(floors);
          const floor = floors.map((one) => stringifyCanonical(one)).join("\n");
          expect(text.length).toBeLessThanOrEqual(Math.max(bound, floor.length));
          expect(shortened?.isShortened).toBe(text !== whole);
          if (whole.length <= bound) expect(text).toBe(whole);
          else expect(text.length).toBeLessThan(whole.length);
          expect(shortened?.totalCharacters).toBe(whole.length);
          expect(shortened?.shownCharacters).toBe(text.length);
        },
      ),
      { numRuns: 150 },
    );
  },
);

proves(["S7.23"], "never splits a surrogate pair in a text within the JSON, at any bound", () => {
  const whole = stringifyCanonical({
    subagent: "child#1",
    outcome: "completed",
    text: "\u{1F600}".repeat(200),
  });
  const lengths = new Set<number>();
  for (let bound = 100; bound < whole.length; bound += 1) {
    const { text = "" } = shortenReports(whole, bound) ?? {};
    const read: unknown = JSON.parse(text);
    expect(read).toEqual(expect.objectContaining({ outcome: "completed" }));
    expect(isPaired(textIn(read)), `at ${bound}`).toBe(true);
    lengths.add(textIn(read).length);
  }
  expect(lengths.size).toBeGreaterThan(100);
});

function textIn(read: unknown): string {
  return typeof read === "object" && read !== null && "text" in read ? String(read.text) : "";
}

const REPORT = {
  subagent: "child#1",
  outcome: "failed",
  reason: "error",
  explanation: "It broke.",
  error: "model_unavailable",
  steps: 2,
  totalTokens: 30,
} as const;

const NOTICE = "[Shortened: 0 of 1000 characters are shown. Ask for a smaller part.]";

test("removes the ends of long texts first, then the counts, then the texts, then the codes", () => {
  const whole = stringifyCanonical({ ...REPORT, text: "t".repeat(1_000) });
  const shown = (bound: number): unknown => JSON.parse(shortenReports(whole, bound)?.text ?? "");
  const { steps: _steps, totalTokens: _tokens, ...uncounted } = REPORT;
  const { explanation: _explanation, ...codes } = uncounted;
  const bare = stringifyCanonical({ ...REPORT, text: NOTICE }).length;
  expect(shown(bare + 20)).toEqual({
    ...REPORT,
    text: `${"t".repeat(17)}\n${NOTICE.replace("0", "17")}`,
  });
  expect(shown(bare)).toEqual({ ...REPORT, text: NOTICE });
  const saved = stringifyCanonical(REPORT).length - stringifyCanonical(uncounted).length - 1;
  const digits = String(saved - 2).length - 1;
  const some = saved - 2 - digits;
  expect(shown(bare - 1)).toEqual({
    ...uncounted,
    text: `${"t".repeat(some)}\n${NOTICE.replace("0", String(some))}`,
  });
  const least = stringifyCanonical({ ...uncounted, text: NOTICE }).length;
  expect(shown(least)).toEqual({ ...uncounted, text: NOTICE });
  expect(shown(least - 1)).toEqual(codes);
  expect(shown(stringifyCanonical(codes).length - 1)).toEqual({
    subagent: "child#1",
    outcome: "failed",
  });
  expect(shown(0)).toEqual({ subagent: "child#1", outcome: "failed" });
});

test("replaces an oversized typed result by the beginning of its JSON", () => {
  const output = { cities: Array.from({ length: 100 }, (_, index) => `city ${index}`) };
  const whole = stringifyCanonical({ ...REPORT, outcome: "completed", output });
  const { text = "" } = shortenReports(whole, 400) ?? {};
  expect(text.length).toBeLessThanOrEqual(400);
  const size = stringifyCanonical(output).length;
  const count = Number(/Shortened: (\d+) of/.exec(text)?.[1]);
  expect(count).toBeGreaterThan(50);
  expect(JSON.parse(text)).toEqual({
    ...REPORT,
    outcome: "completed",
    output: `${stringifyCanonical(output).slice(0, count)}\n${NOTICE.replace("0 of 1000", `${count} of ${size}`)}`,
  });
});

test("does not shorten a report that is already minimal, and adds no notice", () => {
  const text = '{"status":"running","subagent":"child#1"}';
  expect(shortenReports(text, 10)).toEqual({
    text,
    isShortened: false,
    totalCharacters: text.length,
    shownCharacters: text.length,
  });
});

test("does not treat other texts as subagent reports", () => {
  const deep = `${"[".repeat(20_000)}${"]".repeat(20_000)}`;
  for (const text of [
    "",
    "Not started: there is no subagent.",
    "{}",
    "[]",
    "null",
    '{"subagent":"child#1"}',
    '{"outcome":"completed"}',
    '{"subagent":1,"outcome":"completed"}',
    `{"subagent":"child#1","outcome":"completed","status":"${"s".repeat(1_000)}"}`,
    `{"subagent":"${"s".repeat(1_000)}","outcome":"completed"}`,
    '{"subagent":"child#1","outcome":"completed"}\nand a word',
    `{"subagent":"child#1","outcome":"completed","output":${deep}}`,
  ])
    expect(shortenReports(text, 10), text.slice(0, 60)).toBeUndefined();
});
