// Checks the arguments of a call against the schema of its tool: as the model wrote them, or coerced.

import type { JsonObject, JsonValue } from "../../kernel/json.ts";
import { problemsOf, type Checked, type InputSchema } from "./argument-problems.ts";
import { mend } from "./coerce.ts";
import { shownJson, thrownWords } from "./schema-words.ts";
import type { Reading } from "./validation-issue.ts";

/** A schema with its check. `isStrict`: nothing is coerced. */
export function checkedInput(
  jsonSchema: JsonObject,
  read: (input: JsonValue) => Reading,
  isStrict: boolean,
): InputSchema<unknown> {
  const check = (input: JsonValue): Checked<unknown> => {
    try {
      const first = read(input);
      const asWritten = { value: input, reading: first };
      const { value, reading } =
        first.issues.length === 0 || isStrict ? asWritten : mend(read, input, first.issues);
      return reading.issues.length === 0
        ? { type: "valid", value: reading.value, input: value }
        : { type: "invalid", problems: problemsOf(input, value, reading.issues) };
    } catch (cause) {
      // Code of the schema's author that words a message, or input that is no JSON.
      const expected = thrownWords("arguments", cause);
      const problem = { parameter: "", expected, received: shownJson(input) };
      return { type: "invalid", problems: [problem] };
    }
  };
  return Object.freeze({ jsonSchema, check });
}
