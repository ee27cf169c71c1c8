// Validation of user input. Each check throws one coded error with the field, the expected and the
// actual value.

import { EspalierError } from "./error.ts";
import { isPlainObject, isRecord } from "./json.ts";
import { adviseOnName } from "./option-names.ts";

/** Advice for a limit without a default. */
export const NO_LIMIT_ADVICE = "Leave it out for no limit.";

const DEFAULT_ADVICE = "Leave it out for the default.";

/**
 * Throws `invalid_argument` unless `value` is a whole number from 0 up. Zero means zero, never "no
 * limit". `advice` must describe the effect of omitting the option.
 */
export function checkCount(field: string, value: unknown, advice = DEFAULT_ADVICE): void {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return;
  throw mismatch(field, "a whole number from 0 up", value, advice);
}

/** Throws `invalid_argument` unless `value` is a whole number from 1 up. */
export function checkAtLeastOne(field: string, value: unknown, advice: string): void {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 1) return;
  throw mismatch(field, "a whole number from 1 up", value, advice);
}

/**
 * Throws `invalid_argument` unless `value` is a finite number from 0 up. `advice` must describe the
 * effect of omitting the option.
 */
export function checkAmount(field: string, value: unknown, advice = DEFAULT_ADVICE): void {
  if (typeof value === "number" && Number.isFinite(value) && value >= 0) return;
  throw mismatch(field, "a finite number from 0 up", value, advice);
}

/** Returns the advice for a number that has a default. */
export function adviseDefault(value: number): string {
  return `Leave it out for the default, ${groupDigits(value)}.`;
}

/** Formats a whole number with thousands separators, such as `12,000`. */
export function groupDigits(whole: number): string {
  return String(whole).replaceAll(/\B(?=(?:\d{3})+$)/g, ",");
}

/**
 * Throws `invalid_argument` unless `value` is a plain object with known keys only, since a misspelt
 * key must not switch a limit off. `advise` returns the remedy for an unknown key.
 */
export function checkKeys(
  field: string,
  value: unknown,
  known: readonly string[],
  advise = adviseOnName,
): void {
  if (!isPlainObject(value)) throw createNoObjectError(field, value, known);
  const unknown = Object.keys(value).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  const expected = `one of ${known.join(", ")}`;
  throw mismatch(`${field}.${unknown}`, expected, unknown, advise(unknown, known));
}

function createNoObjectError(
  field: string,
  value: unknown,
  known: readonly string[],
): EspalierError {
  const advice = value instanceof Promise ? "Await it." : `Its fields are ${known.join(", ")}.`;
  return mismatch(field, "a plain object", value, advice);
}

/**
 * Checks the fields of an options object with the check of each field. Skips omitted fields. Throws
 * `invalid_argument` for fields without a check. `advise` returns the remedy for them.
 */
export function checkFields(
  field: string,
  options: object,
  checks: FieldChecks,
  advise = adviseOnName,
): void {
  checkKeys(field, options, Object.keys(checks), advise);
  for (const [key, value] of Object.entries(options))
    if (value !== undefined) checks[key]?.(`${field}.${key}`, value);
}

/** Checks of the fields, by field name. */
export type FieldChecks = Readonly<Record<string, FieldCheck>>;

/** Throws `invalid_argument` for a value that the field cannot have. */
export type FieldCheck = (field: string, value: unknown) => void;

/** Accepts every value of a field, which is checked elsewhere. */
export const checkLater: FieldCheck = () => undefined;

/** Throws `invalid_argument` unless `value` is true or false. */
export function checkBoolean(field: string, value: unknown, advice = "Set true or false."): void {
  if (typeof value !== "boolean") throw mismatch(field, "true or false", value, advice);
}

/** Throws `invalid_argument` unless `value` is an object with these methods. */
export function checkMethods(field: string, value: unknown, methods: readonly string[]): void {
  const owner = typeof value === "object" && value !== null ? value : {};
  const missing = methods.find((method) => typeof Reflect.get(owner, method) !== "function");
  if (missing === undefined) return;
  throw mismatch(
    field,
    `an object with ${methods.map((method) => `${method}()`).join(", ")}`,
    value,
    "See its TypeScript type.",
  );
}

/** Throws `invalid_argument` if one of these options is set although `chosen` replaces them. */
export function checkLeftOut<Options extends object>(
  options: Options,
  fields: readonly (keyof Options & string)[],
  chosen: string,
  advice: string,
): void {
  const extra = fields.find((field) => options[field] !== undefined);
  if (extra !== undefined)
    throw mismatch(extra, `left out when ${chosen} is set`, options[extra], advice);
}

/**
 * Throws `invalid_argument` unless `value` is text that matches `pattern`. `words` describe the
 * pattern in plain English.
 */
export function checkName(field: string, value: unknown, pattern: RegExp, words: string): void {
  if (typeof value === "string" && pattern.test(value)) return;
  throw mismatch(field, words, value, "Choose another name.");
}

/** Checks a name that appears in paths and messages. */
export function checkIdentifier(field: string, value: unknown): void {
  const words = "letters, digits, _ and -, at most 64, a letter first";
  checkName(field, value, /^[A-Za-z][A-Za-z0-9_-]{0,63}$/, words);
}

/** Throws `invalid_argument` unless `value` is text with something in it. */
export function checkText(field: string, value: unknown): void {
  if (typeof value === "string" && value.trim() !== "") return;
  throw mismatch(field, "a non-empty string", value, "Pass some text.");
}

/** Throws `invalid_argument` unless `value` is an object, such as a message. */
export function checkObject(field: string, value: unknown, advice: string): void {
  if (!isRecord(value)) throw mismatch(field, "an object", value, advice);
}

/** Throws `invalid_argument` unless `value` is an object that can be iterated. */
export function checkIterable(field: string, value: unknown, advice: string): void {
  if (typeof value === "object" && value !== null && Symbol.iterator in value) return;
  throw mismatch(field, "an array or another iterable", value, advice);
}

/** Throws `invalid_argument` unless `value` is a function. */
export function checkFunction(field: string, value: unknown, advice = "Pass a function."): void {
  if (typeof value !== "function") throw mismatch(field, "a function", value, advice);
}

/**
 * Returns the given name, or the name of the function. Throws `invalid_argument` if the name is
 * not text.
 */
export function nameFunction(
  field: string,
  name: string | undefined,
  work: { readonly name: unknown },
): string | undefined {
  if (name !== undefined) checkText(field, name);
  const ownName = typeof work.name === "string" && work.name.trim() !== "" ? work.name : undefined;
  return name ?? ownName;
}

/** Returns a frozen copy of names of tools. Throws `invalid_argument` for an empty list. */
export function copyToolNames(
  field: string,
  names: readonly string[] | undefined,
): readonly string[] | undefined {
  if (names === undefined) return undefined;
  checkList(field, names);
  if (names.length === 0)
    throw mismatch(field, "at least one tool name", names, "Leave it out for all tools.");
  for (const [index, name] of names.entries()) checkText(`${field}[${index}]`, name);
  return Object.freeze([...names]);
}

/** The kinds of the objects that a function of the library created, such as "a guard". */
const kinds = new WeakMap<object, string>();

/** Freezes an object, and registers it for `checkCreated`. */
export function registerCreated<T extends object>(kind: string, value: T): Readonly<T> {
  kinds.set(value, kind);
  return Object.freeze(value);
}

/** Throws `invalid_argument` unless `values` is a list of registered objects of the kind. */
export function checkCreated(field: string, values: unknown, kind: string, advice: string): void {
  checkList(field, values);
  const list: readonly unknown[] = Array.isArray(values) ? values : [];
  for (const [index, value] of list.entries())
    if (typeof value !== "object" || value === null || kinds.get(value) !== kind)
      throw mismatch(`${field}[${index}]`, kind, value, advice);
}

/** Throws `invalid_argument` unless `value` is a list. */
export function checkList(field: string, value: unknown, advice?: string): void {
  if (Array.isArray(value)) return;
  throw mismatch(field, "an array", value, advice ?? chooseListAdvice(value));
}

function chooseListAdvice(value: unknown): string {
  if (value instanceof Promise) return "Await it.";
  const isObject = typeof value === "object" && value !== null;
  return isObject ? "List its parts: [a, b]." : "Pass an array: [a, b].";
}

/** Creates an error about an invalid value, with the expected and the actual value and the remedy. */
export function mismatch(
  field: string,
  expected: string,
  value: unknown,
  advice: string,
): EspalierError {
  const got = describeReceived(value);
  const message = `Expected ${field} to be ${expected}, got ${got}. ${advice}`;
  return new EspalierError({ code: "invalid_argument", message, data: { field, expected, got } });
}

/** Describes a received value in a few words. */
export function describeReceived(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "function") return "a function";
  if (value instanceof Promise) return "a promise";
  if (typeof value === "object" && value !== null)
    return Array.isArray(value) ? "an array" : "an object";
  return String(value);
}
