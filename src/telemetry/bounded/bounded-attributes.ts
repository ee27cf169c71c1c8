// Attributes that a backend can take: no value is longer than 16,384 characters, wherever it came from.
// What was shortened is named on its span, in `espalier.truncated`; a name or a description that is too long is also worth a warning, once.

import type { Attributes, AttributeValue, Span } from "@opentelemetry/api";

import { NamedOffenders } from "../../kernel/warn-once.ts";
import { ESPALIER } from "../gen-ai-attributes.ts";
import { isJsonList, type JsonValue } from "../../kernel/json.ts";

/**
 * The most UTF-16 code units of one attribute. OpenTelemetry has no limit of its own, and a receiver refuses a batch that is too large
 * whole.
 */
export const MAX_ATTRIBUTE_CHARACTERS = 16_384;

/** Of the name of a span: viewers show it on one line, OpenTelemetry has no limit, and a model may be named as one likes. */
const MAX_NAME_CHARACTERS = 256;

/** The name of a span, shortened if it is too long. What it is made of is on the span, in its attributes. */
export function shortenSpanName(name: string): string {
  return cutWithMark(name, MAX_NAME_CHARACTERS);
}

/** By span: the names of the attributes that were shortened. */
const shortenedOf = new WeakMap<Span, readonly string[]>();

/** Sets an attribute, shortened if it is too long. One that is undefined is left out. */
export function setAttribute(span: Span, name: string, value: AttributeValue | undefined): void {
  if (value === undefined) return;
  const isShortened = countAttributeCharacters(value) > MAX_ATTRIBUTE_CHARACTERS;
  span.setAttribute(name, isShortened ? shortenValue(name, value) : value);
  if (isShortened) recordShortenedNames(span, [name]);
}

/** The same for several. */
export function setAttributes(span: Span, attributes: Attributes): void {
  for (const name of Object.keys(attributes)) setAttribute(span, name, attributes[name]);
}

/** Names on a span those of its attributes that are not whole. */
export function recordShortenedNames(span: Span, names: readonly string[]): void {
  if (names.length === 0) return;
  const all = [...new Set([...(shortenedOf.get(span) ?? []), ...names])];
  shortenedOf.set(span, all);
  span.setAttribute(ESPALIER.truncated, all);
}

/** Attributes as they can be exported, with the names of those that were shortened. */
export function shortenAttributes(attributes: Attributes): {
  readonly bounded: Attributes;
  readonly shortened: readonly string[];
} {
  const shortened = Object.keys(attributes).filter(
    (name) => countAttributeCharacters(attributes[name]) > MAX_ATTRIBUTE_CHARACTERS,
  );
  if (shortened.length === 0) return { bounded: attributes, shortened };
  const bounded = { ...attributes };
  for (const name of shortened) bounded[name] = shortenValue(name, attributes[name]);
  return { bounded, shortened };
}

/** The same for an event on a span, where OpenTelemetry exports what is undefined as a value without a type. */
export function shortenEventAttributes(attributes: Attributes): Attributes {
  const there = Object.entries(attributes).filter(([, value]) => value !== undefined);
  return shortenAttributes(Object.fromEntries(there)).bounded;
}

/** Returns the length of a text, and of a list the length of its entries with a cost for each. */
function countAttributeCharacters(value: AttributeValue | undefined): number {
  if (typeof value === "string") return value.length;
  if (!Array.isArray(value)) return 0;
  return value.reduce<number>((sum, entry) => sum + countEntry(entry), 0);
}

const ROOM_OF_ENTRY = 16;

function countEntry(entry: unknown): number {
  return ROOM_OF_ENTRY + (typeof entry === "string" ? entry.length : 0);
}

/** Warns about each name once. */
function shortenValue(name: string, value: AttributeValue | undefined): AttributeValue {
  const most = MAX_ATTRIBUTE_CHARACTERS.toLocaleString("en-US");
  const got = countAttributeCharacters(value).toLocaleString("en-US");
  offenders.warn(
    name,
    `Expected ${name} to have at most ${most} characters, got ${got}. Traces show its beginning. Shorten it.`,
  );
  if (!Array.isArray(value)) return cutWithMark(String(value), MAX_ATTRIBUTE_CHARACTERS);
  // The first entries, as many as there is room for, none of them alone taking all of it.
  const kept: string[] = [];
  let left = MAX_ATTRIBUTE_CHARACTERS - MAX_ENTRY_CHARACTERS;
  for (const entry of value) {
    const short = cutWithMark(String(entry), MAX_ENTRY_CHARACTERS);
    left -= countEntry(short);
    if (left < 0) break;
    kept.push(short);
  }
  return kept.length === value.length ? kept : [...kept, CUT_MARK];
}

/** Of an entry of a list that is too long. */
const MAX_ENTRY_CHARACTERS = 256;

/** By the name of the attribute: as many as there are names in `gen-ai-attributes.ts`. */
const offenders = new NamedOffenders();

// Text and JSON of content, cut at a length. Pure.

/** Ends a text that was cut. */
const CUT_MARK = "… (cut)";

/** Returns the text, or its beginning with the mark: at most `maxCharacters` UTF-16 code units. */
export function cutWithMark(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text;
  const beginning = text.slice(0, Math.max(0, maxCharacters - CUT_MARK.length));
  return `${beginning.replace(/[\uD800-\uDBFF]$/, "")}${CUT_MARK}`;
}

/**
 * Returns the JSON text of a value if it is no longer than `room`, else a longer text that begins like
 * it. The work grows with `room`, not with the value: no part beyond is read.
 */
export function beginJson(value: JsonValue, room: number): string {
  return measureRoomAfter(value, room) < 0 ? writeBeginning(value, room) : JSON.stringify(value);
}

function writeBeginning(value: JsonValue, room: number): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, Math.max(0, room) + 1));
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const isList = isJsonList(value);
  let text = isList ? "[" : "{";
  for (const [key, part] of iterateParts(value)) {
    if (text.length > room) return text;
    if (text.length > 1) text += ",";
    if (key !== undefined) text += `${writeBeginning(key, room - text.length)}:`;
    text += writeBeginning(part, room - text.length);
  }
  return `${text}${isList ? "]" : "}"}`;
}

/**
 * Returns how much of `room` a value leaves at most, as JSON. Below 0: it does not fit. What would be
 * escaped is counted as it is, so that nothing is written for the answer.
 */
function measureRoomAfter(value: JsonValue, room: number): number {
  if (typeof value === "string") return room - value.length - 2;
  if (typeof value !== "object" || value === null) return room - 1;
  let left = room - 1;
  if (isJsonList(value)) {
    for (const part of value) {
      if (left < 0) return left;
      left = measureRoomAfter(part, left) - 1;
    }
  } else {
    for (const key of Object.keys(value)) {
      if (left < 0) return left;
      left = measureRoomAfter(value[key] ?? null, left - key.length - 3) - 1;
    }
  }
  return left;
}

/** Iterates over the parts of a list or an object, without reading them all first. */
function* iterateParts(
  value: JsonValue & object,
): Iterable<readonly [string | undefined, JsonValue]> {
  if (isJsonList(value)) for (const part of value) yield [undefined, part];
  else for (const key of Object.keys(value)) yield [key, value[key] ?? null];
}
