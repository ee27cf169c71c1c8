// May this subagent be started? Roles, limits of the tree and the budget are asked, in this order; a refusal is an instruction to the
// model, counted by code and recorded by an event (X14).

import { messageOf } from "../../kernel/error.ts";
import { isRecord, type JsonValue } from "../../kernel/json.ts";
import { shownAxis } from "../../policies/budget.ts";
import type { EventPosition } from "../../agent/agent-identity.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import type { BudgetRefusal } from "../../agent/account-view.ts";
import type { DelegatedCall, RefusedSpawn } from "../../agent/run-ports.ts";
import type { SpawnGroup } from "../../agent/spawn-group.ts";
import type { SpawnOutcome, SpawnRefusal, SpawnRequest } from "../../protocol/subagent.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { choiceOf, makeDynamicRole } from "./dynamic-role.ts";
import type { RoleRegistry } from "./role-registry.ts";
import type { RunRuntime } from "./run-runtime.ts";
import { isNamed } from "./subagent-tools.ts";

/** The call that asks for a subagent, and those that its reply starts besides. */
export interface SpawnCall {
  readonly call: DelegatedCall;
  readonly group: SpawnGroup | undefined;
}

/** The parent was asked to end, or to stop, on the way here: nothing further of it begins. */
export const PARENT_ENDING: SpawnRefusal = Object.freeze({
  code: "setup_failed",
  message: "Not started: the agent was told to end before the subagent could start.",
});

/**
 * Returns the role of a subagent that may start now, or the reason why it may not. Reserves nothing.
 * `ahead`: how many others start before.
 */
export function findStartableRole(
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
  return spent === undefined ? role : nothingLeft(spent);
}

/** The refusal of a subagent that could not be set up. */
export function setupFailed(name: string, cause: unknown): SpawnRefusal {
  const message = `Not started: setting ${name} up failed (${messageOf(cause)}). Do this part yourself.`;
  return { code: "setup_failed", message };
}

/** The refusal of a subagent for which nothing is left to spend. */
export function nothingLeft({
  axis,
  accountPath,
  maximum,
  spent,
  kept = 0,
}: BudgetRefusal): SpawnRefusal {
  const rest = kept === 0 ? "" : ` The rest is kept for the answer of ${accountPath}.`;
  const { name, unit } = shownAxis(axis);
  const [limit, current] = [maximum / unit, spent / unit];
  return {
    code: "budget_exhausted",
    message: `Not started: ${current} of ${limit} of the ${name} budget of ${accountPath} are spent.${rest} Answer with what you have.`,
    maximum: limit,
    current,
  };
}

function roleFor(
  parent: AgentRole,
  { role: name, draft }: SpawnRequest,
  registry: RoleRegistry,
): AgentRole | SpawnRefusal {
  if (draft !== undefined) return makeDynamicRole(parent, { role: name, draft }, registry);
  const roles = registry.subagentsOf(parent);
  const role = roles.find((candidate) => candidate.name === name);
  if (role !== undefined) return role;
  const message = `Not started: there is no subagent ${JSON.stringify(name)}. ${choiceOf(roles)}`;
  return { code: "unknown_role", message };
}

/** The role that was asked for, and why no subagent of it starts. */
interface NamedRefusal {
  readonly role: string;
  readonly refusal: SpawnRefusal;
}

/** Records that a subagent is not started (X14), and returns the outcome for its call. */
export function refuse(
  run: RunRuntime,
  parent: AgentRuntime,
  named: NamedRefusal,
  at: EventPosition,
): Extract<SpawnOutcome, { readonly type: "refused" }> {
  recordRefusal(run, parent, named, at);
  return { type: "refused", refusal: named.refusal };
}

/** Records that a subagent is not started (X14), and returns what the event of its call contains. */
export function recordRefusal(
  { registry }: RunRuntime,
  parent: AgentRuntime,
  { role, refusal }: NamedRefusal,
  at: EventPosition,
): RefusedSpawn {
  const isKnownRole = registry.find(role) !== undefined;
  const refused: RefusedSpawn = isKnownRole ? { role, isKnownRole, refusal } : { role, refusal };
  const childDepth = parent.identity.depth + 1;
  parent.record({ type: "subagent.refused", ...refused, childDepth }, at);
  return refused;
}

/**
 * Refuses a subagent that cannot be started as things stand, with those ahead of it in its reply if a guard, a hook or an approver
 * decides about it first (`isReviewed`); undefined: it can. An error happens again, and is reported, when the subagent is started.
 */
export function checkSpawn(
  run: RunRuntime,
  parent: AgentRuntime,
  { request, isReviewed }: { readonly request: SpawnRequest; readonly isReviewed: boolean },
  { call, group }: SpawnCall,
): RefusedSpawn | undefined {
  let role: AgentRole | SpawnRefusal;
  try {
    role = findStartableRole(run, parent, request, isReviewed ? (group?.ahead ?? 0) : 0);
  } catch {
    return undefined;
  }
  if ("code" in role) {
    group?.miss();
    return recordRefusal(run, parent, { role: request.role, refusal: role }, call);
  }
  if (call.callId !== undefined) group?.expect(call.callId);
  return undefined;
}

/** The role of the subagent that these arguments of `SpawnSubagent` ask to start or to continue. */
export function roleAskedFor(parent: AgentRuntime, input: JsonValue): string | undefined {
  if (!isRecord(input)) return undefined;
  const { role, continue: childName } = input;
  if (isNamed(childName)) return roleOf(parent, childName);
  return typeof role === "string" ? role : undefined;
}

/** The role of a subagent that the model names; without such a subagent, the name. */
export function roleOf(parent: AgentRuntime, childName: string): string {
  return parent.subagent(childName)?.role.name ?? childName;
}
