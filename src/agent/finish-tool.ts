import type { z } from "zod";

import { JsonValueSchema } from "../protocol/json-value.ts";
import { bindWith, toolFace, type FinishTool } from "../tools/tool.ts";

/** The tool that an agent with a typed result calls to end. */
export const FINISH_TOOL_NAME = "Finish";

/** Makes the tool whose arguments are the agent's result. Misfits go back to the model like those of any tool. */
export function finishTool(field: string, output: z.ZodType): FinishTool {
  const description = "Ends your work with your result. Call it once, alone, when you are done.";
  return Object.freeze({
    ...toolFace({ name: FINISH_TOOL_NAME, description, input: output, field }),
    kind: "finish",
    bind: (input: unknown) => bindWith(output.pipe(JsonValueSchema), input, (result) => result),
  });
}
