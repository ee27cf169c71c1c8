/** Value that JSON can represent. Events, results and journals contain only such values. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/**
 * JSON object, such as metadata or the `data` of an error.
 *
 * @example
 * ```ts
 * const metadata: JsonObject = { customer: "acme", tags: ["eu", "trial"] };
 * const started = orchestrator.start(role, "Write a summary.", { metadata });
 * ```
 */
export type JsonObject = { readonly [key: string]: JsonValue };

/** Returns the value of a JSON text. Throws a `SyntaxError` if the text is invalid. */
export function parseJson(text: string): JsonValue {
  // -0 becomes 0, as it would after another round trip through JSON.
  const parsed: unknown = text.includes("-0") ? parseMinusZeros(text) : JSON.parse(text);
  if (isJson(parsed)) return parsed;
  throw new SyntaxError("JSON.parse returned nothing.");
}

/** Returns the value of a JSON text, or `undefined` for any other text. */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Throws a `SyntaxError` for text nested deeper than the call stack, since `JSON.parse` calls a
 * reviver recursively.
 */
function parseMinusZeros(text: string): unknown {
  try {
    return JSON.parse(text, replaceMinusZero);
  } catch (cause) {
    if (cause instanceof RangeError)
      throw new SyntaxError("The JSON is nested too deeply.", { cause });
    throw cause;
  }
}

function replaceMinusZero(_key: string, value: unknown): unknown {
  return Object.is(value, -0) ? 0 : value;
}

/** Returns true for any result of `JSON.parse`. */
export function isJson(value: unknown): value is JsonValue {
  return value !== undefined;
}

/**
 * Returns why a parsed value cannot be stored unchanged: too deep, a number out of range, or a
 * special object key.
 */
export function findJsonProblem(value: JsonValue, levels: number): string | undefined {
  if (typeof value === "number")
    return Number.isFinite(value) ? undefined : "a number is too large";
  if (typeof value !== "object" || value === null) return undefined;
  if (levels === 0) return "it is nested too deeply";
  if (Object.hasOwn(value, "__proto__")) return "a key is named __proto__";
  for (const part of Object.values(value)) {
    if (typeof part === "string") continue;
    const reason = findJsonProblem(part, levels - 1);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

/**
 * Returns a copy of a JSON value of at most `levels` levels, or `undefined` if the value is not
 * JSON. Errors of getters are rethrown.
 */
export function cloneJson(value: unknown, levels: number): JsonValue | undefined {
  if (typeof value === "string" || typeof value === "boolean" || value === null) return value;
  // JSON text would restore -0 as 0, which is also the sum of both.
  if (typeof value === "number") return Number.isFinite(value) ? value + 0 : undefined;
  if (typeof value !== "object" || levels === 0) return undefined;
  if (Array.isArray(value)) {
    const list: JsonValue[] = [];
    for (const part of value) {
      const copy = cloneJson(part, levels - 1);
      if (copy === undefined) return undefined;
      list.push(copy);
    }
    return list;
  }
  if (!isClassless(value)) return undefined;
  const copies: Record<string, JsonValue> = {};
  for (const [key, part] of Object.entries(value)) {
    const copy = cloneJson(part, levels - 1);
    if (copy === undefined || key === "__proto__") return undefined;
    copies[key] = copy;
  }
  return copies;
}

/** Returns true for an object of no class that has no symbols as keys. */
function isClassless(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  const isRoot = prototype === null || Object.getPrototypeOf(prototype) === null;
  return isRoot && Object.getOwnPropertySymbols(value).length === 0;
}

/**
 * Returns JSON text with the keys of every object in order, so that equal values give equal text.
 * Throws a `TypeError` for non-JSON values.
 */
export function stringifyCanonical(value: unknown): string {
  const text: string | undefined = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`A ${typeof value} is not JSON`);
  return JSON.stringify(JSON.parse(text), sortKeys);
}

function sortKeys(_key: string, value: unknown): unknown {
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .toSorted()
      .map((key) => [key, value[key]]),
  );
}

/** Returns a deep copy. For JSON of limited depth. */
export function copyJson(value: JsonValue): JsonValue {
  if (typeof value !== "object" || value === null) return value;
  if (isJsonList(value)) return value.map(copyJson);
  const parts = Object.entries(value);
  for (const part of parts) part[1] = copyJson(part[1]);
  return Object.fromEntries(parts);
}

/** Returns true for an array of JSON values. */
export function isJsonList(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

/**
 * Returns the part at a path of keys, or `undefined` if the path does not exist. Sees own fields
 * only.
 */
export function findValueAtPath(whole: JsonValue, path: readonly string[]): JsonValue | undefined {
  let at: JsonValue | undefined = whole;
  for (const key of path) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return undefined;
    if (isJsonList(at)) at = at[Number(key)];
    else at = isJsonObject(at) ? at[key] : undefined;
  }
  return at;
}

/** Returns true if two parsed values are equal, regardless of the order of their keys. */
export function sameJson(left: unknown, right: unknown): boolean {
  if (typeof left !== "object" || left === null || typeof right !== "object" || right === null)
    return left === right;
  if (Array.isArray(left) !== Array.isArray(right)) return false;
  const keys = Object.keys(left);
  if (keys.length !== Object.keys(right).length) return false;
  return keys.every(
    (key) => Object.hasOwn(right, key) && sameJson(Reflect.get(left, key), Reflect.get(right, key)),
  );
}

/** Returns true for objects other than arrays, like a JSON object. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns true for a JSON object. */
export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns true for object literals and objects without a prototype, not for class instances. */
export function isPlainObject(value: unknown): value is object {
  if (!isRecord(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/**
 * Freezes a plain value to its leaves. Treats an object that is already frozen as deeply frozen, so
 * that shared parts cost nothing. Foreign values must be copied before, never frozen themselves.
 */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  const parts: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  for (const part of parts) if (typeof part === "object") deepFreeze(part);
  return value;
}

/** Returns the object without keys that hold `undefined`, which JSON cannot represent. */
export function omitUndefined<Parts extends object>(
  parts: Parts,
): { readonly [Key in keyof Parts]?: Exclude<Parts[Key], undefined> };
export function omitUndefined(parts: Readonly<Record<string, unknown>>): object {
  const there: Record<string, unknown> = {};
  for (const key in parts) if (parts[key] !== undefined) there[key] = parts[key];
  return there;
}
