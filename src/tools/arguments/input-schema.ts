// What a tool takes: a zod schema of its author, or a JSON Schema from elsewhere. Both are shown, checked, coerced and corrected in the
// same way.

import { z } from "zod";

import { misdefinition } from "../../kernel/check.ts";
import { deepFreeze, isRecord, type JsonObject, type JsonValue } from "../../kernel/json.ts";
import type { ArgumentProblem, InputSchema } from "./argument-problems.ts";
import { checkedInput } from "./check-input.ts";
import { jsonSchemaReader, objectSchema, plainSchema } from "./json-schema-input.ts";
import { isZodLike, noZodSchema } from "./unusable-schema.ts";
import { zodInput } from "./zod-input.ts";

/** A JSON Schema of arguments, or of a typed result. Made by `jsonSchema`. `Value`: what fits it. */
export interface JsonSchemaInput<out Value = unknown> {
  readonly kind: "jsonSchema";
  /** Frozen. */
  readonly schema: JsonObject;
  /** For the compiler alone: never there. */
  readonly valueType?: Value;
}

/** What a tool may name as its input. */
export type ToolInput = z.ZodType | JsonSchemaInput;

/** What a tool with this input gets. */
export type InputOf<Input extends ToolInput> = Input extends z.ZodType
  ? z.output<Input>
  : Input extends JsonSchemaInput<infer Value>
    ? Value
    : never;

/** How arguments are checked. */
export interface InputOptions {
  /** Whether text that spells a number or a boolean is refused where one is asked for. */
  readonly isStrict: boolean;
}

/**
 * Makes a JSON Schema the input of a tool, or the `output` of an agent, where it is not written in TypeScript. It is read by the rules of
 * 2020-12, or of draft 7 where it says so in `$schema`. `Value`: the type of what fits it, which the compiler takes from you unseen.
 *
 * @throws EspalierError `invalid_definition` if it is not the JSON Schema of an object. The rest is checked when the tool is defined.
 */
export function jsonSchema<Value = JsonObject>(schema: JsonObject): JsonSchemaInput<Value> {
  const field = "jsonSchema.schema";
  if (isZodLike(schema)) {
    const advice = "Give a zod schema to input as it is.";
    throw misdefinition(field, "a JSON Schema", schema, advice);
  }
  return Object.freeze({ kind: "jsonSchema", schema: objectSchema(field, schema) });
}

/** The input of a tool, ready to check calls. `field` is what the user calls it. Throws `invalid_definition` if it cannot be used. */
export function inputSchema<Input extends ToolInput>(
  field: string,
  input: Input,
  options: InputOptions,
): InputSchema<InputOf<Input>>;
export function inputSchema(
  field: string,
  input: ToolInput,
  { isStrict }: InputOptions,
): InputSchema<unknown> {
  if (input instanceof z.ZodType) return zodInput(field, input, isStrict);
  if (!isRecord(input) || input.kind !== "jsonSchema") {
    const advice = "Use z.object({ … }), or jsonSchema({ … }) for a schema from elsewhere.";
    throw noZodSchema(field, input, advice);
  }
  const declared = objectSchema(field, input.schema);
  const { $schema: _dialect, ...shown } = declared;
  return checkedInput(deepFreeze(shown), jsonSchemaReader(field, declared), isStrict);
}

/**
 * What a JSON Schema of anything has against values; nothing is coerced. `field` is what the user calls it. Throws `invalid_definition` if
 * it cannot be used; what it gives never throws.
 */
export function jsonSchemaProblems(
  field: string,
  schema: unknown,
): (value: JsonValue) => readonly ArgumentProblem[] {
  const checked = checkedInput({}, jsonSchemaReader(field, plainSchema(field, schema)), true);
  return (value) => {
    const result = checked.check(value);
    return result.type === "valid" ? [] : result.problems;
  };
}
