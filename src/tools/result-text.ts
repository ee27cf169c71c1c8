// Converts a tool's result to text for the model: the same text for equal values, and an error
// instead of a silent loss.

import { isPromiseLike } from "../kernel/cancel-signal.ts";
import { getErrorMessage } from "../kernel/error.ts";
import type { JsonValue } from "../kernel/json.ts";
import { redactSecrets } from "./redact-secrets.ts";

/**
 * Returns the text of a tool's result: a text unchanged, nothing as an empty text, other values as
 * JSON with sorted keys, so that equal values have equal texts. Values that JSON cannot express:
 *
 * - an error, also within other values: `{"error":"TypeError","message":"…"}`, without its stack
 *   and without secrets in its message;
 * - a buffer, a typed array or a blob: `[binary: 1234 bytes]`;
 * - a big integer, a date, a URL, `NaN` and the infinities: their text, within other values in
 *   quotes; `-0` is `0`;
 * - a `Map` with text keys: an object; any other `Map`: a list of pairs; a `Set`: a list;
 * - an object with a method `toJSON`: the result of the method;
 * - a function, a symbol or `undefined` is omitted within an object, and `null` within a list, as
 *   in JSON.
 *
 * @throws TypeError if the value is a function or a symbol, contains itself, a promise, or an
 * object of a class without enumerable fields, is deeper than 500 levels, has more than a million
 * parts, or throws while it is read. The message contains the path and advice.
 */
export function formatToolResult(result: unknown): string {
  if (typeof result === "string") return result;
  const plain = copyPlainResult("the result", result);
  if (plain === undefined) return "";
  return typeof plain === "string" ? plain : writeJson(plain);
}

/**
 * Returns the value whose JSON `formatToolResult` returns: an independent copy with sorted keys, or
 * `undefined` for nothing. `name`: the value in error messages.
 *
 * @throws TypeError as `formatToolResult` does.
 */
export function copyPlainResult(name: string, result: unknown): JsonValue | undefined {
  return new ResultReader(name).readWhole(result);
}

/** Returns the name of an error, or of its class if the error has none. Never throws. */
export function getErrorName(error: Error): string {
  try {
    const { name } = error;
    if (typeof name === "string" && name !== "" && name !== "Error") return name;
    const className = getClassName(error);
    return className === "" ? "Error" : className;
  } catch {
    return "Error";
  }
}

/** Deeper values are useless, or are nested endlessly by getters. */
const MAX_LEVELS = 500;
/** More parts are useless to a model. Also bounds the work if one part occurs in many places. */
const MAX_PARTS = 1_000_000;

/** The error of a value that cannot be expressed. Rethrown unchanged by the levels above. */
class InexpressibleValue extends TypeError {}

/** Reads one value. */
class ResultReader {
  readonly #name: string;
  /** The ancestors of the current object. */
  readonly #around = new Set<object>();
  /** The path of the current part. Not reset after an error. */
  readonly #path: (string | number)[] = [];
  #parts = 0;

  constructor(name: string) {
    this.#name = name;
  }

  readWhole(value: unknown): JsonValue | undefined {
    const plain = this.#read(value);
    if (plain !== undefined || value === undefined) return plain;
    const got =
      typeof value === "object" ? "one whose toJSON returns nothing" : `a ${typeof value}`;
    throw this.#createError("a value that JSON can express", got);
  }

  /** `isAsked`: the value is the result of a `toJSON`, which is not called again. */
  #read(value: unknown, isAsked = false): JsonValue | undefined {
    if (value === null || typeof value === "string" || typeof value === "boolean") return value;
    if (typeof value === "number") return readNumber(value);
    if (typeof value === "bigint") return String(value);
    if (typeof value !== "object") return undefined;
    if (this.#around.has(value))
      throw this.#createError("a value that does not contain itself", "a circular reference");
    if (this.#around.size >= MAX_LEVELS) {
      const got = "more levels, or an endlessly nested value";
      throw this.#createError(`a value of at most ${MAX_LEVELS} levels`, got, "Return less.");
    }
    this.#around.add(value);
    try {
      return this.#readObject(value, isAsked);
    } catch (cause) {
      if (cause instanceof InexpressibleValue) throw cause;
      throw this.#createError("readable", `an error: ${getErrorMessage(cause)}`, undefined, {
        cause,
      });
    } finally {
      this.#around.delete(value);
    }
  }

  #readObject(value: object, isAsked: boolean): JsonValue | undefined {
    const isOfClass = !Array.isArray(value) && !isPlainResult(value);
    const known = isOfClass ? readKnown(value) : undefined;
    if (known !== undefined) return known;
    const toJson: unknown = isAsked ? undefined : Reflect.get(value, "toJSON");
    if (typeof toJson === "function") {
      const json: unknown = Reflect.apply(toJson, value, [String(this.#path.at(-1) ?? "")]);
      if (json !== value) return this.#read(json, true);
    }
    if (isPromiseLike(value)) throw this.#createError("a value", "a promise", "Await it.");
    if (Array.isArray(value)) {
      this.#count(value.length);
      return this.#readList(value);
    }
    if (isOfClass && isInstance(value, Set)) return this.#readList(this.#collectParts(value));
    if (isOfClass && isInstance(value, Map)) {
      const entries = this.#collectParts<readonly [unknown, unknown]>(value);
      const isNamed = entries.every(([key]) => typeof key === "string");
      const values = new Map(entries.map(([key, part]) => [String(key), part]));
      return isNamed
        ? this.#readNamed([...values.keys()], (key) => values.get(key))
        : this.#readList(entries);
    }
    const keys = Object.keys(value);
    this.#count(keys.length);
    if (keys.length > 0 || !isOfClass)
      return this.#readNamed(keys, (key) => Reflect.get(value, key));
    const got = `an object of ${getClassName(value) || "some class"} without fields`;
    const advice = "Return its contents: a string, an array or an object with fields.";
    throw this.#createError("plain data", got, advice);
  }

  #readList(list: readonly unknown[]): JsonValue {
    const parts: JsonValue[] = [];
    // Includes holes, which are null in JSON.
    const { length } = list;
    for (let index = 0; index < length; index += 1) {
      this.#path.push(index);
      parts.push(this.#read(list[index]) ?? null);
      this.#path.pop();
    }
    return parts;
  }

  // `fromEntries` defines own properties, so that `__proto__` is an ordinary key.
  #readNamed(keys: readonly string[], readValue: (key: string) => unknown): JsonValue {
    const parts: [string, JsonValue][] = [];
    for (const key of keys.toSorted()) {
      this.#path.push(key);
      const part = this.#read(readValue(key));
      if (part !== undefined) parts.push([key, part]);
      this.#path.pop();
    }
    return Object.fromEntries(parts);
  }

  /** Counts part by part, so that an endless iterator is detected. */
  #collectParts<Part>(parts: Iterable<Part>): readonly Part[] {
    const list: Part[] = [];
    for (const part of parts) {
      this.#count(1);
      list.push(part);
    }
    return list;
  }

  #count(parts: number): void {
    this.#parts += parts;
    if (this.#parts <= MAX_PARTS) return;
    throw this.#createError(`a value of at most ${MAX_PARTS} parts`, "more", "Return less.");
  }

  #createError(
    expected: string,
    got: string,
    advice = "Return plain data.",
    options?: ErrorOptions,
  ): InexpressibleValue {
    const where = `${this.#name}${formatPlace(this.#path)}`;
    return new InexpressibleValue(
      `Expected ${where} to be ${expected}, got ${got}. ${advice}`,
      options,
    );
  }
}

/** Returns the message of an error, also of another realm. */
function readErrorMessage(error: Error): string {
  try {
    const message: unknown = error.message;
    return String(message);
  } catch {
    return getErrorMessage(error);
  }
}

function readNumber(value: number): JsonValue {
  return Number.isFinite(value) ? value + 0 : String(value);
}

/** Returns the value of an object that represents one value, or `undefined`. */
function readKnown(value: object): JsonValue | undefined {
  if (isInstance(value, Error))
    return { error: getErrorName(value), message: redactSecrets(readErrorMessage(value)) };
  const isBuffer = isInstance(value, ArrayBuffer) || isInstance(value, SharedArrayBuffer);
  if (isBuffer || ArrayBuffer.isView(value)) return describeBinary(value.byteLength);
  if (isInstance(value, Blob)) return describeBinary(value.size);
  if (isInstance(value, Date))
    return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
  if (isInstance(value, String)) return String(value);
  if (isInstance(value, Number)) return readNumber(Number(value));
  if (isInstance(value, Boolean)) return String(value) === "true";
  return isInstance(value, URL) ? value.href : undefined;
}

/**
 * Returns true for an instance of a class, also of another realm, which has its own classes with
 * equal tags.
 */
function isInstance<T extends object>(
  value: object,
  maker: (abstract new (...options: never[]) => T) & { readonly name: string },
): value is T {
  return (
    value instanceof maker || Object.prototype.toString.call(value) === `[object ${maker.name}]`
  );
}

function describeBinary(bytes: number): string {
  return `[binary: ${bytes} ${bytes === 1 ? "byte" : "bytes"}]`;
}

/**
 * Returns true for a plain object, also of another realm: its prototype is the last of the chain.
 */
function isPlainResult(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return typeof prototype !== "object" || prototype === null || !Object.getPrototypeOf(prototype);
}

function getClassName(value: object): string {
  const maker: unknown = Reflect.get(value, "constructor");
  return typeof maker === "function" ? maker.name : "";
}

/** Longer paths do not help. */
const MAX_PLACE_CHARACTERS = 60;

/** Formats a path like code: `.items[3]["a b"]`. */
function formatPlace(path: readonly (string | number)[]): string {
  let place = "";
  for (const step of path) {
    if (place.length > MAX_PLACE_CHARACTERS) return `${place}…`;
    place += formatStep(step);
  }
  return place;
}

function formatStep(step: string | number): string {
  if (typeof step === "number") return `[${step}]`;
  const key = step.slice(0, MAX_PLACE_CHARACTERS);
  return /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
}

function writeJson(plain: JsonValue): string {
  try {
    return JSON.stringify(plain);
  } catch (cause) {
    // Each part fits in a string, but the sum exceeds the maximum length.
    const message = "Expected the result to fit in one string, got more. Return less.";
    throw new InexpressibleValue(message, { cause });
  }
}
