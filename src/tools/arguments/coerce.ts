// Coercion (C20): text becomes the number or the boolean that it spells, and only where a schema refuses that text. Nothing else
// is ever changed, so that what the model wrote can always be seen from what the tool got.

import { copyJson, type JsonValue } from "../../kernel/json.ts";
import { valueAt, type Path, type Reading, type ValidationIssue } from "./validation-issue.ts";

/** The tag of a zod union is coerced before the fields of its form are read, also within that form. */
const MAX_ROUNDS = 5;

/** A value, and what its schema makes of it. */
export interface Coerced {
  readonly value: JsonValue;
  readonly reading: Reading;
}

/** Replaces the texts about which there are issues and that spell something else. Copies, never changes. */
export function coerce(read: (value: JsonValue) => Reading, written: Coerced): Coerced {
  let { value, reading } = written;
  for (let round = 0; round < MAX_ROUNDS && reading.issues.length > 0; round += 1) {
    const changes = reading.issues.flatMap((issue) => changesFor(issue, value) ?? []);
    if (changes.length === 0) break;
    value = withChanges(value, changes);
    reading = read(value);
  }
  return { value, reading };
}

interface Change {
  readonly path: Path;
  readonly part: number | boolean;
}

/** Returns the changes that resolve an issue, or undefined if none do. */
function changesFor(issue: ValidationIssue, value: JsonValue): readonly Change[] | undefined {
  const { path, keyword, forms } = issue;
  if (forms !== undefined) return firstChanges(forms, value);
  const part = coercedPart(valueAt(value, path), issue);
  if (part !== undefined) return [{ path, part }];
  // The properties of a form that does not fit yet are not evaluated yet.
  return keyword.startsWith("unevaluated") ? [] : undefined;
}

/** Returns the changes that resolve all issues with the first of the forms for which there are any. */
function firstChanges(
  forms: readonly (readonly ValidationIssue[])[],
  value: JsonValue,
): readonly Change[] | undefined {
  for (const form of forms) {
    const changes: Change[] = [];
    const isResolved = form.every((issue) => {
      const found = changesFor(issue, value);
      if (found !== undefined) changes.push(...found);
      return found !== undefined;
    });
    if (isResolved && changes.length > 0) return changes;
  }
  return undefined;
}

function coercedPart(
  value: JsonValue | undefined,
  { keyword, allowed }: ValidationIssue,
): number | boolean | undefined {
  const spelled = typeof value === "string" ? spelledIn(value) : undefined;
  if (spelled === undefined) return undefined;
  const types = typeof spelled === "number" ? ["number", "integer"] : ["boolean"];
  const wanted: readonly unknown[] = keyword === "type" ? types : [spelled];
  const isCoerced = keyword === "type" || keyword === "enum";
  return isCoerced && wanted.some((one) => allowed.includes(one)) ? spelled : undefined;
}

/**
 * What a text spells: `true` and `false`, and a finite number just as JavaScript would write it: no space, no `+`, no exponent of its own,
 * no digit lost.
 */
function spelledIn(text: string): number | boolean | undefined {
  if (text === "true" || text === "false") return text === "true";
  const number = Number(text);
  return Number.isFinite(number) && String(number) === text ? number : undefined;
}

/** Returns a copy with other parts. Redefines own fields: never calls a setter, never sets a prototype. */
function withChanges(value: JsonValue, changes: readonly Change[]): JsonValue {
  let copy = copyJson(value);
  for (const { path, part } of changes) {
    const key = path.at(-1);
    const owner = valueAt(copy, path.slice(0, -1));
    const field = { value: part, writable: true, enumerable: true, configurable: true };
    if (key === undefined) copy = part;
    else if (typeof owner === "object" && owner !== null) Reflect.defineProperty(owner, key, field);
  }
  return copy;
}
