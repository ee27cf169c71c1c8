// Calls by which a scripted model does more with subagents than to start one and wait for it.

import { z } from "zod";

import type { DynamicRole } from "../../src/protocol/subagent.ts";
import type { ScriptedCall } from "../../src/testing/scripted-model.ts";
import { defineDelegation } from "../../src/tools/define-tool.ts";

/** Starts a subagent in the background. */
export function spawnBeside(role: string, task = "Work."): ScriptedCall {
  return { toolName: "SpawnSubagent", arguments: { role, task, background: true } };
}

/** Starts a subagent with a role that the model writes. */
export function spawnAs(newRole: DynamicRole, role = "counter"): ScriptedCall {
  return { toolName: "SpawnSubagent", arguments: { role, task: "Count.", newRole } };
}

/** Gives a subagent that has ended more to do. */
export function goOn(role: string, childName: string): ScriptedCall {
  return { toolName: "SpawnSubagent", arguments: { role, task: "And now?", continue: childName } };
}

export function writeTo(subagent: string): ScriptedCall {
  return { toolName: "MessageSubagent", arguments: { subagent, message: "Look again." } };
}

export function cancelOf(subagent: string): ScriptedCall {
  return { toolName: "CancelSubagent", arguments: { subagent } };
}

/** A delegation of a user's own, which writes the role itself. */
export const improvise = defineDelegation({
  name: "improvise",
  description: "Starts a subagent with a role of its own.",
  inputSchema: z.object({}),
  execute: (_input, context) =>
    context.spawn({ role: "counter", task: "Count.", roleDefinition: { instructions: "Count." } }),
});
