// SpawnSubagent: the tool by which a model delegates. Written with what any user has: defineDelegation and its context (R171).

import { z } from "zod";

import { SPAWN_TOOL_NAME, type AgentRole } from "../agent/agent-role.ts";
import { defineDelegation } from "../tools/define-tool.ts";
import type { DelegationTool } from "../tools/tool.ts";

/** The tool for an agent that may spawn `roles`. Its schema names them; a name that is not among them is refused, not rejected. */
export function spawnSubagentTool(roles: readonly AgentRole[]): DelegationTool {
  const names = roles.map((role) => role.name);
  const lines = roles.map((role) => `- ${role.name}: ${role.purpose ?? ""}`);
  return defineDelegation({
    name: SPAWN_TOOL_NAME,
    description: [
      "Delegates a part of your task to a subagent and gives you its result.",
      "Call it several times in one reply to let subagents work in parallel. Subagents:",
      ...lines,
    ].join("\n"),
    input: z.object({
      role: z.string().meta({ description: "Which subagent to start.", enum: names }),
      task: z.string().min(1).meta({
        description:
          "What it is to do, complete in itself: it sees nothing of your conversation unless told.",
      }),
    }),
    execute: ({ role, task }, context) => context.spawn({ role, task }),
  });
}
