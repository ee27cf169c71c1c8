// A JSON Schema as the input of a tool from elsewhere, validated by Ajv (json-schema-check.ts).

import { mismatch } from "../../kernel/argument-checks.ts";
import { getErrorMessage } from "../../kernel/error.ts";
import {
  copyJson,
  deepFreeze,
  isJsonObject,
  parseJson,
  findJsonProblem,
  type JsonObject,
  type JsonValue,
} from "../../kernel/json.ts";
import type { ArgumentProblem } from "./argument-problems.ts";
import { createCheckedInput, type InputSchema } from "./check-input.ts";
import { CheckWork } from "./check-work.ts";
import type { Reading } from "./coerce.ts";
import { jsonSchemaInputs, type JsonSchemaInput } from "./input-schema.ts";
import { createJsonSchemaExaminer, createUnusableError } from "./json-schema-check.ts";

/** Deeper or longer schemas are refused, since every model request contains them. */
const MAX_LEVELS = 100;
const MAX_CHARACTERS = 200_000;

/**
 * Returns a frozen copy of the JSON Schema of an object. Throws `invalid_argument` for another
 * value.
 */
export function copyObjectSchema(field: string, schema: unknown): JsonObject {
  const expected = "a JSON Schema of an object";
  const copy = copyPlainSchema(field, schema, expected);
  if (copy["type"] === "object") return copy;
  throw mismatch(field, expected, copy["type"] ?? schema, 'Its type must be "object".');
}

/** Returns a frozen copy of any JSON Schema. */
function copyPlainSchema(field: string, schema: unknown, expected = "a JSON Schema"): JsonObject {
  let text: string | undefined;
  try {
    text = JSON.stringify(schema);
  } catch (cause) {
    throw createUnusableError(field, getErrorMessage(cause), "Pass it as plain JSON.", cause);
  }
  const advice = "Use a smaller schema.";
  if (text !== undefined && text.length > MAX_CHARACTERS)
    throw createUnusableError(field, `it is longer than ${MAX_CHARACTERS} characters`, advice);
  const copy = parseJson(text ?? "null");
  if (!isJsonObject(copy)) throw mismatch(field, expected, schema, 'Use { type: "object", … }.');
  const reason = findJsonProblem(copy, MAX_LEVELS);
  if (reason !== undefined) throw createUnusableError(field, reason, advice);
  return deepFreeze(copy);
}

/** Returns the schema that `copyObjectSchema` returned, as the input of a tool. */
export function declareInput(declared: JsonObject, runsPatterns: boolean): JsonSchemaInput<never> {
  const input = Object.freeze({ kind: "jsonSchema", schema: declared } as const);
  jsonSchemaInputs.set(input, (name, coerces) =>
    compileJsonSchemaInput(name, declared, coerces, runsPatterns),
  );
  return input;
}

/** Returns the schema of a tool of a server. Its patterns are shown to the model and never run. */
export function createServerSchema(schema: JsonObject): JsonSchemaInput<JsonObject> {
  return declareInput(copyObjectSchema("inputSchema", schema), false);
}

/** Compiles the schema that `copyObjectSchema` returned. `field` is the user's name for it. */
export function compileJsonSchemaInput(
  field: string,
  declared: JsonObject,
  coerces: boolean,
  runsPatterns = true,
): InputSchema<unknown> {
  const { $schema: _dialect, ...shown } = declared;
  const work = new CheckWork();
  const examine = createJsonSchemaExaminer(field, declared, work, runsPatterns);
  const read = (input: JsonValue): Reading => {
    const issues = examine(input);
    return { input, issues, value: issues.length === 0 ? copyJson(input) : undefined };
  };
  return createCheckedInput(deepFreeze(shown), read, coerces, work);
}

/**
 * Returns a function that lists the problems of a value by a server's JSON Schema, without coercion
 * and without running patterns. The function never throws. `field` is the user's name for the
 * schema. Throws `invalid_argument` if the schema is unusable.
 */
export function createServerSchemaCheck(
  field: string,
  schema: unknown,
): (value: JsonValue) => readonly ArgumentProblem[] {
  const compiled = compileJsonSchemaInput(field, copyPlainSchema(field, schema), false, false);
  return (value) => {
    const checked = compiled.check(value);
    return checked.type === "valid" ? [] : checked.problems;
  };
}
