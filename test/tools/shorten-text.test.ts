// Goal: a long result is shortened to the limit and reports how much is shown; no character is
// split.
// Method: tables of texts and limits.

import { expect, test } from "vitest";

import { shortenText } from "../../src/tools/shorten-text.ts";

function notice(shown: number, total: number): string {
  return `[Shortened: ${shown} of ${total} characters are shown. Ask for a smaller part.]`;
}

test("shows the first 10 of 25 characters and a notice with both numbers", () => {
  expect(shortenText("abcdefghijklmnopqrstuvwxy", 10)).toEqual({
    text: "abcdefghij\n[Shortened: 10 of 25 characters are shown. Ask for a smaller part.]",
    isShortened: true,
    totalCharacters: 25,
    shownCharacters: 10,
  });
});

test("does not change a text within the limit", () => {
  const untouched = { isShortened: false, totalCharacters: 10, shownCharacters: 10 };
  expect(shortenText("abcdefghij", 10)).toEqual({ text: "abcdefghij", ...untouched });
  expect(shortenText("abcdefghij", 11)).toEqual({ text: "abcdefghij", ...untouched });
  expect(shortenText("", 0)).toEqual({
    text: "",
    isShortened: false,
    totalCharacters: 0,
    shownCharacters: 0,
  });
});

test("shows only the notice if the limit is zero", () => {
  expect(shortenText("abc", 0)).toEqual({
    text: notice(0, 3),
    isShortened: true,
    totalCharacters: 3,
    shownCharacters: 0,
  });
});

const FAMILY = "\u{1F468}\u200D\u{1F469}\u200D\u{1F467}"; // 8 code units in one grapheme.
const STACKED = `a${"\u0301".repeat(200)}`;

const CUTS: readonly (readonly [string, string, number, string])[] = [
  ["before a surrogate pair", "ab\u{1F600}cd", 2, "ab"],
  ["in a surrogate pair", "ab\u{1F600}cd", 3, "ab"],
  ["after a surrogate pair", "ab\u{1F600}cd", 4, "ab\u{1F600}"],
  ["in the second of two pairs", "\u{1F600}\u{1F601}\u{1F602}", 3, "\u{1F600}"],
  ["in a pair with which the text begins", "\u{1F600}b", 1, ""],
  ["in a pair that is all there is", "\u{1F600}", 1, ""],
  ["between two lone halves", "\ud83d\ud83d\ud83d", 2, "\ud83d\ud83d"],
  ["between two halves in the wrong order", "a\ude00\ud83db", 2, "a\ude00"],
  ["between a letter and its accent", "xe\u0301y", 2, "x"],
  ["after a letter and its accent", "xe\u0301y", 3, "xe\u0301"],
  ["in an emoji of several parts", `x${FAMILY}y`, 6, "x"],
  ["in a line break of two", "x\r\ny", 2, "x"],
  ["in a letter with which the text begins", "e\u0301y", 1, "e"],
  ["in a letter with 200 accents", `x${STACKED}`, 150, `x${STACKED}`.slice(0, 150)],
  ["far from the beginning", `${"ab".repeat(500)}\u{1F600}`, 1001, "ab".repeat(500)],
];

test.each(CUTS)("shortens %s", (_where, text, limit, shown) => {
  const shortened = shortenText(text, limit);
  expect(shortened).toEqual({
    text: `${shown}${shown === "" ? "" : "\n"}${notice(shown.length, text.length)}`,
    isShortened: true,
    totalCharacters: text.length,
    shownCharacters: shown.length,
  });
});
