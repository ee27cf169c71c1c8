// Coercion (C20): text becomes the number or the boolean that it spells, and only where a schema refuses that text. Nothing else
// is ever changed, so that what the model wrote can always be seen from what the tool got.

import type { JsonValue } from "../../kernel/json.ts";
import {
  valueAt,
  type ValidationIssue,
  type Examine,
  type Path,
  type Reading,
  type Target,
} from "./validation-issue.ts";

/** So many forms of unions are tried before coercion is given up: nested unions must not cost without end. */
const MOST_ATTEMPTS = 10_000;
/** So deep are unions within unions looked into. */
const MOST_LEVELS = 200;

/** A value after coercion, and what its schema makes of it. */
export interface Mended {
  readonly value: JsonValue;
  readonly reading: Reading;
}

/** Replaces the texts in `value` about which there are issues and that can be replaced, and reads it again, once. Copies, never changes. */
export function mend(
  read: (value: JsonValue) => Reading,
  value: JsonValue,
  issues: readonly ValidationIssue[],
): Mended {
  const attempts = { left: MOST_ATTEMPTS, levels: MOST_LEVELS };
  const changes = issues.flatMap((issue) => changeFor(issue, value, attempts) ?? []);
  if (changes.length === 0) return { value, reading: { issues } };
  const changed = withChanges(value, changes);
  return { value: changed, reading: read(changed) };
}

interface Attempts {
  left: number;
  levels: number;
}

interface Change {
  readonly path: Path;
  readonly part: JsonValue;
}

/** What answers a issue; undefined if nothing does. */
function changeFor(
  issue: ValidationIssue,
  value: JsonValue,
  attempts: Attempts,
): Change | undefined {
  const { path } = issue;
  const at = valueAt(value, path);
  const part =
    issue.type === "union" ? fitting(issue.options, at, attempts) : coerced(at, issue.target);
  return part === undefined ? undefined : { path, part };
}

/** The value as one form of a union takes it: coerced so that it fits, or undefined. */
function attempt(examine: Examine, value: JsonValue, attempts: Attempts): JsonValue | undefined {
  if (attempts.left === 0) return undefined;
  attempts.left -= 1;
  const changes: Change[] = [];
  const issues = examine(value);
  // Unions within come last: they are dear to try, and in vain if anything else stays wrong.
  for (const issue of issues.toSorted((a, b) => dearness(a) - dearness(b))) {
    const change = changeFor(issue, value, attempts);
    if (change !== undefined) changes.push(change);
    else if (issue.type === "union" || issue.isFinal) return undefined;
  }
  const changed = withChanges(value, changes);
  return examine(changed).length === 0 ? changed : undefined;
}

function dearness({ type }: ValidationIssue): number {
  return type === "union" ? 1 : 0;
}

/** The value as the first of the schemas takes it. */
function fitting(
  options: readonly Examine[],
  value: JsonValue | undefined,
  attempts: Attempts,
): JsonValue | undefined {
  if (value === undefined || attempts.levels === 0) return undefined;
  attempts.levels -= 1;
  let part: JsonValue | undefined;
  for (const option of options) {
    part = attempt(option, value, attempts);
    if (part !== undefined) break;
  }
  attempts.levels += 1;
  return part;
}

function coerced(value: JsonValue | undefined, target: Target): number | boolean | undefined {
  const spelled = typeof value === "string" ? spelledIn(value) : undefined;
  const isOfType = typeof spelled === "number" ? target.isNumber : target.isBoolean;
  return isOfType || target.values.includes(spelled) ? spelled : undefined;
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

/** Wholes before their parts, so that a part that was changed in its own right stays so. */
function withChanges(value: JsonValue, changes: readonly Change[]): JsonValue {
  let whole = structuredClone(value);
  for (const { path, part } of changes.toSorted((a, b) => a.path.length - b.path.length)) {
    const key = path.at(-1);
    if (key === undefined) whole = structuredClone(part);
    else replace(valueAt(whole, path.slice(0, -1)), key, structuredClone(part));
  }
  return whole;
}

/** Defines an own field that is there already: never a setter, never a prototype. */
function replace(owner: JsonValue | undefined, key: string, part: JsonValue): void {
  if (typeof owner !== "object" || owner === null || !Object.hasOwn(owner, key)) return;
  const field = { value: part, writable: true, enumerable: true, configurable: true };
  Reflect.defineProperty(owner, key, field);
}
