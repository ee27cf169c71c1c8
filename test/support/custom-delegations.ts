// Delegations of users, written with the public entry only.

import { z } from "zod";

import {
  defineDelegation,
  type DelegationContext,
  type DelegationTool,
  type SpawnOutcome,
} from "../../src/index.ts";

/** Returns a delegation that acts as the test says. */
export function delegation(
  execute: (context: DelegationContext, role: string) => Promise<SpawnOutcome>,
  name = "delegate",
): DelegationTool {
  return defineDelegation({
    name,
    description: "Lets somebody else do it.",
    inputSchema: z.object({ role: z.string().default("child") }),
    execute: ({ role }, context) => execute(context, role),
  });
}

/** Starts a subagent of the given role. */
export const plain = delegation((context, role) =>
  context.spawn({ role, task: `Help ${context.agentPath}.` }),
);
