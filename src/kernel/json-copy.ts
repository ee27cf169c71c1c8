import { isPlainObject, type JsonValue } from "./json.ts";

/** Maximum nesting of plain data. */
const MAX_LEVELS = 500;

/** A part of a foreign value that JSON does not have. */
export class NotJsonError extends TypeError {
  /** Path of the value, such as `.items[0].when`. Empty for the whole value. */
  readonly place: string;
  /** Description of the value that is not JSON, such as `a date`. */
  readonly got: string;

  constructor(place: string, got: string) {
    super(`${place === "" ? "it" : place} is ${got}, which is not JSON`);
    this.place = place;
    this.got = got;
  }
}

/**
 * Returns a deep copy of a foreign value. Reads each part once, by its own enumerable keys, and
 * omits `undefined` fields like JSON. Throws a `NotJsonError` for functions, class instances,
 * dates, `NaN` and cycles. Errors of getters are rethrown.
 */
export function copyForeignJson(value: unknown): JsonValue {
  return copyPart(value, undefined);
}

/** A link in the path from a part to the whole value. */
interface Step {
  readonly owner: object;
  readonly key: string | number;
  readonly before: Step | undefined;
  readonly level: number;
}

function copyPart(value: unknown, way: Step | undefined): JsonValue {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  // JSON text would restore -0 as 0.
  if (typeof value === "number" && Number.isFinite(value)) return value === 0 ? 0 : value;
  if (typeof value !== "object") throw createError(way, describeKind(value));
  const level = (way?.level ?? 0) + 1;
  if (level > MAX_LEVELS) throw createError(undefined, `nested deeper than ${MAX_LEVELS} levels`);
  if (isWithinItself(value, way)) throw createError(way, "an object that contains it");
  const createStep = (key: string | number): Step => ({ owner: value, key, before: way, level });
  if (Array.isArray(value))
    return Array.from(value, (item: unknown, index) => copyPart(item, createStep(index)));
  if (!isPlainObject(value)) throw createError(way, describeKind(value));
  // `fromEntries` defines each key, so `__proto__` is an ordinary key.
  const parts: [string, JsonValue][] = [];
  for (const key of Object.keys(value)) {
    const part: unknown = Reflect.get(value, key);
    if (part !== undefined) parts.push([key, copyPart(part, createStep(key))]);
  }
  return Object.fromEntries(parts);
}

function isWithinItself(value: object, way: Step | undefined): boolean {
  for (let step = way; step !== undefined; step = step.before)
    if (step.owner === value) return true;
  return false;
}

function createError(way: Step | undefined, got: string): NotJsonError {
  let place = "";
  for (let step = way; step !== undefined; step = step.before)
    place = (typeof step.key === "number" ? `[${step.key}]` : `.${step.key}`) + place;
  return new NotJsonError(place, got);
}

function describeKind(value: unknown): string {
  if (typeof value === "number") return String(value);
  if (typeof value === "function") return "a function";
  if (value instanceof Date) return "a date";
  if (value instanceof Promise) return "a promise";
  return typeof value === "object" ? "an object of a class" : `of type ${typeof value}`;
}
