// Foreign text without anything that steers a terminal. Pure and linear in the length of the text.
//
// 1. Every control character is removed or replaced, so that no pieces that remain form a sequence.
// 2. An escape sequence is removed only as a whole. Of an incomplete one the printable part stays.

import { CodeUnits, codeUnitsOf } from "./code-units.ts";

/** How text is cleaned. */
interface PrintableOptions {
  /** `line`: one line with single spaces. `rows`: lines without trailing spaces. `text`: lines. */
  readonly layout: "line" | "rows" | "text";
  /** Replaces a tab in `rows` and `text`. One character, which may be repeated. */
  readonly tab: string;
}

/** Returns the text without escape sequences, control characters and direction marks. */
export function printable(text: string, { layout, tab }: PrintableOptions): string {
  const isLine = layout === "line";
  if (!(isLine ? UNEVEN : STEERING).test(text)) return layout === "rows" ? text.trimEnd() : text;
  const units = codeUnitsOf(text);
  const out = new CodeUnits(units.length);
  let lineStart = 0;
  for (let at = 0; at < units.length; at += 1) {
    const unit = units[at] ?? 0;
    if ((unit > SPACE && unit < 0x7f) || (isPrinted(unit) && !(isLine && isSpace(unit)))) {
      out.push(unit);
    } else if (isDirectionMark(unit)) {
      continue;
    } else if (!isLine && isLineEnd(unit)) {
      if (unit === CARRIAGE_RETURN && units[at + 1] === LINE_FEED) at += 1;
      if (layout === "rows") out.trimEnd(lineStart, isSpace);
      out.push(LINE_FEED);
      lineStart = out.length;
    } else {
      const end = sequenceEnd(units, at);
      if (end > at) at = end - 1;
      else if (!isLine && unit === TAB) {
        const count = runLength(units, at);
        out.pushRun(tab.charCodeAt(0), tab.length * count);
        at += count - 1;
      } else if (!isLine) out.push(SPACE);
      else if (out.length > 0 && out.last !== SPACE) out.push(SPACE);
    }
  }
  if (layout !== "text") out.trimEnd(lineStart, isSpace);
  return out.finish();
}

/** Counts the equal code units from `at` on. */
function runLength(units: Uint16Array, at: number): number {
  let end = at + 1;
  while (end < units.length && units[end] === units[at]) end += 1;
  return end - at;
}

/** Returns the text without escape sequences. */
export function withoutSequences(text: string): string {
  if (!CONTROL.test(text)) return text;
  const units = codeUnitsOf(text);
  const out = new CodeUnits(units.length);
  for (let at = 0; at < units.length; at += 1) {
    const end = sequenceEnd(units, at);
    if (end > at) at = end - 1;
    else out.push(units[at] ?? 0);
  }
  return out.finish();
}

/** Returns true for a mark that changes the direction of writing, or that is not seen at all. */
export function isDirectionMark(unit: number): boolean {
  if (unit < 0x061c) return false;
  return (
    unit === 0x061c ||
    unit === 0x200e ||
    unit === 0x200f ||
    (unit >= 0x202a && unit <= 0x202e) ||
    (unit >= 0x2066 && unit <= 0x2069) ||
    unit === 0xfeff
  );
}

const CONTROL = /\p{Cc}/u;
const STEERING = /[\p{Cc}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069\uFEFF]/u;
/**
 * The same, and all that one line has no room for: spaces in a row or at an end, and other blanks.
 */
const UNEVEN = new RegExp(`${STEERING.source}|[^\\S ]| {2}|^ | $`, "u");

const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const BELL = 0x07;
const ESCAPE = 0x1b;
const SPACE = 0x20;
const STRING_END = 0x9c;

function isControl(unit: number): boolean {
  return unit < 0x20 || (unit >= 0x7f && unit <= 0x9f);
}

function isPrinted(unit: number): boolean {
  return !isControl(unit) && unit !== 0x2028 && unit !== 0x2029 && !isDirectionMark(unit);
}

function isLineEnd(unit: number): boolean {
  return unit === LINE_FEED || unit === CARRIAGE_RETURN || unit === 0x2028 || unit === 0x2029;
}

/** The class `\s` of regular expressions. */
function isSpace(unit: number): boolean {
  if (unit <= 0xa0) return unit === SPACE || unit === 0xa0 || (unit >= 0x09 && unit <= 0x0d);
  if (unit < 0x1680) return false;
  return (
    unit === 0x1680 ||
    (unit >= 0x2000 && unit <= 0x200a) ||
    unit === 0x2028 ||
    unit === 0x2029 ||
    unit === 0x202f ||
    unit === 0x205f ||
    unit === 0x3000 ||
    unit === 0xfeff
  );
}

/**
 * Returns the index after the escape sequence (ECMA-48) that begins at `at`, or `at` if there is
 * no complete one. The search ends at the first character that no sequence contains. No sequence
 * begins before that, so each character is read twice at most.
 */
function sequenceEnd(units: Uint16Array, at: number): number {
  const unit = units[at] ?? 0;
  if (unit === ESCAPE) {
    const next = units[at + 1] ?? 0;
    if (isWithin(next, 0x40, 0x5f)) return bodyEnd(units, at + 2, next + 0x40) ?? at;
    return isWithin(next, 0x30, 0x7e) ? at + 2 : (charsetEnd(units, at) ?? at);
  }
  return isWithin(unit, 0x80, 0x9f) ? (bodyEnd(units, at + 1, unit) ?? at) : at;
}

/** `introducer`: as its C1 control. A control that introduces nothing stands alone. */
function bodyEnd(units: Uint16Array, from: number, introducer: number): number | undefined {
  switch (introducer) {
    case 0x9b:
      return parametersEnd(units, from);
    case 0x90:
    case 0x98:
    case 0x9d:
    case 0x9e:
    case 0x9f:
      return stringEnd(units, from);
    default:
      return from;
  }
}

/** Parameters, intermediate characters, and a final one, as in `31m`. */
function parametersEnd(units: Uint16Array, from: number): number | undefined {
  let at = from;
  while (isWithin(units[at], 0x30, 0x3f)) at += 1;
  while (isWithin(units[at], 0x20, 0x2f)) at += 1;
  return isWithin(units[at], 0x40, 0x7e) ? at + 1 : undefined;
}

/** Printable characters up to the end of a string, as in `0;title`. */
function stringEnd(units: Uint16Array, from: number): number | undefined {
  let at = from;
  while (at < units.length && !isControl(units[at] ?? 0)) at += 1;
  const unit = units[at] ?? 0;
  if (unit === BELL || unit === STRING_END) return at + 1;
  return unit === ESCAPE && units[at + 1] === 0x5c ? at + 2 : undefined;
}

/** A choice of a character set, as in `ESC ( B`. */
function charsetEnd(units: Uint16Array, at: number): number | undefined {
  const isCharset = isWithin(units[at + 1], 0x21, 0x2f);
  return isCharset && isWithin(units[at + 2], 0x30, 0x7e) ? at + 3 : undefined;
}

/** False after the end of the text, where there is no code unit. */
function isWithin(unit: number | undefined, least: number, most: number): boolean {
  return unit !== undefined && unit >= least && unit <= most;
}
