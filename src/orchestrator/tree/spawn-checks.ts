// Decides whether a subagent may start: checks the role, the limits of the tree and the budget, in
// this order. A refusal is an instruction to the model, counted by code and recorded by an event.
//
// `reserveSpawn` in supervisor.ts calls `findStartableRole` before anyone is asked for permission,
// and set-up-child.ts calls it again at the start. The limits are compared in
// policies/subagent-limits.ts, from the counts in run-tree.ts, and the budget in
// budget/lease-decision.ts. supervisor.ts returns the refusal to the call.

import { getErrorMessage } from "../../kernel/error.ts";
import { checkSubagentLimits } from "../../policies/subagent-limits.ts";
import type { EventPosition } from "../../agent/agent-identity.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import { defineAgent } from "../../agent/define-agent.ts";
import type { BudgetRefusal } from "../../budget/lease.ts";
import type { DelegatedCall } from "../../agent/run-ports.ts";
import type { RefusedSpawn } from "../../agent/tool-calls/call-outcome.ts";
import type { SpawnGroup } from "../../agent/spawn-group.ts";
import type {
  DynamicRole,
  SpawnOutcome,
  SpawnRefusal,
  SpawnRequest,
} from "../../protocol/subagent.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { RoleRegistry } from "./role-registry.ts";
import type { RunRuntime } from "./run-runtime.ts";

/** Call that requests a subagent, with the other calls of the same reply that do. */
export interface SpawnCall {
  readonly call: DelegatedCall;
  readonly group: SpawnGroup | undefined;
}

/** The requested value, or the reason for its absence. */
export type OrRefusal<T extends object> =
  | (T & { readonly refusal?: undefined })
  | ({ readonly [K in keyof T]?: undefined } & { readonly refusal: SpawnRefusal });
type RoleOrRefusal = OrRefusal<{ readonly role: AgentRole }>;

/**
 * Returns the role of a subagent that may start now, or the reason why it may not. Reserves
 * nothing. `ahead` is the number of subagents that start before.
 */
export function findStartableRole(
  { tree, registry }: RunRuntime,
  parent: AgentRuntime,
  { role: name, roleDefinition: draft }: SpawnRequest,
  ahead = 0,
): RoleOrRefusal {
  const roles = registry.getSubagents(parent.role);
  const { role, refusal: unusable } =
    draft === undefined
      ? { role: roles.find((candidate) => candidate.name === name), refusal: undefined }
      : createDynamicRole(parent.role, { role: name, draft }, registry);
  if (unusable !== undefined) return { refusal: unusable };
  if (role === undefined) {
    const problem = `there is no subagent ${JSON.stringify(name)}`;
    const message = `Not started: ${problem}. ${describeChoice(roles)}`;
    return { refusal: { code: "unknown_role", message } };
  }
  const { shape, identity, childCount } = parent;
  const facts = { parentDepth: identity.depth, childCount, totals: tree.getTotals(parent), ahead };
  const refusal = checkSubagentLimits(shape, facts);
  if (refusal !== undefined) return { refusal };
  const spent = parent.account.exhaustedForChild();
  return spent === undefined ? { role } : { refusal: refuseWithoutBudget(spent) };
}

/** Returns the refusal of a subagent whose setup failed. */
export function refuseSetup(name: string, cause: unknown): SpawnRefusal {
  const message = `Not started: setting ${name} up failed (${getErrorMessage(cause)}). Do this part yourself.`;
  return { code: "setup_failed", message };
}

/** Returns the refusal of a subagent for which no budget is left. */
export function refuseWithoutBudget({
  axis,
  accountPath,
  maximum,
  spent,
  reserve = 0,
}: BudgetRefusal): SpawnRefusal {
  const rest = reserve === 0 ? "" : ` The rest is reserved for the answer of ${accountPath}.`;
  return {
    code: "budget_exhausted",
    message: `Not started: ${spent} of ${maximum} of the ${axis} budget of ${accountPath} are spent.${rest} Answer with what you have.`,
    maximum,
    current: spent,
  };
}

/**
 * Returns the role that the model has written, or why it cannot be used: the intersection of the
 * request and the bounds in the agent's own role. `role` is the name of the new role.
 */
export function createDynamicRole(
  parent: AgentRole,
  { role: name, draft }: { readonly role: string; readonly draft: DynamicRole },
  registry: RoleRegistry,
): RoleOrRefusal {
  const { dynamicRoles: bounds } = parent;
  if (bounds === undefined) {
    const choice = describeChoice(registry.getSubagents(parent));
    const message = `Not started: you may not define roles. ${choice}`;
    return { refusal: { code: "forbidden_role", message } };
  }
  if (registry.find(name) !== undefined)
    return refuseRole(
      `there is a role "${name}" already. Give yours another name, or start that one`,
    );
  const models = Object.keys(bounds.models);
  const { instructions, tools: toolNames, model: modelName = models[0] ?? "", steps } = draft;
  const model = Object.hasOwn(bounds.models, modelName) ? bounds.models[modelName] : undefined;
  if (model === undefined)
    return refuseRole(`there is no model "${modelName}". Choose one of: ${models.join(", ")}`);
  const { tools, budget } = bounds;
  try {
    const role = defineAgent({
      name,
      description: `Defined by ${parent.name} for one task.`,
      instructions,
      model,
      tools:
        toolNames === undefined ? tools : tools.filter((tool) => toolNames.includes(tool.name)),
      toolDefaults: parent.toolDefaults,
      budget:
        steps === undefined ? budget : { ...budget, steps: Math.min(budget.steps ?? steps, steps) },
    });
    return { role };
  } catch (cause) {
    return refuseRole(
      `the role is invalid (${getErrorMessage(cause)}). Correct the role and call again`,
    );
  }
}

function refuseRole(problem: string): RoleOrRefusal {
  return { refusal: { code: "invalid_role", message: `Not started: ${problem}.` } };
}

/** Describes the roles that the model can start instead. */
function describeChoice(roles: readonly AgentRole[]): string {
  const names = roles.map((role) => role.name).join(", ");
  return names === ""
    ? "You can start none: do this part yourself."
    : `You can start: ${names}. Call again with one of these.`;
}

/** The requested role, and why no subagent of the role starts. */
interface NamedRefusal {
  readonly role: string;
  readonly refusal: SpawnRefusal;
}

/** Records that a subagent is not started, and returns the outcome for its call. */
export function refuse(
  run: RunRuntime,
  parent: AgentRuntime,
  named: NamedRefusal,
  at: EventPosition,
): Extract<SpawnOutcome, { readonly type: "refused" }> {
  recordRefusal(run, parent, named, at);
  return { type: "refused", refusal: named.refusal };
}

/** Records that a subagent is not started, and returns the fields for the event of its call. */
export function recordRefusal(
  { registry }: RunRuntime,
  parent: AgentRuntime,
  { role, refusal: error }: NamedRefusal,
  at: EventPosition,
): RefusedSpawn {
  const isKnownRole = registry.find(role) !== undefined;
  const refused: RefusedSpawn = isKnownRole ? { role, isKnownRole, error } : { role, error };
  const childDepth = parent.identity.depth + 1;
  parent.record({ type: "subagent.refused", ...refused, childDepth }, at);
  return refused;
}

/** Returns the role of a subagent that the model names, or the given name if no subagent has it. */
export function findChildRole(parent: AgentRuntime, childName: string): string {
  return parent.findChild(childName)?.role.name ?? childName;
}
