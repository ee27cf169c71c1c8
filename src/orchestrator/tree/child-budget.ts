// What a subagent may spend, and how far the tree below it may grow: what its role asks for, tightened by what holds above (R142, X4, X16).

import type { AgentRole } from "../../agent/agent-role.ts";
import type { Remaining } from "../../agent/account-view.ts";
import { childLimits, COMMON_POOL, type ChildLimits } from "../../policies/budget-share.ts";
import { tightenedLimits } from "../../policies/subagent-limits.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { RunRuntime } from "./run-runtime.ts";
import type { SpawnCall } from "./admission.ts";

/** The limits of a subagent's account, and the audit of what its role asked for and does not get. */
export function childBudget(
  { tree }: RunRuntime,
  parent: AgentRuntime,
  role: AgentRole,
  { call: { delegatedRoles }, group }: SpawnCall,
): ChildLimits {
  const { agentPath: source } = parent.identity;
  const read = (): Remaining => parent.account.remainingForChildren();
  const { share } = parent.role.delegation;
  const groupLeft = group?.leftToShare(read);
  if (share === COMMON_POOL && isEmpty(role.budget) && isEmpty(role.limits)) return NO_LIMITS;
  const shared = childLimits({
    share,
    definition: role.budget,
    left: groupLeft ?? read(),
    role: role.name,
    delegatedRoles: delegatedRoles.length === 0 ? [role.name] : delegatedRoles,
    source,
  });
  const shape = tightenedLimits(tree.limitsBelow(parent), role.limits, source);
  return { ...shared, tightened: [...shape, ...shared.tightened] };
}

/** Of a subagent that asks for none, below a parent that shares with all alike. */
const NO_LIMITS: ChildLimits = Object.freeze({ limits: {}, wallTimeMs: undefined, tightened: [] });

function isEmpty(limits: object): boolean {
  return Object.keys(limits).length === 0;
}
