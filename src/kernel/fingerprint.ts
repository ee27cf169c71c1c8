import { sha256 } from "./crypto.ts";

/** Values that are nested deeper have no fingerprint. */
const MAX_LEVELS = 200;

/**
 * Returns a hash of plain data: JSON, `undefined`, `NaN`, `bigint`, `Date`, `Map` and `Set`. Equal
 * values have equal hashes, whatever the order of the keys of objects. Returns `undefined` for
 * anything else, such as a function or an instance of a class, and for values that throw when read.
 */
export function computeFingerprint(value: unknown): string | undefined {
  try {
    return sha256(JSON.stringify(tagValue(value, MAX_LEVELS)));
  } catch {
    return undefined;
  }
}

/** Returns the value as JSON in which each part is tagged with its type. Throws if it cannot. */
function tagValue(value: unknown, levels: number): unknown {
  if (levels === 0) throw new TypeError("The value is nested too deeply.");
  const tagPart = (item: unknown): unknown => tagValue(item, levels - 1);
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
    case "bigint":
    case "undefined":
      return [typeof value, String(value)];
    case "object":
      break;
    default:
      throw new TypeError(`A ${typeof value} has no fingerprint.`);
  }
  if (value === null) return value;
  if (Array.isArray(value)) return ["list", ...Array.from(value, tagPart)];
  switch (Object.getPrototypeOf(value)) {
    case Date.prototype:
      return ["date", formatDate(value)];
    case Map.prototype:
      return ["map", ...collectEntries(value).map(tagPart)];
    case Set.prototype:
      return ["set", ...collectEntries(value).map(tagPart)];
    case Object.prototype:
    case null:
      return ["object", ...sortFields(value).map(([key, field]) => [key, tagPart(field)])];
    default:
      throw new TypeError("An instance of a class has no fingerprint.");
  }
}

function formatDate(value: object): string {
  if (!(value instanceof Date)) throw new TypeError("It is not a date.");
  return Number.isNaN(value.getTime()) ? "invalid" : value.toISOString();
}

function collectEntries(value: object): readonly unknown[] {
  if (value instanceof Map || value instanceof Set) return [...value];
  throw new TypeError("It has no entries.");
}

function sortFields(value: object): readonly (readonly [string, unknown])[] {
  if (Object.getOwnPropertySymbols(value).length > 0)
    throw new TypeError("A key that is a symbol has no fingerprint.");
  return Object.entries(value).toSorted(([left], [right]) => (left < right ? -1 : 1));
}
