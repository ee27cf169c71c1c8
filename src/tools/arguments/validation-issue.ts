// What a schema has against a value, in one shape for zod and for JSON Schema: the part, and the rule
// that it breaks. Coercion goes by issues, and so do the problems that a model reads.

import { isJsonObject, type JsonValue } from "../../kernel/json.ts";
import { ruleWords } from "./schema-words.ts";

/** Keys from the whole to a part; places in lists as text. */
export type Path = readonly string[];

/** A part of a value that breaks a rule. */
export interface ValidationIssue {
  readonly path: Path;
  /** The rule, as a keyword of JSON Schema: `type`, `enum`, `required`, `anyOf`, … */
  readonly keyword: string;
  /** The value of the keyword: the types for `type`, the values for `enum`. */
  readonly allowed: readonly unknown[];
  /** Returns the words for a value that would have fitted. */
  readonly expected: () => string;
  /** The issues with each form of a union. */
  readonly forms?: readonly Issues[];
  /** The properties of the schema by name, if a name is missing or unknown. */
  readonly known?: object | undefined;
}

export type Issues = readonly ValidationIssue[];

/** Returns what a schema has against a value. Empty if it fits. Never throws. */
export type Examine = (value: JsonValue) => Issues;

/** What a schema makes of a value, or has against it. */
export interface Reading {
  /** Empty if the value fits. */
  readonly issues: Issues;
  /** What the schema makes of a value that fits. */
  readonly value?: unknown;
}

/** Returns the issue of a part that breaks a rule. `limit`: the value of the keyword. */
export function brokenRule(
  path: Path,
  keyword: string,
  limit: unknown = [],
  more: Partial<ValidationIssue> = {},
): ValidationIssue {
  const expected = (): string => ruleWords(keyword, limit);
  return { path, keyword, allowed: [limit].flat(), expected, ...more };
}

/** Returns the part at a path, or undefined if there is none. Sees own fields only. */
export function valueAt(whole: JsonValue, path: Path): JsonValue | undefined {
  let at: JsonValue | undefined = whole;
  for (const key of path) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return undefined;
    if (isList(at)) at = at[Number(key)];
    else at = isJsonObject(at) ? at[key] : undefined;
  }
  return at;
}

/** True for an array of JSON values. */
export function isList(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}
