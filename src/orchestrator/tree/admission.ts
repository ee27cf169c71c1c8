// May this subagent be started? Roles, limits of the tree and the budget are asked, in this order; a refusal is an instruction to the
// model (X14).

import { messageOf } from "../../kernel/error.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import type { BudgetRefusal } from "../../agent/budget-gate.ts";
import type { SpawnRefusal, SpawnRequest } from "../../protocol/subagent.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { choiceOf, draftedRole } from "./dynamic-role.ts";
import type { RoleRegistry } from "./role-registry.ts";
import type { RunRuntime } from "./run-runtime.ts";
import type { SpawnPermit } from "./run-tree.ts";

/** The role and the place of a subagent that may be started. */
export interface Admission {
  readonly role: AgentRole;
  readonly permit: SpawnPermit;
}

/** Takes a place in the tree, or says why there is none. */
export function admit(
  run: RunRuntime,
  parent: AgentRuntime,
  request: SpawnRequest,
): Admission | SpawnRefusal {
  if (parent.startSignal.aborted) return TOLD_TO_END;
  const role = startable(run, parent, request);
  if ("code" in role) return role;
  return { role, permit: run.tree.take(parent, role.name) };
}

/** The parent was told to end, or to stop, on the way here: nothing further of it begins. */
export const TOLD_TO_END: SpawnRefusal = Object.freeze({
  code: "setup_failed",
  message: "Not started: the agent was told to end before the subagent could start.",
});

/** The role that may be started as things stand, or why it may not. Takes nothing. */
function startable(
  { tree, registry }: RunRuntime,
  parent: AgentRuntime,
  request: SpawnRequest,
  ahead = 0,
): AgentRole | SpawnRefusal {
  const role = roleFor(parent.role, request, registry);
  if ("code" in role) return role;
  const refusal = tree.refusalBelow(parent, ahead);
  if (refusal !== undefined) return refusal;
  const spent = parent.account.exhaustedForChild();
  return spent === undefined ? role : exhausted(spent);
}

/**
 * Why it may not be started as things stand, and with so many `ahead` of it; undefined: it may. What breaks while it is found out breaks again, and is told, when it is
 * started.
 */
export function refusalOf(
  run: RunRuntime,
  parent: AgentRuntime,
  request: SpawnRequest,
  ahead: number,
): SpawnRefusal | undefined {
  try {
    const role = startable(run, parent, request, ahead);
    return "code" in role ? role : undefined;
  } catch {
    return undefined;
  }
}

/** The refusal of a subagent that could not be set up. */
export function setupFailed(name: string, cause: unknown): SpawnRefusal {
  const message = `Not started: setting ${name} up failed (${messageOf(cause)}). Do this part yourself.`;
  return { code: "setup_failed", message };
}

/** The refusal of a subagent for which nothing is left to spend. */
export function exhausted({
  axis,
  accountPath,
  maximum,
  spent,
  kept = 0,
}: BudgetRefusal): SpawnRefusal {
  const rest = kept === 0 ? "" : ` The rest is kept for the answer of ${accountPath}.`;
  return {
    code: "budget_exhausted",
    message: `Not started: ${spent} of ${maximum} of the ${axis} budget of ${accountPath} are spent.${rest} Answer with what you have.`,
    maximum,
    current: spent,
  };
}

function roleFor(
  parent: AgentRole,
  request: SpawnRequest,
  registry: RoleRegistry,
): AgentRole | SpawnRefusal {
  const { role: name, draft } = request;
  const roles = registry.subagentsOf(parent);
  if (draft !== undefined) return draftedRole(parent, { name, draft }, registry);
  return roles.find((candidate) => candidate.name === name) ?? unknownRole(name, roles);
}

function unknownRole(name: string, roles: readonly AgentRole[]): SpawnRefusal {
  const message = `Not started: there is no subagent ${JSON.stringify(name)}. ${choiceOf(roles)}`;
  return { code: "unknown_role", message };
}
