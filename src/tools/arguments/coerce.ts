// Coercion (C20): text becomes the number or the boolean that it spells, and only where a schema refuses that text. Nothing else
// is ever changed, so that what the model wrote can always be seen from what the tool got.

import type { JsonValue } from "../../kernel/json.ts";
import {
  isList,
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
  const changed = withChanges(value, changes, attempts);
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
  if (attempts.left <= 0) return undefined;
  attempts.left -= 1;
  const changes: Change[] = [];
  const issues = examine(value);
  // Unions within come last: they are dear to try, and in vain if anything else stays wrong.
  for (const issue of issues.toSorted((a, b) => dearness(a) - dearness(b))) {
    const change = changeFor(issue, value, attempts);
    if (change !== undefined) changes.push(change);
    else if (issue.type === "union" || issue.isFinal) return undefined;
  }
  const changed = withChanges(value, changes, attempts);
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

/**
 * Returns the value with its changed parts. Wholes come before their parts, so that a part that was
 * changed in its own right stays so. Copies the lists and objects around a change, and shares the rest.
 */
function withChanges(value: JsonValue, changes: readonly Change[], attempts: Attempts): JsonValue {
  const copies = new Set<JsonValue>();
  const changed = ({ path, part }: Change, at: JsonValue, level: number): JsonValue => {
    const key = path[level];
    if (key === undefined) return part;
    const below = valueAt(at, [key]);
    if (below === undefined) return at;
    const copy = copies.has(at) ? at : shallowCopy(at, attempts);
    copies.add(copy);
    replace(copy, key, changed({ path, part }, below, level + 1));
    return copy;
  };
  const sorted = changes.toSorted((a, b) => a.path.length - b.path.length);
  return sorted.reduce((whole, change) => changed(change, whole, 0), value);
}

/** Copying 100 entries takes about as long as an attempt. */
const ENTRIES_PER_ATTEMPT = 100;

function shallowCopy(value: JsonValue, attempts: Attempts): JsonValue {
  if (typeof value !== "object" || value === null) return value;
  const entries = isList(value) ? value.length : Object.keys(value).length;
  attempts.left -= entries / ENTRIES_PER_ATTEMPT;
  return isList(value) ? [...value] : { ...value };
}

/** Redefines an own field: never calls a setter, never sets a prototype. */
function replace(owner: JsonValue, key: string, part: JsonValue): void {
  if (typeof owner !== "object" || owner === null) return;
  const field = { value: part, writable: true, enumerable: true, configurable: true };
  Reflect.defineProperty(owner, key, field);
}
