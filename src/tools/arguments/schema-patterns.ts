// SchemaPatterns: the patterns of one schema, for its checker. Matching spends units of the check in
// progress (check-work.ts): instructions of the pattern times characters of the text.
// Owns the compiled patterns. A pattern that was never matched holds no program: 100 tools that
// are listed and not called held 1 GB.

import { isRecord, type JsonObject, type JsonValue } from "../../kernel/json.ts";
import type { CheckWork } from "./check-work.ts";
import { linearPattern, type LinearPattern } from "./linear-pattern.ts";

/** The units of a step: an instruction of the pattern at a character of the text. */
const UNITS_PER_STEP = 4;
/** Of all patterns of a schema. */
const MOST_INSTRUCTIONS = 100_000;
/** A short pattern takes as much time and memory as one of so many instructions more. */
const BASE_INSTRUCTIONS = 100;

interface Matcher {
  readonly test: (text: string) => boolean;
  /** Ajv knows patterns by it. */
  readonly toString: () => string;
}

export class SchemaPatterns {
  readonly #matchers = new Map<string, Matcher>();
  readonly #unchecked = new Set<string>();
  readonly #work: CheckWork;
  #instructions = 0;

  constructor(work: CheckWork) {
    this.#work = work;
  }

  /** For Ajv. Throws what `linearPattern` throws, and a `RangeError` for patterns that are too much work. */
  readonly engine = Object.assign((pattern: string): Matcher => this.#matcher(pattern), {
    code: "new RegExp",
  });

  /**
   * Says once which patterns are not checked. Throws a `RangeError` if one stands where what is not checked cannot be left out: there,
   * arguments that fit would be refused.
   */
  checkUse(field: string, schema: JsonObject): void {
    if (this.#unchecked.size === 0) return;
    const patterns = [...this.#unchecked].map((pattern) => JSON.stringify(pattern)).join(", ");
    if (this.#isDecisive(schema, false)) {
      throw new RangeError(`it depends on patterns that cannot be matched in time: ${patterns}`);
    }
    const text = `Of ${field}, patterns are not checked that cannot be matched in bounded time: ${patterns}. See docs/tools.md.`;
    process.emitWarning(text, "EspalierWarning");
  }

  #matcher(pattern: string): Matcher {
    const known = this.#matchers.get(pattern);
    if (known !== undefined) return known;
    const size = linearPattern(pattern)?.size;
    if (size === undefined) this.#unchecked.add(pattern);
    this.#instructions += BASE_INSTRUCTIONS + (size ?? 0);
    if (this.#instructions > MOST_INSTRUCTIONS) throw new RangeError("its patterns are too large");
    let linear: LinearPattern | undefined;
    const matcher: Matcher = {
      test: (text) => {
        if (size === undefined) return true;
        const units = UNITS_PER_STEP * size * (text.length + 1);
        this.#work.spend(units, "texts short enough to match patterns with");
        linear ??= linearPattern(pattern);
        return linear?.test(text) ?? true;
      },
      toString: () => pattern,
    };
    this.#matchers.set(pattern, matcher);
    return matcher;
  }

  /** True if a pattern that is not checked stands below `not`, `if` or `oneOf`, or names properties. */
  #isDecisive(value: JsonValue, isBelow: boolean): boolean {
    if (Array.isArray(value))
      return value.some((part: JsonValue) => this.#isDecisive(part, isBelow));
    if (!isRecord(value)) return false;
    return Object.entries(value).some(([key, part]: [string, JsonValue]) => {
      if (key === "patternProperties" && isRecord(part)) {
        if (Object.keys(part).some((pattern) => this.#unchecked.has(pattern))) return true;
      }
      if (isBelow && key === "$ref") return true;
      if (isBelow && key === "pattern" && typeof part === "string" && this.#unchecked.has(part))
        return true;
      return this.#isDecisive(part, isBelow || DECIDING.has(key));
    });
  }
}

/** Where a part that fits too easily makes the whole fit less. */
const DECIDING: ReadonlySet<string> = new Set(["not", "if", "oneOf"]);
