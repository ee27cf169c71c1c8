// Text on a terminal: how wide it is, how to make it fit, and how to keep what a model wrote from
// steering the terminal.

import { styleText } from "node:util";

import {
  ASCII,
  CharacterWalk,
  MOST_OF_CHARACTER,
  withoutLongCharacters,
} from "./character-cells.ts";
import { printable, withoutSequences } from "./printable-text.ts";

const ELLIPSIS = "…";

/**
 * Returns the cells that a terminal needs for one line of text. Escape sequences need none, wide
 * characters two. Reads at most 100,000 code units: no terminal is as wide.
 */
export function displayWidth(text: string): number {
  const plain = withoutSequences(text.slice(0, MOST_MEASURED));
  if (ASCII.test(plain)) return plain.length;
  let width = 0;
  const walk = new CharacterWalk(plain);
  while (walk.next()) width += walk.cells;
  return width;
}

/**
 * Returns the text if it fits into `width` cells, else its beginning and `…`. It must not contain
 * escape sequences. Reads only as much of the text as may be shown.
 */
export function fit(text: string, width: number): string {
  const head = beginning(text, width);
  let used = 0;
  let end = 0;
  const walk = new CharacterWalk(head);
  while (used <= width && walk.next()) {
    used += walk.cells;
    if (used < width || (used === width && walk.end === text.length)) ({ end } = walk);
  }
  if (used <= width && end === text.length) return text;
  return width <= 0 ? "" : head.slice(0, end).trimEnd() + ELLIPSIS;
}

/**
 * Returns foreign text as one harmless line that fits into `width` cells. Reads only as much of the
 * text as may be shown, and some escape sequences before it.
 */
export function shortLine(text: string, width = MOST_SHOWN): string {
  const head = beginning(text, width + ROOM_FOR_SEQUENCES);
  return fit(singleLine(head) + (head.length < text.length ? ELLIPSIS : ""), width);
}

/** Returns the first line of foreign text that contains anything, as `shortLine` does. */
export function firstLine(text: string, width = MOST_SHOWN): string {
  const head = text.slice(0, MOST_BEFORE_FIRST_LINE);
  const lines = printable(head, { layout: "rows", tab: " " }).trimStart();
  const end = lines.indexOf("\n");
  if (end !== -1) return shortLine(lines.slice(0, end), width);
  return shortLine(lines + (head.length < text.length ? ELLIPSIS : ""), width);
}

/**
 * Returns foreign text as one harmless line: no escape sequences, no control characters, no changes
 * of direction.
 */
export function singleLine(text: string): string {
  return printable(text, { layout: "line", tab: " " });
}

/**
 * Text of a model, or from elsewhere, as a terminal may be shown it: without escape sequences and
 * other control characters but line breaks.
 */
export function plainText(text: string): string {
  return printable(text, { layout: "rows", tab: TAB_STOP });
}

/** Returns the same for a piece of a text that continues: spaces at the end of its lines stay. */
export function plainPiece(text: string): string {
  return printable(text, { layout: "text", tab: TAB_STOP });
}

/** Returns the same for a file: tabs, and spaces at the end of lines, are part of the text. */
export function writtenText(text: string): string {
  return printable(text, { layout: "text", tab: "\t" });
}

/**
 * Returns one line without escape sequences as rows that fit into `width` cells each, broken between
 * words if possible.
 */
export function wrappedRows(line: string, width: number): readonly string[] {
  if (ASCII.test(line)) return asciiRows(line, width);
  const rows: string[] = [];
  let from = 0;
  let used = 0;
  let space = -1;
  const walk = new CharacterWalk(line);
  while (walk.next()) {
    const { start, end, cells } = walk;
    if (end - start > MOST_OF_CHARACTER) return wrappedRows(withoutLongCharacters(line), width);
    const isSpace = line.charCodeAt(start) === SPACE;
    if (used + cells > width && start > from) {
      const cut = !isSpace && space > from ? space : start;
      rows.push(line.slice(from, cut).trimEnd());
      from = isSpace ? end : cut;
      while (from < start && line.charCodeAt(from) === SPACE) from += 1;
      used = from < start ? displayWidth(line.slice(from, start)) : 0;
      space = -1;
      if (isSpace) continue;
    }
    if (isSpace) space = start;
    used += cells;
  }
  rows.push(line.slice(from));
  return rows;
}

/** Does the same for a line of which each code unit is a character of one cell. */
function asciiRows(line: string, width: number): readonly string[] {
  const rows: string[] = [];
  const step = Math.max(1, width);
  let from = 0;
  while (line.length - from > step) {
    const end = from + step;
    let cut = end;
    while (cut > from && line.charCodeAt(cut) !== SPACE) cut -= 1;
    if (cut === from) cut = end;
    rows.push(line.slice(from, cut).trimEnd());
    from = cut === end && line.charCodeAt(end) === SPACE ? end + 1 : cut;
    while (from < end && line.charCodeAt(from) === SPACE) from += 1;
  }
  rows.push(line.slice(from));
  return rows;
}

/** Returns enough of a text to fill so many cells, cut between two code points. */
function beginning(text: string, cells: number): string {
  const most = Math.max(1, cells + 1) * MOST_OF_CHARACTER;
  if (text.length <= most) return text;
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? most - 1 : most);
}

export type Style = Parameters<typeof styleText>[0];
/** Colours a text, or leaves it as it is. */
export type Paint = (style: Style | undefined, text: string) => string;

export function painter(hasColor: boolean): Paint {
  return (style, text) =>
    hasColor && style !== undefined && text !== ""
      ? styleText(style, text, { validateStream: false })
      : text;
}

const SPACE = 0x20;
const TAB_STOP = "  ";
/** Cells' worth of text in which escape sequences are expected at the beginning of a line. */
const ROOM_FOR_SEQUENCES = 32;
/** Characters in which the first line of a text is expected. */
const MOST_BEFORE_FIRST_LINE = 4_000;
/** Code units of a line that are measured. */
const MOST_MEASURED = 100_000;
/** Cells of a line of a view, unless it is narrower. */
const MOST_SHOWN = 1_000;
