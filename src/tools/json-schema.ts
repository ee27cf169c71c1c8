// `espalier/json-schema`: a JSON Schema as the input of a tool, or the output of an agent. The only
// entry that loads the validator.

import { mismatch } from "../kernel/argument-checks.ts";
import type { JsonObject } from "../kernel/json.ts";
import type { JsonSchemaInput } from "./arguments/input-schema.ts";
import { declareInput, copyObjectSchema } from "./arguments/json-schema-input.ts";
import { isZodLike } from "./arguments/unusable-schema.ts";

/**
 * Declares a JSON Schema as the `inputSchema` of a tool or the `output` of a role. The dialect is
 * 2020-12, or draft 7 if `$schema` says so.
 *
 * `Value` is the type of valid values. The compiler does not check `Value` against the schema.
 *
 * @throws EspalierError `invalid_argument` if the value is not the JSON Schema of an object. Its
 * other parts are checked by `defineTool` and `defineAgent`.
 *
 * @example
 * ```ts
 * const getWeather = defineTool({
 *   name: "get_weather",
 *   description: "Returns the weather of a city.",
 *   inputSchema: jsonSchema<{ readonly city: string }>({
 *     type: "object",
 *     properties: { city: { type: "string" } },
 *     required: ["city"],
 *   }),
 *   execute: ({ city }) => `Sunny in ${city}.`,
 * });
 * ```
 */
export function jsonSchema<Value = JsonObject>(schema: JsonObject): JsonSchemaInput<Value> {
  const field = "jsonSchema.schema";
  if (isZodLike(schema)) {
    const advice = "Pass a JSON Schema, or use the zod schema itself in its place.";
    throw mismatch(field, "a JSON Schema", schema, advice);
  }
  return declareInput(copyObjectSchema(field, schema), true);
}
