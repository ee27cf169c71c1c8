// Text on a terminal: how wide it is, how to make it fit, and how to keep what a model wrote from
// steering the terminal.

import { stripVTControlCharacters, styleText } from "node:util";

const ELLIPSIS = "…";

/**
 * Cells that a terminal needs for one line of text. Escape sequences need none, wide characters
 * two.
 */
export function displayWidth(text: string): number {
  const plain = stripVTControlCharacters(text);
  if (ASCII.test(plain)) return plain.length;
  let width = 0;
  for (const { segment } of graphemes.segment(plain)) width += graphemeWidth(segment);
  return width;
}

/** The text if it fits into `width` cells, else its beginning and `…`. No escape sequences. */
export function fit(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  if (width <= 0) return "";
  let fitted = "";
  let used = ELLIPSIS.length;
  for (const { segment } of graphemes.segment(text)) {
    used += graphemeWidth(segment);
    if (used > width) break;
    fitted += segment;
  }
  return fitted.trimEnd() + ELLIPSIS;
}

/**
 * Foreign text as one harmless line: no escape sequences, no control characters, no changes of
 * direction.
 */
export function singleLine(text: string): string {
  return harmless(text).replace(/\s+/gu, " ").trim();
}

/** The first line of foreign text that says anything, harmless. */
export function firstLine(text: string): string {
  return singleLine(
    text.split(/[\n\r\u2028\u2029]/u).find((line) => singleLine(line) !== "") ?? "",
  );
}

/**
 * Text of a model, or from elsewhere, as a terminal may be shown it: without escape sequences and
 * other control characters but line breaks.
 */
export function plainText(text: string): string {
  return plainPiece(text)
    .split("\n")
    .map((line) => line.trimEnd())
    .join("\n");
}

/** The same for a piece of a text that continues: blanks at the end of its lines stay. */
export function plainPiece(text: string): string {
  return writtenText(text).replaceAll("\t", "  ");
}

/** The same where nothing measures it, as a result that may be kept in a file: tabs, and blanks at the end of lines, are part of it. */
export function writtenText(text: string): string {
  return text
    .split(/\r\n|[\n\r\u2028\u2029]/u)
    .map((line) => line.split("\t").map(harmless).join("\t"))
    .join("\n");
}

/** One line without escape sequences as rows that fit into `width` cells each, broken between words where that can be. */
export function wrappedRows(line: string, width: number): readonly string[] {
  if (displayWidth(line) <= width) return [line];
  const rows: string[] = [];
  let row = "";
  let used = 0;
  for (const { segment } of graphemes.segment(line)) {
    const needed = graphemeWidth(segment);
    if (used + needed > width && row !== "") {
      const space = segment === " " ? row.length : row.lastIndexOf(" ");
      const end = space > 0 ? space : row.length;
      rows.push(row.slice(0, end).trimEnd());
      row = row.slice(end).trimStart();
      used = displayWidth(row);
      if (row === "" && segment === " ") continue;
    }
    row += segment;
    used += needed;
  }
  return [...rows, row];
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

const ASCII = /^[\x20-\x7e]*$/;
const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });
const INVISIBLE = /^[\p{Cc}\p{Cf}\p{Mn}\p{Me}\p{Default_Ignorable_Code_Point}]+$/u;
// East Asian Wide and Fullwidth, by their first character, and what is drawn as an emoji.
const WIDE = new RegExp(
  [
    "\\uFE0F|^\\p{Emoji_Presentation}",
    "^[\\u1100-\\u115F\\u2E80-\\u303E\\u3041-\\u33FF\\u3400-\\u4DBF\\u4E00-\\uA4CF]",
    "^[\\uA960-\\uA97F\\uAC00-\\uD7A3\\uF900-\\uFAFF\\uFE30-\\uFE6F\\uFF00-\\uFF60\\uFFE0-\\uFFE6]",
    "^[\\u{1B000}-\\u{1B2FF}\\u{1F300}-\\u{1F64F}\\u{1F900}-\\u{1F9FF}\\u{20000}-\\u{3FFFD}]",
  ].join("|"),
  "u",
);

function graphemeWidth(grapheme: string): number {
  if (INVISIBLE.test(grapheme)) return 0;
  return WIDE.test(grapheme) ? 2 : 1;
}

// Control characters become spaces. Marks that turn the direction of writing are left out: they
// could show a name as another one.
function harmless(text: string): string {
  return stripVTControlCharacters(text)
    .replace(/[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069\uFEFF]/gu, "")
    .replace(/[\p{Cc}\u2028\u2029]/gu, " ");
}
