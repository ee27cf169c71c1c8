// Checks the arguments of a call against the schema of its tool: as the model wrote them, or coerced.

import type { JsonObject, JsonValue } from "../../kernel/json.ts";
import {
  problemsOf,
  type ArgumentProblem,
  type Checked,
  type InputSchema,
} from "./argument-problems.ts";
import { mend } from "./coerce.ts";
import { shownJson, thrownWords } from "./schema-words.ts";
import type { Reading, ValidationIssue } from "./validation-issue.ts";

/** A schema with its check. `isStrict`: nothing is coerced. */
export function checkedInput(
  jsonSchema: JsonObject,
  read: (input: JsonValue) => Reading,
  isStrict: boolean,
): InputSchema<unknown> {
  const check = (input: JsonValue): Checked<unknown> => {
    try {
      const reading = read(input);
      if (reading.type === "fits") return { type: "valid", value: reading.value, input };
      if (isStrict) return invalid(problemsOf(input, input, reading.issues));
      return coerced(read, input, reading.issues);
    } catch (cause) {
      // Code of the schema's author that words a message, or input that is no JSON.
      const expected = thrownWords("arguments", cause);
      return invalid([{ parameter: "", expected, received: shownJson(input) }]);
    }
  };
  return Object.freeze({ jsonSchema, check });
}

function coerced(
  read: (input: JsonValue) => Reading,
  input: JsonValue,
  issues: readonly ValidationIssue[],
): Checked<unknown> {
  const { value, reading } = mend(read, input, issues);
  return reading.type === "fits"
    ? { type: "valid", value: reading.value, input: value }
    : invalid(problemsOf(input, value, reading.issues));
}

function invalid(problems: readonly ArgumentProblem[]): Checked<unknown> {
  return { type: "invalid", problems };
}
