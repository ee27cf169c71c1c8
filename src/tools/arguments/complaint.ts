// What a schema has against a value, in one form for zod and for JSON Schema: coercion mends by it, problems are told from it.

import type { JsonObject, JsonValue } from "../../kernel/json.ts";

/** Keys from the whole to a part; places in lists as text. */
export type Path = readonly string[];

/** One thing that a schema has against a value. */
export type Complaint = Misfit | UnionMisfit;

/** A part that does not fit, or is missing. */
export interface Misfit {
  readonly type: "misfit";
  readonly path: Path;
  /** What is wrong: the type, that it is none of the allowed values, that it is there at all, or something else. */
  readonly about: "type" | "values" | "presence" | "other";
  /** In words; made only if somebody reads it. */
  readonly expected: () => string;
  readonly wants: Wanted;
  /** Whether it stays wrong however other parts change. */
  readonly isFinal: boolean;
}

/** A part that fits none of several schemas, of which it should fit one. */
export interface UnionMisfit {
  readonly type: "union";
  readonly path: Path;
  readonly expected: () => string;
  readonly options: readonly Examine[];
}

/** What a schema has against a value; empty: it fits. Never throws. */
export type Examine = (value: JsonValue) => readonly Complaint[];

/** What a schema makes of a value. */
export type Reading =
  | { readonly type: "fits"; readonly value: unknown }
  | { readonly type: "misfits"; readonly complaints: readonly Complaint[] };

/** What text may be read as, where it stands. */
export interface Wanted {
  readonly isNumber: boolean;
  readonly isBoolean: boolean;
  /** The only values that are allowed. */
  readonly values: readonly unknown[];
}

const NOTHING: Wanted = { isNumber: false, isBoolean: false, values: [] };

/** A misfit about which nothing can be done but to tell. */
export function misfit(path: Path, expected: () => string, isFinal = true): Misfit {
  return { type: "misfit", path, about: "other", expected, wants: NOTHING, isFinal };
}

/** A part that should not be there. */
export function strayMisfit(path: Path, expected: () => string, isFinal = true): Misfit {
  return { type: "misfit", path, about: "presence", expected, wants: NOTHING, isFinal };
}

/** A part of another type than these. */
export function typeMisfit(path: Path, types: readonly string[], expected: () => string): Misfit {
  const wants: Wanted = {
    isNumber: types.some((type) => type === "number" || type === "integer" || type === "int"),
    isBoolean: types.includes("boolean"),
    values: [],
  };
  return { type: "misfit", path, about: "type", expected, wants, isFinal: true };
}

/** A part that is none of these values. */
export function valueMisfit(
  path: Path,
  values: readonly unknown[],
  expected: () => string,
): Misfit {
  const wants: Wanted = { isNumber: false, isBoolean: false, values };
  return { type: "misfit", path, about: "values", expected, wants, isFinal: true };
}

/** The part at a path; undefined if there is none. Sees own fields only. */
export function valueAt(whole: JsonValue, path: Path): JsonValue | undefined {
  let at: JsonValue | undefined = whole;
  for (const key of path) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return undefined;
    at = isList(at) ? at[Number(key)] : fieldOf(at, key);
  }
  return at;
}

/** True for what JSON calls an array. */
export function isList(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}

function fieldOf(whole: JsonValue, key: string): JsonValue | undefined {
  return isObject(whole) ? whole[key] : undefined;
}

function isObject(value: JsonValue): value is JsonObject {
  return typeof value === "object" && value !== null && !isList(value);
}
