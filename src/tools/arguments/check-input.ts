// Checks the arguments of a call against the schema of its tool: as the model wrote them, or coerced.

import { getErrorMessage } from "../../kernel/error.ts";
import { copyJson, type JsonObject, type JsonValue } from "../../kernel/json.ts";
import { formatShortJson } from "../../kernel/sentence.ts";
import {
  describeExpected,
  collectArgumentProblems,
  type ArgumentProblem,
} from "./argument-problems.ts";
import { TooMuchWork, type CheckWork } from "./check-work.ts";
import { coerce, type Reading } from "./coerce.ts";

/** Arguments that fit, as the tool gets them; or what is wrong with them. */
export type Checked<Value> =
  | {
      readonly type: "valid";
      readonly value: Value;
      /** The JSON from which the value was made: what came, after coercion. */
      readonly input: JsonValue;
    }
  | { readonly type: "invalid"; readonly problems: readonly ArgumentProblem[] };

/** What a tool takes: shown to the model as JSON Schema, and checked. */
export interface InputSchema<Value> {
  /** Frozen; without `$schema`. */
  readonly jsonSchema: JsonObject;
  /**
   * Pure; never throws. `parsed`: the value that the schema made of these arguments before. A copy
   * of that value is used, and nothing is parsed.
   */
  check(input: JsonValue, parsed?: JsonValue): Checked<Value>;
}

/**
 * Returns a schema with its check. `read` may throw: the value does not fit then. `coerces` false: nothing is
 * coerced. `work`: what a check may spend.
 */
export function createCheckedInput(
  jsonSchema: JsonObject,
  read: (input: JsonValue) => Reading,
  coerces: boolean,
  work?: CheckWork,
): InputSchema<unknown> {
  const check = (input: JsonValue, parsed?: JsonValue): Checked<unknown> => {
    if (parsed !== undefined) return { type: "valid", value: copyJson(parsed), input };
    try {
      work?.begin(input);
      const first = read(input);
      const isFinal = !coerces || first.issues.length === 0;
      const reading = isFinal ? first : coerce(read, first);
      return reading.issues.length === 0
        ? { type: "valid", value: reading.value, input: reading.input }
        : { type: "invalid", problems: collectArgumentProblems(input, reading.issues) };
    } catch (cause) {
      // Code of the schema's author that words a message, or input that is no JSON.
      return { type: "invalid", problems: [createThrownProblem(input, cause)] };
    }
  };
  return Object.freeze({ jsonSchema, check });
}

function createThrownProblem(input: JsonValue, thrown: unknown): ArgumentProblem {
  if (thrown instanceof TooMuchWork)
    return { parameter: "", expected: thrown.message, received: "a larger one" };
  const note = (): string =>
    getErrorMessage(thrown).replace(/^Maximum call stack.*/, "it goes too deep");
  const expected = describeExpected({ path: [], keyword: "custom", note });
  return { parameter: "", expected, received: formatShortJson(input) };
}
