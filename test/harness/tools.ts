import { z } from "zod";

import {
  defineTool,
  type FunctionTool,
  type ToolContext,
  type ToolDefinition,
  type ToolReturn,
} from "../../src/tools/tool.ts";

/** A tool that counts its calls and does what the test says. */
export function spyTool(
  name: string,
  execute: (context: ToolContext) => ToolReturn = () => `${name} done`,
  more: Pick<ToolDefinition<z.ZodObject>, "needsApproval"> = {},
): FunctionTool & { readonly calls: readonly ToolContext[] } {
  const calls: ToolContext[] = [];
  const tool = defineTool({
    name,
    description: `Does ${name}.`,
    input: z.looseObject({}),
    ...more,
    execute: (_input, context) => {
      calls.push(context);
      return execute(context);
    },
  });
  return Object.freeze({ ...tool, calls });
}
