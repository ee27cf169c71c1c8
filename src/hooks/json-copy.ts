import type { JsonValue } from "../kernel/json.ts";

/** Deeper is a cycle, or nobody's plain data. */
const MAX_LEVELS = 500;

/**
 * A copy of a foreign value that shares nothing with it: each part is read once, by its own enumerable keys. Parts of objects that are
 * undefined are left out, as JSON does. Throws for what is no JSON: functions, class instances, dates, `NaN`, cycles. What the value
 * throws while it is read comes through.
 */
export function jsonCopy(value: unknown, level = 0): JsonValue {
  if (level > MAX_LEVELS) throw new TypeError(`it has more than ${MAX_LEVELS} levels, or a cycle`);
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (Array.isArray(value)) return Array.from(value, (item: unknown) => jsonCopy(item, level + 1));
  if (isPlainObject(value)) return copyObject(value, level + 1);
  throw new TypeError(`${kindOf(value)} is no JSON`);
}

/** True for objects that were written as such, not made by a class. */
export function isPlainObject(value: unknown): value is object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

// `fromEntries` defines what it makes: a key `__proto__` is a key like any other.
function copyObject(value: object, level: number): JsonValue {
  const parts: [string, JsonValue][] = [];
  for (const key of Object.keys(value)) {
    const part: unknown = Reflect.get(value, key);
    if (part !== undefined) parts.push([key, jsonCopy(part, level)]);
  }
  return Object.fromEntries(parts);
}

function kindOf(value: unknown): string {
  if (typeof value === "number") return String(value);
  return typeof value === "object" ? "an object of a class" : `a value of type ${typeof value}`;
}
