// Goal: long foreign text takes linear time, and no text controls the terminal.
// Method: run all functions that show text on texts that once took quadratic time;
// test/stress/long-text.test.ts has 10 MB of many more.

import ansiRegex from "ansi-regex";
import stringWidth from "string-width";
import { expect } from "vitest";

import { PrintedText } from "../../src/terminal/printed-text.ts";
import {
  measureDisplayWidth,
  stripControlCharacters,
  formatSingleLine,
  wrapLine,
} from "../../src/terminal/terminal-text.ts";
import { proves } from "../harness/proves.ts";
import { expectFast, expectLinear, longText, REPEATED } from "../support/long-text.ts";
import { RUN_FUNCTIONS, runWith, TEXT_FUNCTIONS } from "../support/text-functions.ts";

const BYTES = 640_000;
const LIBRARY_BYTES = 200_000;
const EXPENSIVE = ["ESC ]", "ESC [", "both C1 controls", "one line", "letters with many marks"];

proves(["D420"], "shows expensive text in linear time", () => {
  for (const input of EXPENSIVE)
    for (const [name, work] of Object.entries(TEXT_FUNCTIONS))
      expectLinear(`${name} of ${input}`, REPEATED[input] ?? "", { bytes: BYTES, work });
});

proves(["D420"], "shows a run whose task and answer are expensive text without delay", async () => {
  for (const input of EXPENSIVE) {
    const run = await runWith(longText(REPEATED[input] ?? "", BYTES));
    for (const [name, work] of Object.entries(RUN_FUNCTIONS))
      expectFast(`${name} of ${input}`, () => work(run));
  }
});

proves(["D420"], "prints a long row that arrives in many chunks without rescanning it", () => {
  expectLinear("pieces", "a", {
    bytes: 1_000_000,
    work: (text) => {
      const printed = new PrintedText();
      for (let at = 0; at < text.length; at += 10) printed.take(text.slice(at, at + 10), Infinity);
      expect(printed.end()).toBe(`${text}\n`);
    },
  });
});

proves(
  ["D421"],
  "removes whole control sequences and leaves no parts that could form another",
  () => {
    expect(
      stripControlCharacters(
        "a\u001b[2Jb\u009b31mc\u001b]0;title\u0007d\u001bPq\u001b\\e\u009dx\u009cf",
      ),
    ).toBe("abcdef");
    // The text of an unterminated sequence is shown.
    expect(stripControlCharacters("\u001b]0;title")).toBe(" ]0;title");
    // A sequence does not hide lines.
    expect(stripControlCharacters("\u001b]0;a\nb\u0007c \u001bPd\te\u009cf")).toBe(
      " ]0;a\nb c  Pd  e f",
    );
    // The characters between the parts are removed, and the parts still form no sequence.
    expect(stripControlCharacters("\u001b\u202e[2J \u001b\u001b[31m[2J")).toBe(" [2J  [2J");
    for (const repeated of Object.values(REPEATED))
      for (const piece of [repeated.slice(1), repeated, `${repeated}\u001b`, `\u001b${repeated}`])
        expect(formatSingleLine(piece.repeat(9))).not.toMatch(
          /[\p{Cc}\u202a-\u202e\u2066-\u2069]/u,
        );
  },
);

proves(
  ["D675"],
  "measures and cleans expensive text in linear time in the libraries that it uses",
  () => {
    // Tests the libraries alone, without our own bounds before them.
    for (const [input, repeated] of Object.entries({ ...REPEATED, "Latin letters": "é" })) {
      const libraries = {
        "ansi-regex": (text: string) => text.replace(ansiRegex(), ""),
        "string-width": (text: string) => stringWidth(text),
        "Intl.Segmenter": (text: string) => Array.from(new Intl.Segmenter().segment(text)).length,
      };
      for (const [name, work] of Object.entries(libraries))
        expectLinear(`${name} of ${input}`, repeated, { bytes: LIBRARY_BYTES, work });
    }
  },
);

proves(["D676"], "limits a row to 32 code units per cell, plus one cell", () => {
  const hostile = [
    `e${"\u0301".repeat(100_000)}`,
    "\u200d👩".repeat(50_000),
    "e\u0301".repeat(50_000),
    "🇫🇷".repeat(50_000),
    "\ud83d".repeat(50_000),
  ];
  for (const line of hostile) {
    const rows = wrapLine(line, 10);
    expect(rows.join("")).toBe(line);
    for (const row of rows) {
      expect(row.length).toBeLessThanOrEqual(32 * 11);
      expect(measureDisplayWidth(row)).toBeLessThanOrEqual(10);
    }
  }
});
