// SpawnSubagent: the tool by which a model delegates. Written with the public context of a delegation only.

import { z } from "zod";

import { SPAWN_TOOL_NAME, type AgentRole } from "../agent/agent-role.ts";
import { bindWith, toolFace, type DelegationContext, type DelegationTool } from "../tools/tool.ts";

/** The tool for an agent that may spawn `roles`. Its schema names them; a name that is not among them is refused, not rejected. */
export function spawnSubagentTool(roles: readonly AgentRole[]): DelegationTool {
  const names = roles.map((role) => role.name);
  const input = z.object({
    role: z.string().meta({ description: "Which subagent to start.", enum: names }),
    task: z.string().min(1).meta({
      description:
        "What it is to do, complete in itself: it sees nothing of your conversation unless told.",
    }),
  });
  const lines = roles.map((role) => `- ${role.name}: ${role.purpose ?? ""}`);
  const description = [
    "Delegates a part of your task to a subagent and gives you its result.",
    "Call it several times in one reply to let subagents work in parallel. Subagents:",
    ...lines,
  ].join("\n");
  return Object.freeze({
    ...toolFace({ name: SPAWN_TOOL_NAME, description, input }),
    kind: "delegation",
    bind: (given: unknown) =>
      bindWith(input, given, (request) => (context: DelegationContext) => context.spawn(request)),
  });
}
