// Parses JSON in options and prompts, and formats JSON for a terminal.

import type { JsonObject, JsonValue } from "espalier";

/** Returns the JSON object in a text. `undefined` for any other text. */
export function parseJsonObject(text: string): JsonObject | undefined {
  const value = parseStorable(text);
  return isObject(value) ? value : undefined;
}

/** Returns the JSON value in a text, or else the text itself. */
export function parseJsonOrText(text: string): JsonValue {
  return parseStorable(text) ?? text;
}

function parseStorable(text: string): JsonValue | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isParsed(value) && isStorable(value, MAX_LEVELS) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Maximum depth, as for the arguments of a call. */
const MAX_LEVELS = 200;

/** Returns true if a value has no infinite number and is not nested deeper than `levels`. */
function isStorable(value: JsonValue, levels: number): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((part) => isStorable(part, levels - 1));
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The result of `JSON.parse` is always a JSON value. */
function isParsed(value: unknown): value is JsonValue {
  return value !== undefined;
}

/** Formats a value as JSON on one line, without control characters. */
export function formatJsonLine(value: unknown): string {
  return escapeControlCharacters(JSON.stringify(value));
}

/** Formats a value as indented JSON, without control characters. */
export function formatJson(value: unknown): string {
  return escapeControlCharacters(JSON.stringify(value, null, 2));
}

function escapeControlCharacters(json: string): string {
  return json.replace(STEERING, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Control characters and direction marks that JSON does not escape. */
const STEERING = /[\u007F-\u009F\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069\uFEFF]/g;
