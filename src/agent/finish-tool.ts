import { z } from "zod";

import type { JsonValue } from "../kernel/json.ts";
import { JsonValueSchema } from "../protocol/json-value.ts";
import { bindWith } from "../tools/make-tool.ts";
import { zodInput } from "../tools/arguments/zod-input.ts";
import type { FinishTool } from "../tools/tool.ts";
import { FINISH_TOOL_NAME } from "../protocol/tool-rule.ts";
import { noZodSchema } from "../tools/arguments/unusable-schema.ts";

export { FINISH_TOOL_NAME };

/** Makes the tool whose arguments are the agent's result. Misfits go back to the model like those of any tool; how often, the loop says (X20). */
export function finishTool(field: string, output: z.ZodType): FinishTool {
  if (!(output instanceof z.ZodType)) throw noZodSchema(field, output, "Use z.object({ … }).");
  const shape = zodInput(field, output, false);
  const schema = zodInput(field, output.pipe(JsonValueSchema), false);
  return Object.freeze({
    name: FINISH_TOOL_NAME,
    description: "Ends your work with your result. Call it once, alone, when you are done.",
    inputSchema: shape.jsonSchema,
    settings: UNBOUNDED,
    isSequential: false,
    kind: "finish",
    bind: (input: JsonValue) => bindWith(schema, input, (result) => result),
  });
}

const UNBOUNDED = Object.freeze({ maxRetries: Number.MAX_SAFE_INTEGER });
