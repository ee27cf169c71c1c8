// Checks the arguments of a call against the schema of its tool: as the model wrote them, or coerced.

import { copyJson, type JsonObject, type JsonValue } from "../../kernel/json.ts";
import { problemsOf, type Checked, type InputSchema } from "./argument-problems.ts";
import { TooMuchWork, type CheckWork } from "./check-work.ts";
import { mend } from "./coerce.ts";
import { shownJson, thrownWords } from "./schema-words.ts";
import type { Reading } from "./validation-issue.ts";

/** Returns a schema with its check. `isStrict`: nothing is coerced. `work`: what a check may spend. */
export function checkedInput(
  jsonSchema: JsonObject,
  read: (input: JsonValue) => Reading,
  isStrict: boolean,
  work?: CheckWork,
): InputSchema<unknown> {
  const check = (input: JsonValue, parsed?: JsonValue): Checked<unknown> => {
    if (parsed !== undefined) return { type: "valid", value: copyJson(parsed), input };
    try {
      work?.begin(input);
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
      const received = cause instanceof TooMuchWork ? "a larger one" : shownJson(input);
      const problem = { parameter: "", expected, received };
      return { type: "invalid", problems: [problem] };
    }
  };
  return Object.freeze({ jsonSchema, check });
}
