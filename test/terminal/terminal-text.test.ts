// Goal: text takes the calculated number of cells, and foreign text is harmless.
// Method: examples; random text for the bounds.

import { execFile } from "node:child_process";
import { promisify } from "node:util";

import * as fc from "fast-check";
import { expect, test } from "vitest";

import {
  formatCost,
  describeCost,
  formatDuration,
  formatShortCount,
  describeUnpricedModels,
  formatDollars,
} from "../../src/read-model/amounts.ts";
import {
  measureDisplayWidth,
  formatFirstLine,
  fit,
  formatSingleLine,
  stripControlCharacters,
  wrapLine,
} from "../../src/terminal/terminal-text.ts";
import { proves } from "../harness/proves.ts";

test.each([
  ["plain", 5],
  ["", 0],
  ["├─ ✔", 4],
  ["文書", 4],
  ["한글", 4],
  ["e\u0301", 1],
  ["a\u200bb", 2],
  ["👩‍👩‍👧", 2],
  ["🇫🇷", 2],
  ["✔\uFE0F", 2],
  ["1\uFE0F\u20E3", 2],
  ["\u1112\u1161\u11AB", 2],
  ["naïve Übung", 11],
  // A terminal shows a replacement character for an unpaired surrogate.
  ["\ud83d\ud83d", 2],
  ["\u001b[31mred\u001b[39m", 3],
])("measures %j as %d cells", (text, width) => {
  expect(measureDisplayWidth(text)).toBe(width);
});

test("shortens long text with an ellipsis and never splits a character", () => {
  expect(fit("researcher", 10)).toBe("researcher");
  expect(fit("researchers", 10)).toBe("researche…");
  expect(fit("文書を読む", 6)).toBe("文書…");
  expect(fit("one two", 5)).toBe("one…");
  expect([fit("ab", 1), fit("ab", 0)]).toEqual(["…", ""]);
});

test("counts at least the cells of the characters that the platform's segmenter finds", () => {
  const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });
  const invisible = /^[\p{Cc}\p{Cf}\p{Mn}\p{Me}\p{Default_Ignorable_Code_Point}]+$/u;
  const sequence = fc.constantFrom(
    "👩‍👩‍👧",
    "🇫🇷",
    "🇫",
    "✔\uFE0F",
    "e\u0301",
    "\u1100\u1161\u11a8",
    "\u200d",
  );
  const letters = fc.string({ unit: "grapheme", maxLength: 5 });
  fc.assert(
    fc.property(fc.array(fc.oneof(sequence, letters)), (parts) => {
      const text = parts.join("");
      const segments = [...segmenter.segment(text)].map(({ segment }) => segment);
      const least = segments.filter((segment) => !invisible.test(segment)).length;
      expect(measureDisplayWidth(text)).toBeGreaterThanOrEqual(least);
      expect(measureDisplayWidth(text)).toBeLessThanOrEqual(2 * text.length);
    }),
  );
});

proves(["D720"], "counts each code point of an endless character", () => {
  const joined = "\u{1F468}\u200D".repeat(1_000);
  const conjuncts = "\u0915\u094D".repeat(1_000);
  for (const endless of [joined, conjuncts])
    expect([...new Intl.Segmenter().segment(endless)].length, "one character").toBe(1);
  expect([measureDisplayWidth(joined), measureDisplayWidth(conjuncts)]).toEqual([2_000, 1_000]);
  expect(fit(joined, 10)).toBe(`${"\u{1F468}\u200D".repeat(4)}…`);
  expect(fit(conjuncts, 10)).toBe(`${"\u0915\u094D".repeat(9)}…`);
  expect(wrapLine(joined, 10).length).toBe(200);
  expect(wrapLine(conjuncts, 10).length).toBe(100);
  expect(wrapLine("\u{1F468}\u200D\u{1F469}\u200D\u{1F467}", 1).length, "as written").toBe(1);
});

const PRINTS_CLEANED = `
  const { formatSingleLine } = await import(process.argv[1]);
  const texts = [" ", "\\u2028", "\\0", "\\t"].map((blank) => "a" + blank.repeat(10_000_000));
  const lines = texts.map((text) => formatSingleLine(text + "b"));
  console.log(JSON.stringify(lines));`;

// Simulates a program that has compiled many patterns, in which patterns are not optimised.
proves(["D722"], "cleans ten million consecutive blanks with unoptimised patterns", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [
    "--no-regexp-optimization",
    "--conditions=@espalier/source",
    "--input-type=module",
    "-e",
    PRINTS_CLEANED,
    new URL("../../src/terminal/terminal-text.ts", import.meta.url).href,
  ]);
  expect(JSON.parse(stdout)).toEqual(["a b", "a b", "a b", "a b"]);
});

test("breaks a line between words, keeps its indentation and never splits a character", () => {
  expect(wrapLine("    return value;", 12)).toEqual(["    return", "value;"]);
  expect(wrapLine("one  two   three", 5)).toEqual(["one", "two", "three"]);
  expect(wrapLine("unbroken", 3)).toEqual(["unb", "rok", "en"]);
  expect(wrapLine("文書を読む", 5)).toEqual(["文書", "を読", "む"]);
  expect(wrapLine("e\u0301e\u0301e\u0301", 2)).toEqual(["e\u0301e\u0301", "e\u0301"]);
  expect(wrapLine("👩‍👩‍👧👩‍👩‍👧", 3)).toEqual(["👩‍👩‍👧", "👩‍👩‍👧"]);
  expect(wrapLine("𠀀𠀀𠀀", 4)).toEqual(["𠀀𠀀", "𠀀"]);
  expect(wrapLine("文", 1)).toEqual(["文"]);
});

test("wraps ASCII lines like any other line", () => {
  const words = fc.string({ unit: fc.constantFrom("a", "b", " "), maxLength: 60 });
  fc.assert(
    fc.property(words, fc.integer({ min: 1, max: 9 }), (text, width) => {
      const other = wrapLine(text.replaceAll("a", "é"), width);
      expect(wrapLine(text, width)).toEqual(other.map((row) => row.replaceAll("é", "a")));
    }),
    { numRuns: 1_000 },
  );
});

test("counts a space with a combining mark as one cell", () => {
  expect(measureDisplayWidth(" \u3099")).toBe(1);
});

test("fits any text into any width and pads it to that width", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "binary", maxLength: 30 }).map(formatSingleLine),
      fc.nat(40),
      (text, width) => {
        const fitted = fit(text, width);
        expect(measureDisplayWidth(fitted)).toBeLessThanOrEqual(width);
        const spaces = " ".repeat(width - measureDisplayWidth(fitted));
        expect(measureDisplayWidth(fitted + spaces)).toBe(width);
        expect(measureDisplayWidth(spaces + fitted)).toBe(width);
      },
    ),
  );
});

test("removes control sequences from foreign text and keeps its lines", () => {
  const hostile = "\u001b[2J# Title\r\n\tcode\u0007\u009b31m \u202Eevil\u202C  \nend\u2028next";
  expect(stripControlCharacters(hostile)).toBe("# Title\n  code  evil  \nend\nnext");
  expect(["Split ", "this", " \n"].map(stripControlCharacters).join("")).toBe("Split this \n");
  expect(formatSingleLine(hostile)).toBe("# Title code evil end next");
  expect(formatFirstLine("\n \u001b[31m\n  Read it.\nNow.")).toBe("Read it.");
});

test("leaves no control character except line breaks", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 60 }), (text) => {
      expect(stripControlCharacters(text)).not.toMatch(/(?!\n)\p{Cc}/u);
      expect(formatSingleLine(text)).not.toMatch(/\p{Cc}/u);
    }),
  );
});

test("formats amounts briefly with their unit", () => {
  const counts = [0, 999, 1_000, 9_949, 9_950, 12_345, 999_499, 999_500, 1_240_000];
  expect(counts.map(formatShortCount)).toEqual([
    "0",
    "999",
    "1.0k",
    "9.9k",
    "10k",
    "12k",
    "999k",
    "1.0M",
    "1.2M",
  ]);
  expect([0, 0.000099, 0.0001, 0.012345, 0.999949, 0.99995, 1.5].map(formatDollars)).toEqual([
    "$0",
    "<$0.0001",
    "$0.0001",
    "$0.0123",
    "$0.9999",
    "$1.00",
    "$1.50",
  ]);
  expect([0, 999, 1_000, 59_949, 59_950, 292_000, 3_720_000].map(formatDuration)).toEqual([
    "0ms",
    "999ms",
    "1.0s",
    "59.9s",
    "1m 00s",
    "4m 52s",
    "1h 02m",
  ]);
});

proves(["S7.33", "D586"], "shows neither an unknown nor a pending cost as $0", () => {
  expect(formatCost({ totalTokens: 9, costUsd: 0.005, unpricedCalls: 1 })).toBe("≥$0.0050");
  expect(formatCost({ totalTokens: 9, costUsd: 0.0001, unpricedCalls: 1 })).toBe("≥$0.0001");
  expect(formatCost({ totalTokens: 9, costUsd: 0.000099, unpricedCalls: 1 })).toBe("unknown");
  expect(formatCost({ totalTokens: 9, costUsd: 0, unpricedCalls: 1 })).toBe("unknown");
  expect(formatCost({ totalTokens: 9, costUsd: null, unpricedCalls: 1 })).toBe("unknown");
  expect(formatCost({ totalTokens: 9, costUsd: 0, unpricedCalls: 0 })).toBe("$0");
  expect(formatCost({ totalTokens: 0, costUsd: 0, unpricedCalls: 0 })).toBe("–");
});

proves(["V154"], "describes a cost without a heading, and lists the models without a price", () => {
  expect(describeCost({ totalTokens: 9, costUsd: 0, unpricedCalls: 1 })).toBe("cost unknown");
  expect(describeCost({ totalTokens: 9, costUsd: 0.005, unpricedCalls: 1 })).toBe("≥$0.0050");
  expect([[], ["a"], ["a", "b", "c", "d", "e"]].map(describeUnpricedModels)).toEqual([
    "",
    " (no price for a)",
    " (no price for a, b, c, 2 more)",
  ]);
});
