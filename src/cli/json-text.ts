// JSON as people write it into an option or a prompt, and as it is written to a terminal.

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

/** A value as JSON, in one line, that steers no terminal. */
export function jsonLine(value: unknown): string {
  return steerless(JSON.stringify(value));
}

/** The same in lines for people. */
export function jsonText(value: unknown): string {
  return steerless(JSON.stringify(value, null, 2));
}

/** Of control characters, and of marks that turn the direction, JSON leaves these as they are. */
const STEERING = /[\u007F-\u009F\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069\uFEFF]/g;

function steerless(json: string): string {
  return json.replace(
    STEERING,
    (mark) => `\\u${(mark.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`,
  );
}
