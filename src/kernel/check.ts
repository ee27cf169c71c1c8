// Checks of what a user hands us. Each throws one coded error that names the field, what was expected and what came.

import { EspalierError, type ErrorCode } from "./error.ts";

/** What to do about a limit that has no default. */
const NO_LIMIT = "Leave it out for no limit of its own.";

/**
 * Throws `invalid_option` unless `value` is a whole number from 0 up. Zero means zero, never "no limit". What is left out must mean what
 * `advice` says.
 */
export function checkCount(field: string, value: unknown, advice = NO_LIMIT): void {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return;
  throw mismatch(field, "a whole number from 0 up", value, advice);
}

/** Throws `invalid_option` unless `value` is a finite number from 0 up. What is left out must mean what `advice` says. */
export function checkAmount(field: string, value: unknown, advice = NO_LIMIT): void {
  if (typeof value === "number" && Number.isFinite(value) && value >= 0) return;
  throw mismatch(field, "a finite number from 0 up", value, advice);
}

/** The advice for a number that has a default. */
export function defaultAdvice(value: number): string {
  const grouped = String(value).replaceAll(/\B(?=(?:\d{3})+$)/g, ",");
  return `Leave it out for the default, ${grouped}.`;
}

/** Throws `invalid_option` unless `value` is a plain object with keys of `known` only: a slip must not switch a limit off. */
export function checkKeys(field: string, value: object, known: readonly string[]): void {
  if (!isPlainObject(value)) {
    const advice = value instanceof Promise ? "Await it." : `Its fields are ${known.join(", ")}.`;
    throw mismatch(field, "a plain object", value, advice);
  }
  const unknown = Object.keys(value).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw mismatch(`${field}.${unknown}`, `one of ${known.join(", ")}`, unknown, "Correct the name.");
}

function isPlainObject(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** Throws `invalid_option` unless `value` is an object with these methods. */
export function checkMethods(field: string, value: unknown, methods: readonly string[]): void {
  const owner = typeof value === "object" && value !== null ? value : {};
  const missing = methods.find((method) => typeof Reflect.get(owner, method) !== "function");
  if (missing === undefined) return;
  throw mismatch(
    field,
    `an object with ${methods.map((method) => `${method}()`).join(" and ")}`,
    value,
    "See its type.",
  );
}

/** Throws `invalid_definition` unless `value` is text that `pattern` accepts; `words` say the pattern in plain English. */
export function checkName(field: string, value: unknown, pattern: RegExp, words: string): void {
  if (typeof value === "string" && pattern.test(value)) return;
  throw misdefinition(field, words, value, "Choose another name.");
}

/** Throws `invalid_definition` unless `value` is text with something in it. */
export function checkText(field: string, value: unknown): void {
  if (typeof value === "string" && value.trim() !== "") return;
  throw misdefinition(field, "text that is not empty", value, "Say it in words.");
}

/** Throws `invalid_definition` unless `value` is a list. */
export function checkList(field: string, value: unknown, advice = listAdvice(value)): void {
  if (!Array.isArray(value)) throw misdefinition(field, "a list", value, advice);
}

function listAdvice(value: unknown): string {
  if (value instanceof Promise) return "Await it.";
  const isObject = typeof value === "object" && value !== null;
  return isObject ? "List its parts: [a, b]." : "Put it in brackets.";
}

/** An option that holds something else than it should: what was expected, what came, what to do. */
export function mismatch(
  field: string,
  expected: string,
  got: unknown,
  advice: string,
): EspalierError {
  return errorOf("invalid_option", { field, expected, got: shown(got), advice });
}

/** The same for a part of a definition. */
export function misdefinition(
  field: string,
  expected: string,
  got: unknown,
  advice: string,
): EspalierError {
  return errorOf("invalid_definition", { field, expected, got: shown(got), advice });
}

interface Mismatch {
  readonly field: string;
  readonly expected: string;
  readonly got: string;
  readonly advice: string;
}

function errorOf(code: ErrorCode, { field, expected, got, advice }: Mismatch): EspalierError {
  const message = `Expected ${field} to be ${expected}, got ${got}. ${advice}`;
  return new EspalierError({ code, message, data: { field, expected, got } });
}

/** What came, in a few words. */
export function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "function") return "a function";
  if (value instanceof Promise) return "a promise";
  if (typeof value === "object" && value !== null)
    return Array.isArray(value) ? "an array" : "an object";
  return String(value);
}
