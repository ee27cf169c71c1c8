// OutputChecks: does the data that a tool gave fit the tool's own output schema? Both come from the server, so they are checked as
// arguments are: in bounded time, and patterns are not run. The SDK's own checker runs patterns on RegExp, and reads a schema anew at every call.
// Owns the checks that were made.

import type {
  JsonSchemaType,
  jsonSchemaValidator,
  JsonSchemaValidator,
} from "@modelcontextprotocol/client";

import { soundCopy, type JsonValue } from "../kernel/json.ts";
import { problemLines, type ArgumentProblem } from "../tools/arguments/argument-problems.ts";
import { serverSchemaProblems } from "../tools/arguments/json-schema-input.ts";

const MAX_LEVELS = 1_000;
const NOT_SOUND = {
  parameter: "",
  expected: `JSON of at most ${MAX_LEVELS} levels`,
  received: "another value",
};

type Check = (value: JsonValue) => readonly ArgumentProblem[];

/** For the SDK's client. */
export class OutputChecks implements jsonSchemaValidator {
  readonly #checks = new WeakMap<JsonSchemaType, Check>();

  /** Throws `invalid_definition` for a schema that cannot be checked. */
  getValidator<T>(schema: JsonSchemaType): JsonSchemaValidator<T> {
    const check = this.#checks.get(schema) ?? serverSchemaProblems("outputSchema", schema);
    this.#checks.set(schema, check);
    let problems: readonly ArgumentProblem[] = [];
    const fits = (value: unknown): value is T => {
      const json = soundCopy(value, MAX_LEVELS);
      problems = json === undefined ? [NOT_SOUND] : check(json);
      return problems.length === 0;
    };
    return (value) =>
      fits(value)
        ? { valid: true, data: value, errorMessage: undefined }
        : {
            valid: false,
            data: undefined,
            errorMessage: problemLines("data", problems).join("; "),
          };
  }
}
