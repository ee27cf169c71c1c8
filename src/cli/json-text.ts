// JSON as people write it into an option or a prompt.

import type { JsonObject, JsonValue } from "espalier";

/** The JSON object that a text is; undefined: it is none. */
export function objectIn(text: string): JsonObject | undefined {
  const value = parsed(text);
  return isObject(value) ? value : undefined;
}

/** The JSON value that a text is, or the text itself. */
export function jsonOrText(text: string): JsonValue {
  return parsed(text) ?? text;
}

function parsed(text: string): JsonValue | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJson(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `JSON.parse` gives JSON and nothing else. */
function isJson(value: unknown): value is JsonValue {
  return value !== undefined;
}

/** A value as JSON that steers no terminal: what JSON itself leaves as it is of control characters and of marks that turn the direction. */
export function jsonLine(value: unknown): string {
  return JSON.stringify(value).replace(
    STEERING,
    (mark) => `\\u${(mark.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`,
  );
}

const STEERING = /[\u007F-\u009F\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069\uFEFF]/g;
