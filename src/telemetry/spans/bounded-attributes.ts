// Limits span attributes to sizes that backends accept: at most 16,384 characters per value.
// Truncated attributes are listed on their span in `espalier.truncated`. A name or description that
// is too long also causes one warning.

import type { Attributes, AttributeValue, Span } from "@opentelemetry/api";

import { NamedOffenders } from "../../kernel/warn-once.ts";
import { ESPALIER } from "../gen-ai-attributes.ts";
import { isJsonList, type JsonValue } from "../../kernel/json.ts";

/**
 * Maximum number of UTF-16 code units in one attribute. OpenTelemetry has no limit by default, and
 * receivers refuse the whole batch if it is too large.
 */
export const MAX_ATTRIBUTE_CHARACTERS = 16_384;

/**
 * Maximum for the name of a span. Viewers show it on one line, and models can have names of any
 * length.
 */
const MAX_NAME_CHARACTERS = 256;

/**
 * Returns the name of a span, truncated if necessary. The attributes of the span contain its parts.
 */
export function shortenSpanName(name: string): string {
  return cutWithMark(name, MAX_NAME_CHARACTERS);
}

/** Names of the truncated attributes by span. */
const shortenedOf = new WeakMap<Span, readonly string[]>();

/** Sets an attribute, truncated if necessary. An `undefined` value is ignored. */
export function setAttribute(span: Span, name: string, value: AttributeValue | undefined): void {
  if (value === undefined) return;
  const isShortened = countAttributeCharacters(value) > MAX_ATTRIBUTE_CHARACTERS;
  span.setAttribute(name, isShortened ? shortenValue(name, value) : value);
  if (isShortened) recordShortenedNames(span, [name]);
}

/** Sets several attributes, each truncated if necessary. */
export function setAttributes(span: Span, attributes: Attributes): void {
  for (const name of Object.keys(attributes)) setAttribute(span, name, attributes[name]);
}

/** Adds names to the list of truncated attributes on a span. */
export function recordShortenedNames(span: Span, names: readonly string[]): void {
  if (names.length === 0) return;
  const all = [...new Set([...(shortenedOf.get(span) ?? []), ...names])];
  shortenedOf.set(span, all);
  span.setAttribute(ESPALIER.truncated, all);
}

/** Returns attributes that can be exported, and the names of the truncated ones. */
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

/**
 * Returns the attributes of a span event, truncated if necessary and without `undefined` values,
 * which OpenTelemetry would export as values without a type.
 */
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

/** Returns the truncated value. Warns once per attribute name. */
function shortenValue(name: string, value: AttributeValue | undefined): AttributeValue {
  const most = MAX_ATTRIBUTE_CHARACTERS.toLocaleString("en-US");
  const got = countAttributeCharacters(value).toLocaleString("en-US");
  offenders.warn(
    name,
    `Expected ${name} to have at most ${most} characters, got ${got}. Traces show its beginning. Shorten it.`,
  );
  if (!Array.isArray(value)) return cutWithMark(String(value), MAX_ATTRIBUTE_CHARACTERS);
  // Keeps the first entries that fit. A single entry never takes the whole limit.
  const fitting: string[] = [];
  let left = MAX_ATTRIBUTE_CHARACTERS - MAX_ENTRY_CHARACTERS;
  for (const entry of value) {
    const short = cutWithMark(String(entry), MAX_ENTRY_CHARACTERS);
    left -= countEntry(short);
    if (left < 0) break;
    fitting.push(short);
  }
  return fitting.length === value.length ? fitting : [...fitting, CUT_MARK];
}

/** Maximum length of an entry in a truncated list. */
const MAX_ENTRY_CHARACTERS = 256;

/** Warnings by attribute name. `gen-ai-attributes.ts` bounds their number. */
const offenders = new NamedOffenders();

// Text and JSON of content, truncated to a length. Pure.

/** End of a truncated text. */
const CUT_MARK = "… (cut)";

/** Returns the text, or its beginning with the mark: at most `maxCharacters` UTF-16 code units. */
export function cutWithMark(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text;
  const beginning = text.slice(0, Math.max(0, maxCharacters - CUT_MARK.length));
  return `${beginning.replace(/[\uD800-\uDBFF]$/, "")}${CUT_MARK}`;
}

/**
 * Returns the JSON text of a value if it is no longer than `room`, else a longer text that begins
 * like it. Reads only as much of the value as fits into `room`.
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
 * Returns an upper bound for the part of `room` that remains after a value as JSON. A negative
 * result means that it does not fit. Characters are counted without escaping, so that nothing has
 * to be written.
 */
function measureRoomAfter(value: JsonValue, room: number): number {
  if (typeof value === "string") return room - value.length - 2;
  if (typeof value !== "object" || value === null) return room - 1;
  let left = room - 1;
  for (const [key, part] of iterateParts(value)) {
    if (left < 0) return left;
    left = measureRoomAfter(part, key === undefined ? left : left - key.length - 3) - 1;
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
