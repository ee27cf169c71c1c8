// `espalier/json-schema`: a JSON Schema as the input of a tool, or the output of an agent. Loads the validator, which nothing else does.

import { misdefinition } from "../kernel/check.ts";
import type { JsonObject } from "../kernel/json.ts";
import type { JsonSchemaInput } from "./arguments/input-schema.ts";
import { declareInput, objectSchema } from "./arguments/json-schema-input.ts";
import { isZodLike } from "./arguments/unusable-schema.ts";

/**
 * Makes a JSON Schema the input of a tool, or the `output` of an agent, where it is not written in TypeScript. It is read by the rules of
 * 2020-12, or of draft 7 where it says so in `$schema`. `Value`: the type of what fits it, which the compiler takes from you unseen.
 *
 * @throws EspalierError `invalid_definition` if it is not the JSON Schema of an object. The rest is checked when the tool is defined.
 */
export function jsonSchema<Value = JsonObject>(schema: JsonObject): JsonSchemaInput<Value> {
  const field = "jsonSchema.schema";
  if (isZodLike(schema)) {
    const advice = "Pass a JSON Schema; a zod schema goes directly into input.";
    throw misdefinition(field, "a JSON Schema", schema, advice);
  }
  return declareInput(objectSchema(field, schema), true);
}
