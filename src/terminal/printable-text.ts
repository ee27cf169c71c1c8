// Removes everything from foreign text that controls a terminal. Pure and linear in the length of
// the text.
//
// 1. Every control character is removed or replaced, so that the remaining parts cannot form a
//    sequence.
// 2. An escape sequence is removed only as a whole. The printable part of an incomplete one stays.

import ansiRegex from "ansi-regex";

/** Layout of cleaned text. */
interface PrintableOptions {
  /** `line`: one line with single spaces. `rows`: lines without trailing spaces. `text`: lines. */
  readonly layout: "line" | "rows" | "text";
  /** Replaces a tab in `rows` and `text`. */
  readonly tab: string;
}

/** Returns the text without escape sequences, control characters and direction marks. */
export function createPrintable(text: string, { layout, tab }: PrintableOptions): string {
  const plain = stripEscapeSequences(text).replace(DIRECTION_MARKS, "");
  if (layout === "line") return plain.replace(BLANK_BEFORE_BLANK, "").replace(BLANK, " ").trim();
  const lines = plain
    .replace(LINE_ENDS, "\n")
    .replace(TABS, ({ length }) => tab.repeat(length))
    .replace(CONTROLS, " ");
  return layout === "rows" ? lines.replace(TRAILING_SPACES, "") : lines;
}

/**
 * Returns the text without escape sequences. A match that spans lines is kept, because it would
 * hide them.
 */
export function stripEscapeSequences(text: string): string {
  return text.replace(SEQUENCES, (sequence) => (LAYOUT.test(sequence) ? sequence : ""));
}

const SEQUENCES = ansiRegex();
const LAYOUT = /[\t-\r]/;
/** Marks that change the direction of writing, and invisible marks. */
const DIRECTION_MARKS = /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069\uFEFF]/g;
const LINE_ENDS = /\r\n?|[\u2028\u2029]/g;
const TABS = /\t+/g;
const CONTROLS = /[^\P{Cc}\n\t]/gu;
// Without `+`: in a program with many patterns, the engine uses stack space for each repetition.
const BLANK = /[\s\p{Cc}]/gu;
const BLANK_BEFORE_BLANK = /[\s\p{Cc}](?=[\s\p{Cc}])/gu;
// Matches only at the start of a run of spaces, so that each run is read once.
const TRAILING_SPACES = /(?<![^\S\n])[^\S\n]+$/gm;
