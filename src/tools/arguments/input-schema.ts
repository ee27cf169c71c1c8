// What a tool takes: a zod schema of its author, or a JSON Schema from elsewhere. Both are shown, checked, coerced and corrected in the
// same way.

import { z } from "zod";

import { isRecord, type JsonObject } from "../../kernel/json.ts";
import type { InputSchema } from "./check-input.ts";
import { noZodSchema } from "./unusable-schema.ts";
import { zodInput } from "./zod-input.ts";

/** A JSON Schema of arguments, or of a typed result. Made by `jsonSchema`. `Value`: what fits it. */
export interface JsonSchemaInput<out Value = unknown> {
  /** What it is known by. */
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

/** What makes a JSON Schema ready to check calls. `jsonSchema` puts it here, so that only its module loads the validator. */
export const jsonSchemaInputs = new WeakMap<
  object,
  (field: string, isStrict: boolean) => InputSchema<unknown>
>();

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
  const make = isRecord(input) ? jsonSchemaInputs.get(input) : undefined;
  if (make === undefined) {
    const advice = "Use z.object({ … }), or jsonSchema({ … }) for a schema from elsewhere.";
    throw noZodSchema(field, input, advice);
  }
  return make(field, isStrict);
}
