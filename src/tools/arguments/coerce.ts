// Coercion: converts a text to the number or boolean that it spells, only where a schema
// refuses the text. Changes nothing else, so that the text of the model can always be derived from
// the value of the tool.

import { copyJson, findValueAtPath, type JsonValue } from "../../kernel/json.ts";
import type { Issues, Path, ValidationIssue } from "./validation-issue.ts";

/**
 * Maximum readings of a value. The tag of a zod union is coerced before the fields of its form are
 * read.
 */
const MAX_ROUNDS = 8;
/** Maximum forms of unions that are read again. */
const MAX_FORMS = 10_000;

/** The result of reading an input with a schema. */
export interface Reading {
  readonly input: JsonValue;
  /** Empty if the input is valid. */
  readonly issues: Issues;
  /** The parsed value of a valid input. */
  readonly value?: unknown;
}

/** Replaces the texts with issues that spell another value. Works on copies. */
export function coerce(read: (input: JsonValue) => Reading, written: Reading): Reading {
  const search = new ChangeSearch();
  let coerced = written;
  let failed: Reading | undefined;
  for (let round = 0; round < MAX_ROUNDS && coerced.issues.length > 0; round += 1) {
    const { input, issues } = coerced;
    const changes = search.findChanges(issues, input);
    if (changes.length > 0) {
      coerced = read(applyChanges(input, changes));
      continue;
    }
    failed ??= coerced;
    if (!search.startOver()) break;
    coerced = written;
  }
  return coerced.issues.length === 0 ? coerced : (failed ?? coerced);
}

interface ValueChange {
  readonly path: Path;
  readonly part: number | boolean;
}

/**
 * Finds changes that make a value valid. The changes of a union's form that failed are not tried
 * again.
 */
class ChangeSearch {
  #formsLeft = MAX_FORMS;
  /** The first changes for each union, by its path. */
  #triedChanges = new Map<string, string>();
  #unresolved: Path[] = [];
  readonly #refused = new Set<string>();

  /** Returns the changes that resolve some of the issues with a value. */
  findChanges(issues: Issues, value: JsonValue): readonly ValueChange[] {
    this.#unresolved = [];
    return issues.flatMap((issue) => this.#resolveIssue(issue, value) ?? []);
  }

  /**
   * Refuses the changes for unions with unresolved issues. Returns false if no change was refused.
   */
  startOver(): boolean {
    const tried = this.#triedChanges;
    if (tried.size === 0) return false;
    this.#triedChanges = new Map();
    const unions = this.#unresolved.flatMap((path) =>
      [path, ...path.map((_key, level) => path.slice(0, level))].map(formatKey),
    );
    const refused = [...new Set(unions)].flatMap((place) => tried.get(place) ?? []);
    for (const changes of refused) this.#refused.add(changes);
    return refused.length > 0;
  }

  /** Returns the changes that resolve an issue, or `undefined` if none do. */
  #resolveIssue(issue: ValidationIssue, value: JsonValue): readonly ValueChange[] | undefined {
    const { path, keyword, forms } = issue;
    const part = coercePart(findValueAtPath(value, path), issue);
    if (part !== undefined) return [{ path, part }];
    // The properties of a form count as unevaluated until the form matches.
    if (keyword.startsWith("unevaluated")) return [];
    const changes = forms && this.#resolveWithForms(path, forms, value);
    if (changes === undefined) this.#unresolved.push(path);
    return changes;
  }

  /** Returns the changes that resolve all issues of the first form for which this is possible. */
  #resolveWithForms(
    path: Path,
    forms: readonly (() => Issues)[],
    value: JsonValue,
  ): readonly ValueChange[] | undefined {
    for (const form of forms) {
      this.#formsLeft -= 1;
      if (this.#formsLeft < 0) return undefined;
      const changes: ValueChange[] = [];
      const isResolved = form().every((issue) => {
        const resolved = this.#resolveIssue(issue, value);
        if (resolved !== undefined) changes.push(...resolved);
        return resolved !== undefined;
      });
      const text = `${formatKey(path)}: ${JSON.stringify(changes)}`;
      if (!isResolved || changes.length === 0 || this.#refused.has(text)) continue;
      if (!this.#triedChanges.has(formatKey(path))) this.#triedChanges.set(formatKey(path), text);
      return changes;
    }
    return undefined;
  }
}

const formatKey = (path: Path): string => JSON.stringify(path);

function coercePart(
  value: JsonValue | undefined,
  { types = [], values = [], refused }: ValidationIssue,
): number | boolean | undefined {
  // After a transform or a coercion by zod, the issue is about another value than the written one.
  const spelled =
    typeof value === "string" && value === refused ? parseSpelledValue(value) : undefined;
  if (spelled === undefined) return undefined;
  const names = typeof spelled === "number" ? ["number", "integer"] : ["boolean"];
  return names.some((name) => types.includes(name)) || values.includes(spelled)
    ? spelled
    : undefined;
}

/**
 * Returns the value that a text spells: `true`, `false`, or a finite number exactly as JavaScript
 * writes it, without spaces, `+`, another exponent or lost digits.
 */
function parseSpelledValue(text: string): number | boolean | undefined {
  if (text === "true" || text === "false") return text === "true";
  const number = Number(text);
  return Number.isFinite(number) && String(number) === text ? number : undefined;
}

/**
 * Returns a copy with other parts. Redefines own fields, so that no setter is called and no
 * prototype is set.
 */
function applyChanges(value: JsonValue, changes: readonly ValueChange[]): JsonValue {
  let copy = copyJson(value);
  for (const { path, part } of changes) {
    const key = path.at(-1);
    const owner = findValueAtPath(copy, path.slice(0, -1));
    const field = { value: part, writable: true, enumerable: true, configurable: true };
    if (key === undefined) copy = part;
    else if (typeof owner === "object" && owner !== null) Reflect.defineProperty(owner, key, field);
  }
  return copy;
}
