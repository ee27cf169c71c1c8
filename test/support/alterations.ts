// Random alterations of a JSON document: one place is deleted, emptied, replaced, swapped, duplicated or counted
// otherwise. The same seed gives the same alterations.

import { isRecord } from "../../src/kernel/json.ts";

/**
 * An alteration: the operation, its place in the document, and the text of the altered document.
 */
export interface Alteration {
  readonly operation: string;
  /** Keys from the top; positions in lists are `*`, so that equal fields have equal names. */
  readonly field: string;
  readonly path: string;
  readonly text: string;
}

type Path = readonly (string | number)[];
type Random = () => number;

/** The document before, with all places in it. */
interface Source {
  readonly original: unknown;
  readonly paths: readonly Path[];
}

/** Mulberry32. */
function randomFrom(seed: number): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d_2b_79_f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns this number of alterations, each of which changes the document. */
export function* alterations(text: string, count: number, seed = 1): Generator<Alteration> {
  const random = randomFrom(seed);
  const original: unknown = JSON.parse(text);
  const paths = [...pathsOf(original)];
  for (let made = 0; made < count;) {
    const path = pick(paths, random);
    const copy: unknown = JSON.parse(text);
    const operation = alter(copy, path, { original, paths }, random);
    const altered = JSON.stringify(copy);
    if (operation === undefined || altered === text) continue;
    made += 1;
    const field = path.map((key) => (typeof key === "number" ? "*" : key)).join(".");
    yield { operation, field, path: path.join("."), text: altered };
  }
}

function* pathsOf(value: unknown, path: Path = []): Generator<Path> {
  if (path.length > 0) yield path;
  if (Array.isArray(value))
    for (const [index, one] of value.entries()) yield* pathsOf(one, [...path, index]);
  else if (isRecord(value))
    for (const [key, one] of Object.entries(value)) yield* pathsOf(one, [...path, key]);
}

function valueAt(document: unknown, path: Path): unknown {
  let value = document;
  for (const key of path)
    value = typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
  return value;
}

function pick<One>(list: readonly One[], random: Random): One {
  const picked = list[Math.floor(random() * list.length)];
  if (picked === undefined) throw new Error("There is nothing to pick.");
  return picked;
}

/** Alters the document in place. Returns the operation; `undefined` if it does not apply there. */
function alter(
  document: unknown,
  path: Path,
  { original, paths }: Source,
  random: Random,
): string | undefined {
  const holder = valueAt(document, path.slice(0, -1));
  const key = path.at(-1);
  if (typeof holder !== "object" || holder === null || key === undefined) return undefined;
  const value: unknown = Reflect.get(holder, key);
  const set = (next: unknown): void => void Reflect.set(holder, key, next);
  const operation = pick(["delete", "empty", "replace", "swap", "duplicate", "number"], random);
  switch (operation) {
    case "delete":
      if (Array.isArray(holder)) holder.splice(Number(key), 1);
      else Reflect.deleteProperty(holder, key);
      return operation;
    case "empty":
      if (Array.isArray(value)) set([]);
      else if (isRecord(value)) set({});
      else if (typeof value === "string") set("");
      else set(null);
      return operation;
    case "replace": {
      const alike = paths.filter((one) => kindOf(valueAt(original, one)) === kindOf(value));
      set(structuredClone(valueAt(original, pick(alike, random))));
      return operation;
    }
    case "swap": {
      const siblings = Object.keys(holder);
      const other = pick(siblings, random);
      const there: unknown = Reflect.get(holder, other);
      Reflect.set(holder, other, value);
      set(there);
      return operation;
    }
    case "duplicate":
      if (!Array.isArray(holder)) return undefined;
      holder.splice(Number(key), 0, structuredClone(value));
      return operation;
    case "number":
      if (typeof value === "boolean") set(!value);
      else if (typeof value === "number")
        set(pick([0, 1, value + 1, Math.max(0, value - 1), value * 10, 1_000_000], random));
      else return undefined;
      return operation;
    default:
      return undefined;
  }
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "list" : typeof value;
}
