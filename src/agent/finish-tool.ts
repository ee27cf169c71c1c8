import { z } from "zod";

import { JsonValueSchema } from "../protocol/json-value.ts";
import type { InputSchema } from "../tools/arguments/argument-problems.ts";
import { inputSchema, type ToolInput } from "../tools/arguments/input-schema.ts";
import { zodInput } from "../tools/arguments/zod-input.ts";
import type { FinishTool } from "../tools/tool.ts";
import { FINISH_TOOL_NAME } from "../protocol/tool-rule.ts";

/** Makes the tool whose arguments are the agent's result. Misfits go back to the model like those of any tool; how often, the loop says (X20). */
export function finishTool(field: string, output: ToolInput): FinishTool {
  const shape = inputSchema(field, output, { isStrict: false });
  return Object.freeze({
    name: FINISH_TOOL_NAME,
    description: "Ends your work with your result. Call it once, alone, when you are done.",
    inputSchema: shape.jsonSchema,
    settings: UNBOUNDED,
    isSequential: false,
    kind: "finish",
    bind: output instanceof z.ZodType ? zodResult(field, output) : jsonResult(shape),
  });
}

/** What the schema makes of the arguments, which has to be JSON. */
function zodResult(field: string, output: z.ZodType): FinishTool["bind"] {
  const schema = zodInput(field, output.pipe(JsonValueSchema), false);
  return (input) => {
    const checked = schema.check(input);
    return checked.type === "invalid" ? checked : { ...checked, use: checked.value };
  };
}

function jsonResult(schema: InputSchema<unknown>): FinishTool["bind"] {
  return (input) => {
    const checked = schema.check(input);
    return checked.type === "invalid" ? checked : { ...checked, use: checked.input };
  };
}

const UNBOUNDED = Object.freeze({ maxRetries: Number.MAX_SAFE_INTEGER });
