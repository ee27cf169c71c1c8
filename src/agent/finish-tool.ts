// The typed result of a role: what it must be, whether the model gives it by a call of Finish or as its text.

import { z } from "zod";

import { isRecord, type JsonObject, type JsonValue } from "../kernel/json.ts";
import { strictSchema, withoutAddedNulls } from "../model/strict-schema.ts";
import { JsonValueSchema } from "../protocol/json-value.ts";
import { FINISH_TOOL_NAME } from "../protocol/tool-rule.ts";
import type { Checked } from "../tools/arguments/argument-problems.ts";
import { inputSchema, type ToolInput } from "../tools/arguments/input-schema.ts";
import { zodInput } from "../tools/arguments/zod-input.ts";
import type { FinishTool } from "../tools/tool.ts";

/** Makes the tool whose arguments are the agent's result. Misfits go back to the model like those of any tool; how often, the loop says (X20). */
export function finishTool(field: string, output: ToolInput): FinishTool {
  const isWrapped = output instanceof z.ZodType && isListOrUnion(output);
  const shape = isWrapped ? wrappedShape(field, output) : resultShape(field, output);
  const { jsonSchema, bind } = shape;
  const hasStrictForm = strictSchema(jsonSchema).isStrict;
  return Object.freeze({
    name: FINISH_TOOL_NAME,
    description: "Ends your work with your result. Call it once, alone, when you are done.",
    inputSchema: jsonSchema,
    settings: UNBOUNDED,
    isSequential: false,
    kind: "finish",
    bind: (input: JsonValue) => {
      const whole = isWrapped ? wrapped(input) : input;
      return bind(hasStrictForm ? withoutAddedNulls(whole, jsonSchema) : whole);
    },
  });
}

const UNBOUNDED = Object.freeze({ maxRetries: Number.MAX_SAFE_INTEGER });

/** What the model is shown, and what becomes of what it gives. */
interface ResultShape {
  readonly jsonSchema: JsonObject;
  readonly bind: FinishTool["bind"];
}

/** What a zod schema makes of the arguments has to be JSON; a JSON Schema makes nothing of them. */
function resultShape(field: string, output: ToolInput): ResultShape {
  if (output instanceof z.ZodType) {
    const schema = zodInput(field, output.pipe(JsonValueSchema), false);
    return {
      jsonSchema: schema.jsonSchema,
      bind: (input) => used(schema.check(input), ({ value }) => value),
    };
  }
  const schema = inputSchema(field, output, { isStrict: false });
  return {
    jsonSchema: schema.jsonSchema,
    bind: (input) => used(schema.check(input), (checked) => checked.input),
  };
}

/** Where a result is no plain object, it stands under this key: arguments are one, and so is what providers hold a model to. */
const WRAPPING_KEY = "result";

function wrappedShape(field: string, output: z.ZodType): ResultShape {
  const whole = z.object({ [WRAPPING_KEY]: output.pipe(JsonValueSchema) });
  const schema = zodInput(field, whole, false);
  return {
    jsonSchema: schema.jsonSchema,
    bind: (input) =>
      used(schema.check(input), ({ value: { [WRAPPING_KEY]: result = null } }) => result),
  };
}

/** Who leaves the wrapping out has said the same. */
function wrapped(input: JsonValue): JsonValue {
  return isRecord(input) && WRAPPING_KEY in input ? input : { [WRAPPING_KEY]: input };
}

type Valid<Value> = Extract<Checked<Value>, { readonly type: "valid" }>;

function used<Value>(
  checked: Checked<Value>,
  resultOf: (checked: Valid<Value>) => JsonValue,
): ReturnType<FinishTool["bind"]> {
  return checked.type === "invalid" ? checked : { ...checked, use: resultOf(checked) };
}

/** Whether the schema, below what is done with its values, is one of a list or of a choice of forms. */
function isListOrUnion(schema: z.core.$ZodType): boolean {
  if (schema instanceof z.core.$ZodPipe) return isListOrUnion(schema._zod.def.in);
  if (schema instanceof z.core.$ZodReadonly) return isListOrUnion(schema._zod.def.innerType);
  return LISTS_AND_UNIONS.some((type) => schema instanceof type);
}

const LISTS_AND_UNIONS = [z.core.$ZodArray, z.core.$ZodTuple, z.core.$ZodUnion] as const;
