import { z } from "zod";

import { defineTool, type ToolDefinition } from "../../src/tools/define-tool.ts";
import type { FunctionTool } from "../../src/tools/tool.ts";
import type { ToolContext } from "../../src/tools/tool-context.ts";

/**
 * A tool that counts its calls and behaves as the test defines. Scripts may repeat a call any
 * number of times.
 */
export function spyTool(
  name: string,
  execute: (context: ToolContext) => unknown = () => `${name} done`,
  more: Partial<
    Omit<ToolDefinition<z.ZodObject>, "name" | "description" | "inputSchema" | "execute">
  > = {},
): FunctionTool & { readonly calls: readonly ToolContext[] } {
  const calls: ToolContext[] = [];
  const tool = defineTool({
    name,
    description: `Does ${name}.`,
    inputSchema: z.looseObject({}),
    maxIdenticalCalls: "unlimited",
    ...more,
    execute: (_input, context) => {
      calls.push(context);
      return execute(context);
    },
  });
  return Object.freeze({ ...tool, calls });
}
