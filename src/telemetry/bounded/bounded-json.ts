// JSON text that keeps to a length: what is too long is shortened inside, so that any reader can still parse it. Pure.
// 1. The text is never longer than asked, and always JSON, as long as what stands for entries of a list is no longer for any of them than
//    for the first two. What fits comes whole.
// 2. The longest parts are shortened first: parts share the room, and what a short one leaves is had by the long ones.
// 3. A mark counts what was left out. No surrogate pair is parted.
// 4. A text costs no more than the room that there is for it; lists and objects are looked through once.

import { grouped } from "../../kernel/check.ts";
import type { JsonObject, JsonValue } from "../../kernel/json.ts";

/** A value as JSON text. */
export interface BoundedJson {
  readonly text: string;
  readonly isShortened: boolean;
}

/** Stands for entries of a list that were left out; `first` is the first of them. */
export type OmittedEntries = (count: number, first: JsonValue) => JsonValue;

/** With less room a text would show nothing but its mark, and a message none of its words. */
const LEAST = 48;
const LEAST_PART = 240;
/** What cannot be shown at all. */
const NOTHING = '"…"';
const MARK_KEY = "…";

/**
 * `value` as JSON of at most `maxCharacters` UTF-16 code units, 240 or more. From a list that has no room for all its entries, those in the
 * middle are left out, the oldest first, and what `leftOut` gives stands for them. The value must hold no cycle and not be nested beyond
 * reason.
 */
export function boundedJson(
  value: JsonValue,
  maxCharacters: number,
  leftOut: OmittedEntries = (count) => leftOutMark(count, "entry"),
): BoundedJson {
  if (lengthOf(value, maxCharacters) <= maxCharacters)
    return { text: JSON.stringify(value), isShortened: false };
  return { text: new Printer(leftOut).shorten(value, maxCharacters), isShortened: true };
}

/** `text`, or its beginning and how much was left out: at most `maxCharacters` UTF-16 code units, 48 or more. */
export function boundedText(text: string, maxCharacters: number): string {
  return text.length <= maxCharacters ? text : beginningOf(text, maxCharacters, plainLength);
}

const PLURALS = {
  character: "characters",
  entry: "entries",
  message: "messages",
  part: "parts",
  tool: "tools",
} as const;

/** `… (12,345 messages left out)`. */
export function leftOutMark(count: number, thing: keyof typeof PLURALS): string {
  return `… (${grouped(count)} ${count === 1 ? thing : PLURALS[thing]} left out)`;
}

class Printer {
  readonly #leftOut: OmittedEntries;

  constructor(leftOut: OmittedEntries) {
    this.#leftOut = leftOut;
  }

  /** JSON of a value in `room` characters, 48 or more. */
  print(value: JsonValue, room: number): string {
    return lengthOf(value, room) <= room ? JSON.stringify(value) : this.shorten(value, room);
  }

  /** The same for a value that is known to be too long. */
  shorten(value: JsonValue, room: number): string {
    if (typeof value === "string") return printedText(value, room);
    if (typeof value !== "object" || value === null) return NOTHING;
    return isList(value) ? this.#printList(value, room) : this.#printObject(value, room);
  }

  #printList(list: readonly JsonValue[], room: number): string {
    if (hasRoomForAll(list, room, (entry) => leastOfEntry(entry, room) + 1))
      return `[${this.#share(list, room - 2).join(",")}]`;
    const [first = null, second = null] = list;
    const marks = [first, second].map((entry) => this.#leftOut(list.length, entry));
    const widest = Math.max(...marks.map((mark) => JSON.stringify(mark).length));
    let left = room - 2 - widest;
    if (left < 0) return NOTHING;
    const leastOfFirst = leastOfEntry(first, room);
    const head = leastOfFirst < left ? 1 : 0;
    left -= head * (leastOfFirst + 1);
    let begin = list.length;
    for (; begin > head; begin -= 1) {
      left -= leastOfEntry(list[begin - 1] ?? null, room) + 1;
      if (left < 0) break;
    }
    const mark = JSON.stringify(this.#leftOut(begin - head, list[head] ?? null));
    const kept = [...list.slice(0, head), ...list.slice(begin)];
    const parts = this.#share(kept, room - 3 - widest);
    return `[${[...parts.slice(0, head), mark, ...parts.slice(head)].join(",")}]`;
  }

  #printObject(value: JsonObject, room: number): string {
    const all = Object.keys(value);
    const isWhole = hasRoomForAll(all, room, (key) => leastOfPair(value, key, room));
    const widest = isWhole ? 0 : printedMark(all.length).length;
    if (room - 2 < widest) return NOTHING;
    const kept = isWhole ? all : fittingKeys(value, all, room - 2 - widest);
    const marks = isWhole ? [] : [printedMark(all.length - kept.length)];
    const keys = kept.map((key) => `${JSON.stringify(key)}:`);
    const parts = this.#share(
      kept.map((key) => value[key] ?? null),
      room - 2 - (isWhole ? 0 : widest + 1) - keys.join("").length,
    );
    return `{${[...keys.map((key, index) => `${key}${parts[index] ?? NOTHING}`), ...marks].join(",")}}`;
  }

  /** Prints parts so that they have room beside each other, with a comma between. */
  #share(parts: readonly JsonValue[], room: number): readonly string[] {
    const lengths = parts.map((part) => lengthOf(part, room));
    const level = levelOf(lengths, room - parts.length + 1);
    return parts.map((part) => this.print(part, level));
  }
}

/** True if each part has room for what is least of it, as `leastOf` gives it. */
function hasRoomForAll<Part>(
  parts: readonly Part[],
  room: number,
  leastOf: (part: Part) => number,
): boolean {
  let left = room - 1;
  return parts.every((part) => {
    left -= leastOf(part);
    return left >= 0;
  });
}

/** The keys that have room with what is least of their values: the first ones, without those that are too long. */
function fittingKeys(value: JsonObject, keys: readonly string[], room: number): readonly string[] {
  const fitting: string[] = [];
  let left = room;
  for (const key of keys) {
    if (left < LEAST_PAIR) break;
    const least = leastOfPair(value, key, left);
    if (least > left) continue;
    left -= least;
    fitting.push(key);
  }
  return fitting;
}

/** `"":1,` */
const LEAST_PAIR = 5;

/** A key with its value, a colon and a comma. */
function leastOfPair(value: JsonObject, key: string, room: number): number {
  return lengthOf(key, room) + leastOf(value[key] ?? null) + 2;
}

/** The most that each may have, so that all together have no more than `room`. */
function levelOf(lengths: readonly number[], room: number): number {
  const ordered = lengths.toSorted((one, other) => one - other);
  let left = room;
  for (const [index, length] of ordered.entries()) {
    const share = Math.floor(left / (ordered.length - index));
    if (length > share) return share;
    left -= length;
  }
  return room;
}

/** How much room a value must have to be shown: no less than `LEAST`, or its length. */
function leastOf(value: JsonValue, most: number = LEAST): number {
  return Math.min(lengthOf(value, most), most);
}

/** The same for an entry of a list: lists and objects need more room to be readable, if there is more. */
function leastOfEntry(entry: JsonValue, room: number): number {
  const isText = typeof entry !== "object" || entry === null;
  return leastOf(entry, isText ? LEAST : Math.min(LEAST_PART, Math.max(LEAST, room >> 1)));
}

/** How long a value is as JSON; if it is longer than `most`, something above that, which is found out without looking at all of it. */
function lengthOf(value: JsonValue, most: number): number {
  if (typeof value === "string")
    return value.length + 2 > most ? most + 1 : JSON.stringify(value).length;
  if (typeof value !== "object" || value === null) return JSON.stringify(value).length;
  return isList(value) ? lengthOfList(value, most) : lengthOfObject(value, most);
}

function lengthOfList(list: readonly JsonValue[], most: number): number {
  let length = 1;
  for (const item of list) {
    length += lengthOf(item, most - length) + 1;
    if (length > most) return length;
  }
  return Math.max(2, length);
}

function lengthOfObject(value: JsonObject, most: number): number {
  let length = 1;
  for (const key of Object.keys(value)) {
    length += lengthOf(key, most - length) + 1;
    if (length <= most) length += lengthOf(value[key] ?? null, most - length) + 1;
    if (length > most) return length;
  }
  return Math.max(2, length);
}

/** Entries of an object that were left out, with the comma before. */
function printedMark(count: number): string {
  return `"${MARK_KEY}":"${leftOutMark(count, "entry")}"`;
}

function printedText(text: string, room: number): string {
  return JSON.stringify(beginningOf(text, room - 2, printedLength));
}

/** The beginning of a text with a mark, in `room` characters as `lengthOf` counts them. */
function beginningOf(text: string, room: number, lengthOf: (code: number) => number): string {
  let left = room - leftOutMark(text.length, "character").length;
  let end = 0;
  while (end < text.length) {
    const code = text.codePointAt(end) ?? 0;
    left -= lengthOf(code);
    if (left < 0) break;
    end += plainLength(code);
  }
  return `${text.slice(0, end)}${leftOutMark(text.length - end, "character")}`;
}

function plainLength(code: number): number {
  return code > 0xff_ff ? 2 : 1;
}

/** With a backslash, or as an escape of six: other controls, and half of a pair. */
function printedLength(code: number): number {
  if (code === 0x22 || code === 0x5c) return 2;
  if (code < 0x20) return SHORT_ESCAPES.has(code) ? 2 : 6;
  return code >= 0xd8_00 && code <= 0xdf_ff ? 6 : plainLength(code);
}

const SHORT_ESCAPES = new Set([8, 9, 10, 12, 13]);

function isList(value: object): value is readonly JsonValue[] {
  return Array.isArray(value);
}
