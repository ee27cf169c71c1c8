// What a schema has against a value, in one form for zod and for JSON Schema: coercion goes by it, and so do the problems that a model reads.

import { isJsonObject, type JsonValue } from "../../kernel/json.ts";
import { NO_SUCH_PARAMETER } from "./schema-words.ts";

/** Keys from the whole to a part; places in lists as text. */
export type Path = readonly string[];

/** One thing that a schema has against a value. */
export type ValidationIssue = PartIssue | UnionIssue;

/** A part that does not fit, or is missing. */
export interface PartIssue {
  readonly type: "part";
  readonly path: Path;
  /** What is wrong: the type, that it is none of the allowed values, that it is there at all, or something else. */
  readonly about: "type" | "values" | "presence" | "other";
  /** In words; made only where it is read. */
  readonly expected: () => string;
  readonly target: Target;
  /** Whether it stays wrong however other parts change. */
  readonly isFinal: boolean;
}

/** A part that fits none of several schemas, of which it should fit one. */
export interface UnionIssue {
  readonly type: "union";
  readonly path: Path;
  readonly expected: () => string;
  readonly options: readonly Examine[];
}

/** What a schema has against a value; empty: it fits. Never throws. */
export type Examine = (value: JsonValue) => readonly ValidationIssue[];

/** What a schema makes of a value, or has against it. */
export interface Reading {
  /** Empty: it fits. */
  readonly issues: readonly ValidationIssue[];
  /** What the schema makes of a value that fits. */
  readonly value?: unknown;
}

/** The types and values that are expected in place of the value. */
export interface Target {
  readonly isText: boolean;
  readonly isNumber: boolean;
  readonly isBoolean: boolean;
  /** The only values that are allowed. */
  readonly values: readonly unknown[];
}

const NOTHING: Target = { isText: false, isNumber: false, isBoolean: false, values: [] };

/** An issue that no coercion solves. */
export function partIssue(path: Path, expected: () => string, isFinal = true): PartIssue {
  return { type: "part", path, about: "other", expected, target: NOTHING, isFinal };
}

/** A part that should not be there. */
export function unexpectedIssue(path: Path, isFinal = true): PartIssue {
  return { ...partIssue(path, () => NO_SUCH_PARAMETER, isFinal), about: "presence" };
}

/** A part of another type than these. */
export function typeIssue(path: Path, types: readonly string[], expected: () => string): PartIssue {
  const isNumber = types.some((type) => type === "number" || type === "integer" || type === "int");
  const [isText, isBoolean] = [types.includes("string"), types.includes("boolean")];
  const target = { ...NOTHING, isText, isNumber, isBoolean };
  return { ...partIssue(path, expected), about: "type", target };
}

/** A part that is none of these values. */
export function valueIssue(
  path: Path,
  values: readonly unknown[],
  expected: () => string,
): PartIssue {
  return { ...partIssue(path, expected), about: "values", target: { ...NOTHING, values } };
}

/** The part at a path; undefined if there is none. Sees own fields only. */
export function valueAt(whole: JsonValue, path: Path): JsonValue | undefined {
  let at: JsonValue | undefined = whole;
  for (const key of path) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return undefined;
    if (isList(at)) at = at[Number(key)];
    else at = isJsonObject(at) ? at[key] : undefined;
  }
  return at;
}

/** True for what JSON calls an array. */
export function isList(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}
