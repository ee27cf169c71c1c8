// CheckWork: bounds the work of validating a value by a foreign JSON Schema. Counts units instead
// of time, so that a value has the same result on every machine and in every replay. A unit takes
// 25 ns or less. Owns the count, does not own the places where work is spent.

import { isJsonList, isJsonObject, type JsonValue } from "../../kernel/json.ts";

const MAX_UNITS = 4_000_000;
/** Larger values are refused unread, since walking and copying them takes too long. */
const MAX_WEIGHT = 3_000_000;
const MAX_LEVELS = 1_000;

/**
 * V8 stores an object with more entries as a hash table, in which an entry takes ten times as long.
 */
const MAX_FAST_ENTRIES = 1_000;
const ENTRY_UNITS = 4;
const SLOW_ENTRY_UNITS = 60;
/** V8 creates a new shape for each object with a unique set of keys. Copying then takes longer. */
const ENTRY_WEIGHT = 8;

/** Building a path of this many characters doubles the price of a unit. */
const PATH_CHARACTERS = 100;

/**
 * Ends a validation that takes too much work. The message describes a value that would be accepted.
 */
export class TooMuchWork extends RangeError {}

export class CheckWork {
  #left = MAX_UNITS;
  #weight = 0;
  #longestPath = 0;

  /** Starts a check of `value`. Throws `TooMuchWork` if the value is too large to be checked. */
  begin(value: JsonValue): void {
    this.#weight = 0;
    this.#longestPath = 0;
    this.#weigh(value, 0, MAX_LEVELS);
    this.#left = MAX_UNITS;
  }

  /** Throws `TooMuchWork` if less than `units` are left. */
  spend(units: number, expected = "a smaller value: checking this one takes too much work"): void {
    this.#left -= units;
    if (this.#left < 0) throw new TooMuchWork(expected);
  }

  /** Spends units on work that builds the path of a part: Ajv copies the keys in it each time. */
  spendOnPath(units: number): void {
    this.spend(units * (1 + this.#longestPath / PATH_CHARACTERS));
  }

  /** Runs `task` with half of the remaining units. The other half remains, whatever it spends. */
  withHalf<Result>(task: () => Result): Result {
    const rest = this.#left / 2;
    this.#left -= rest;
    try {
      return task();
    } finally {
      this.#left = Math.max(this.#left, 0) + rest;
    }
  }

  #weigh(value: JsonValue, path: number, levels: number): void {
    if (typeof value !== "object" || value === null) return;
    if (levels === 0) throw new TooMuchWork("a value that is nested less deeply");
    if (path > this.#longestPath) this.#longestPath = path;
    if (isJsonList(value)) {
      this.#add(ENTRY_UNITS + value.length);
      for (const part of value) this.#weigh(part, path, levels - 1);
    } else if (isJsonObject(value)) {
      const keys = Object.keys(value);
      const entryWeight = keys.length > MAX_FAST_ENTRIES ? SLOW_ENTRY_UNITS : ENTRY_WEIGHT;
      this.#add(ENTRY_UNITS + keys.length * entryWeight);
      for (const key of keys) {
        const below = path + key.length;
        if (below > this.#longestPath) this.#longestPath = below;
        this.#weigh(value[key] ?? null, below, levels - 1);
      }
    }
  }

  #add(weight: number): void {
    this.#weight += weight;
    if (this.#weight > MAX_WEIGHT)
      throw new TooMuchWork("a smaller value: this one has too many parts");
  }
}

/** Returns the price of visiting the entries of an object, or 0 for another value. */
export function computeEntriesPrice(value: JsonValue): number {
  if (!isJsonObject(value)) return 0;
  const { length } = Object.keys(value);
  return length * (length > MAX_FAST_ENTRIES ? SLOW_ENTRY_UNITS : ENTRY_UNITS);
}
