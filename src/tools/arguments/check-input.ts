// Validates the arguments of a call by the schema of its tool, as the model wrote them or coerced.

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

/** Valid arguments in the form that the tool receives, or their problems. */
export type Checked<Value> =
  | {
      readonly type: "valid";
      readonly value: Value;
      /** The JSON from which the value was parsed, after coercion. */
      readonly input: JsonValue;
    }
  | { readonly type: "invalid"; readonly problems: readonly ArgumentProblem[] };

/** The input of a tool: its JSON Schema for the model, and its validation. */
export interface InputSchema<Value> {
  /** Frozen. Without `$schema`. */
  readonly jsonSchema: JsonObject;
  /**
   * Validates arguments. Pure and never throws. `parsed`: the earlier result of the schema for
   * these arguments. A copy is returned without parsing.
   */
  check(input: JsonValue, parsed?: JsonValue): Checked<Value>;
}

/**
 * Returns a schema with its validation. If `read` throws, the value is invalid. `coerces`: whether
 * arguments are coerced. `work`: the bound of each validation.
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
      // Thrown by the schema's own code for messages, or for input that is not JSON.
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
