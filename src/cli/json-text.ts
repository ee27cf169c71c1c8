// JSON as people write it into an option or a prompt, and as it is written to a terminal.

import type { JsonObject, JsonValue } from "espalier";

/** The JSON object that a text is; undefined: it is none. */
export function parseJsonObject(text: string): JsonObject | undefined {
  const value = parseStorable(text);
  return isObject(value) ? value : undefined;
}

/** The JSON value that a text is, or the text itself. */
export function parseJsonOrText(text: string): JsonValue {
  return parseStorable(text) ?? text;
}

function parseStorable(text: string): JsonValue | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isParsed(value) && isStorable(value, MOST_LEVELS) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** As deep as the arguments of a call may be. */
const MOST_LEVELS = 200;

/** Returns true if a value has no number beyond all bounds and is not nested deeper than `levels`. */
function isStorable(value: JsonValue, levels: number): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((part) => isStorable(part, levels - 1));
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `JSON.parse` gives JSON and nothing else. */
function isParsed(value: unknown): value is JsonValue {
  return value !== undefined;
}

/** A value as JSON, in one line, that steers no terminal. */
export function formatJsonLine(value: unknown): string {
  return escapeControlCharacters(JSON.stringify(value));
}

/** The same in lines for people. */
export function formatJson(value: unknown): string {
  return escapeControlCharacters(JSON.stringify(value, null, 2));
}

function escapeControlCharacters(json: string): string {
  return json.replace(STEERING, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Control characters and marks that change the direction, as far as JSON leaves them as they are. */
const STEERING = /[\u007F-\u009F\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069\uFEFF]/g;
