// Measures, fits and cleans text for a terminal. Text from models cannot control the terminal.

import { EspalierError } from "../index.ts";
import { styleText } from "node:util";

import stringWidth from "string-width";

import { createPrintable, stripEscapeSequences } from "./printable-text.ts";

const ELLIPSIS = "…";

/**
 * Returns the cells that a terminal needs for one line of text. Escape sequences need none, wide
 * characters two. Reads at most 100,000 code units: no terminal is as wide.
 */
export function measureDisplayWidth(text: string): number {
  const plain = stripEscapeSequences(text.slice(0, MAX_MEASURED));
  return findCellEnd(plain, Infinity).cells;
}

/**
 * Returns the text if it fits into `width` cells, else its beginning and `…`. It must not contain
 * escape sequences. Reads only as much of the text as may be shown.
 */
export function fit(text: string, width: number): string {
  if (width <= 0) return "";
  const head = takeHead(text, width);
  if (findCellEnd(head, width).end === text.length) return text;
  return head.slice(0, findCellEnd(head, width - 1).end).trimEnd() + ELLIPSIS;
}

/** Returns the end of the characters that fit into `most` cells, and their number of cells. */
function findCellEnd(line: string, most: number): { readonly end: number; readonly cells: number } {
  const first = line.slice(0, 2 * most + 2);
  if (ASCII.test(first)) {
    const end = Math.min(line.length, most);
    return { end, cells: end };
  }
  let end = 0;
  let cells = 0;
  // Each code point of `SIMPLE` needs a cell, so `first` has enough code points.
  for (const character of SIMPLE.test(first) ? first : splitGraphemes(line)) {
    const needed = measureCharacter(character);
    if (cells + needed > most) break;
    end += character.length;
    cells += needed;
  }
  return { end, cells };
}

/**
 * Yields the characters (grapheme clusters) of a line. Yields the code points of a cluster that is
 * longer than any emoji: it may have no end, and terminals show each of its letters.
 */
function* splitGraphemes(line: string): Generator<string, void> {
  for (const { segment } of segmenter.segment(line))
    if (segment.length <= LONGEST_EMOJI) yield segment;
    else yield* segment;
}

/** Returns the number of cells of a character. */
function measureCharacter(character: string): number {
  const known = knownCells.get(character);
  if (known !== undefined) return known;
  if (knownCells.size === MAX_KNOWN) knownCells.clear();
  const cells = stringWidth(character);
  knownCells.set(character, cells);
  return cells;
}

const segmenter = new Intl.Segmenter();
/** `string-width` needs ten times as long as this for a character that is not ASCII. */
const knownCells = new Map<string, number>();

/**
 * Returns foreign text as one harmless line that fits into `width` cells. Reads only as much of the
 * text as may be shown, and some escape sequences before it.
 */
export function formatShortLine(text: string, width = MAX_SHOWN): string {
  const head = takeHead(text, width + ROOM_FOR_SEQUENCES);
  return fit(formatSingleLine(head) + (head.length < text.length ? ELLIPSIS : ""), width);
}

/** Returns the first line of foreign text that contains anything, as `formatShortLine` does. */
export function formatFirstLine(text: string, width = MAX_SHOWN): string {
  const head = text.slice(0, MAX_BEFORE_FIRST_LINE);
  const lines = createPrintable(head, { layout: "rows", tab: " " }).trimStart();
  const end = lines.indexOf("\n");
  if (end !== -1) return formatShortLine(lines.slice(0, end), width);
  return formatShortLine(lines + (head.length < text.length ? ELLIPSIS : ""), width);
}

/**
 * Returns foreign text as one harmless line: no escape sequences, no control characters, no changes
 * of direction.
 */
export function formatSingleLine(text: string): string {
  return createPrintable(text, { layout: "line", tab: " " });
}

/** Throws `invalid_argument` if the first argument of a function of this entry is invalid. */
export function checkArgument(value: unknown, isValid: boolean, expected: string): void {
  if (isValid) return;
  const got = value === null ? "null" : `a value of type ${typeof value}`;
  const message = `Expected ${expected}, got ${got}. Pass it as the first argument.`;
  throw new EspalierError({ code: "invalid_argument", message });
}

/**
 * Returns text that is safe to print on a terminal: without escape sequences and control
 * characters, except line breaks. Tabs become spaces. Spaces at the end of the text stay, so that
 * parts of a stream can be printed one after another.
 *
 * @example
 * ```ts
 * process.stdout.write(stripControlCharacters("\u001b[31mred\u001b[0m\n"));
 * ```
 */
export function stripControlCharacters(text: string): string {
  checkArgument(text, typeof text === "string", "a text for stripControlCharacters");
  return createPrintable(text, { layout: "text", tab: TAB_STOP });
}

/** Returns the same for a file, which keeps its tabs. */
export function formatFileText(text: string): string {
  return createPrintable(text, { layout: "text", tab: "\t" });
}

/**
 * Returns one line without escape sequences as rows that fit into `width` cells each, broken
 * between words if possible. A row has at most 32 code units for each cell, and for one more.
 */
export function wrapLine(line: string, width: number): readonly string[] {
  // No code unit needs more than two cells.
  if (line.length <= width / 2) return [line];
  const rows: string[] = [];
  let from = 0;
  while (true) {
    const head = takeHead(line, width, from);
    const length = findCellEnd(head, width).end || (splitGraphemes(head).next().value ?? "").length;
    if (from + length >= line.length) return [...rows, line.slice(from)];
    const space = line.slice(from, from + length + 1).lastIndexOf(" ");
    const end = from + (space > 0 ? space : length);
    rows.push(line.slice(from, end).trimEnd());
    from = end;
    while (line.charCodeAt(from) === SPACE) from += 1;
  }
}

/** Returns enough of a text to fill so many cells, cut between two code points. */
function takeHead(text: string, cells: number, from = 0): string {
  const end = from + Math.max(1, cells + 1) * MAX_UNITS_PER_CELL;
  if (text.length <= end) return text.slice(from);
  const last = text.charCodeAt(end - 1);
  return text.slice(from, last >= 0xd800 && last <= 0xdbff ? end - 1 : end);
}

export type Style = Parameters<typeof styleText>[0];
/** Colours a text, or returns it unchanged. */
export type Paint = (style: Style | undefined, text: string) => string;

export function createPainter(hasColor: boolean): Paint {
  return (style, text) =>
    hasColor && style !== undefined && text !== ""
      ? styleText(style, text, { validateStream: false })
      : text;
}

const SPACE = 0x20;
/** Text in which each code unit is a character of one cell. */
const ASCII = /^[\x20-\x7e]*$/;
/** Text in which each code point is a character of one or two cells. */
const SIMPLE = new RegExp(
  String.raw`^[^\p{M}\p{C}\p{Grapheme_Extend}\p{Default_Ignorable_Code_Point}\p{Emoji_Modifier}` +
    String.raw`\p{Regional_Indicator}\u0E33\u0EB3\u1100-\u11FF\uA960-\uA97F\uD7B0-\uD7FF]*$`,
  "u",
);
/** Code units of the longest emoji sequences. */
const LONGEST_EMOJI = 15;
/** Maximum of code units that are read per cell. */
const MAX_UNITS_PER_CELL = 32;
/** Maximum number of cached characters. */
const MAX_KNOWN = 1_000;
const TAB_STOP = "  ";
/** Room for escape sequences at the beginning of a line, in cells. */
const ROOM_FOR_SEQUENCES = 32;
/** Number of characters in which the first line of a text is searched. */
const MAX_BEFORE_FIRST_LINE = 4_000;
/** Maximum of code units in a line that are measured. */
const MAX_MEASURED = 100_000;
/** Maximum of cells in a line of a view. */
const MAX_SHOWN = 1_000;
