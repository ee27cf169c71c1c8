import { z } from "zod";

import type { JsonValue } from "../kernel/json.ts";
import { JsonValueSchema } from "../protocol/json-value.ts";
import { bindWith } from "../tools/make-tool.ts";
import { inputSchema } from "../tools/arguments/input-schema.ts";
import type { FinishTool } from "../tools/tool.ts";
import { FINISH_TOOL_NAME } from "../protocol/tool-rule.ts";
import { noZodSchema } from "../tools/arguments/zod-json-schema.ts";

export { FINISH_TOOL_NAME };

/** Makes the tool whose arguments are the agent's result. Misfits go back to the model like those of any tool; how often, the loop says (X20). */
export function finishTool(field: string, output: z.ZodType): FinishTool {
  if (!(output instanceof z.ZodType)) throw noZodSchema(field, output, "Use z.object({ … }).");
  const shape = inputSchema(field, output, { isStrict: false });
  const schema = inputSchema(field, output.pipe(JsonValueSchema), { isStrict: false });
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
