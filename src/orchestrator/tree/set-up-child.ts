// Sets up and announces a subagent for a delegation, or returns the reason why it does not start.
// Atomic: if the setup throws or is refused, everything that was taken is released (T3): the place
// in the tree, the account, the timer.
//
// supervisor.ts calls `setUpChild`. In order, it checks (spawn-checks.ts), counts the child against
// the limits of the tree (`RunTree.admit` in run-tree.ts), derives its budget
// (policies/budget-share.ts) and its context (child-context.ts), and creates it (create-agent.ts).

import { resolveInstructions, canStartSubagents, type AgentRole } from "../../agent/agent-role.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { Remaining } from "../../budget/lease.ts";
import type { DelegatedCall } from "../../agent/run-ports.ts";
import { computeChildLimits, COMMON_POOL, type ChildLimits } from "../../policies/budget-share.ts";
import { NOTHING_INHERITED } from "../../policies/inherit-context.ts";
import { INHERITS_NOTHING } from "../../policies/subagent-context-policy.ts";
import { listTightenedLimits } from "../../policies/subagent-limits.ts";
import type { InheritanceRecord } from "../../protocol/context-manifest.ts";
import type { EventScope } from "../../protocol/event.ts";
import type { SpawnRefusal, SpawnRequest } from "../../protocol/subagent.ts";
import { NO_TOOL_LIMITS } from "../../protocol/tool-rule.ts";
import { PARENT_ENDING } from "../../agent/tool-calls/call-outcome.ts";
import { refuseSetup, findStartableRole, type SpawnCall } from "./spawn-checks.ts";
import { buildChildContext, gatherChildFacts } from "./child-context.ts";
import { createAgent } from "./create-agent.ts";
import type { RunRuntime } from "./run-runtime.ts";
import { createCountFields } from "./run-tree.ts";

/**
 * Admits a subagent, sets it up and announces it, or returns a refusal. An announced subagent is
 * run to its end. Checks role and limits again after `reserveSpawn`, since guards and approvers
 * may have taken time.
 */
export function setUpChild(
  run: RunRuntime,
  parent: AgentRuntime,
  request: SpawnRequest,
  spawnCall: SpawnCall,
): AgentRuntime | SpawnRefusal {
  const { call, group } = spawnCall;
  const { callId, stepId } = call;
  if (group?.decision !== undefined)
    return { code: "group_decided", message: `Not started: ${group.decision}` };
  if (parent.noStartSignal.aborted) return PARENT_ENDING;
  let agentPath: string | undefined;
  let created: AgentRuntime | undefined;
  try {
    const { role, refusal } = findStartableRole(run, parent, request);
    if (refusal !== undefined) return refusal;
    agentPath = run.tree.admit(parent, role.name);
    const { tightened, ...budget } = deriveChildBudget(run, parent, role, spawnCall);
    const asking = { role, agentPath, request };
    const context = hasNothingToInherit(parent, role, request)
      ? NOTHING
      : buildChildContext(gatherChildFacts(run, parent, asking, call.history), request);
    if (context.refusal !== undefined) {
      run.tree.undoAdmission(parent);
      return context.refusal;
    }
    created = createAgent(run, {
      facts: {
        role,
        task: request.task,
        metadata: context.metadata,
        agentPath,
        spawnCallId: callId,
        spawnStepId: stepId,
        toolLimits: context.toolLimits,
        roleDefinition: request.roleDefinition,
      },
      parent,
      instructions: resolveInstructions(role, run.context),
      inherited: context.messages,
      ...budget,
    });
    // Reading a role may throw, and the records below read it.
    const { background: isBackground = false } = request;
    run.journal?.recordCreation(created, {
      account: created.account.snapshotAt(run.clock.nowMs()),
      isBackground,
      nth: call.nth ?? 0,
    });
    if (!run.recorder.countUnread("subagent.spawned")) {
      const manifest = { ...context.manifest, tightened };
      recordSpawn(run, created, parent.getScope(call), { isBackground, inherited: manifest });
    }
    return created;
  } catch (cause) {
    if (created !== undefined) {
      run.tree.remove(created);
      run.ledger.forget(created.identity.agentId);
    }
    if (agentPath !== undefined) run.tree.undoAdmission(parent);
    return refuseSetup(request.role, cause);
  }
}

/**
 * Returns true for most subagents: neither the policy nor the request passes on anything of the
 * parent, or removes a tool.
 */
function hasNothingToInherit(
  parent: AgentRuntime,
  role: AgentRole,
  { includeResultsFrom, allowedTools, deniedTools, roleDefinition: draft }: SpawnRequest,
): boolean {
  return (
    parent.role.contextPolicy === INHERITS_NOTHING &&
    parent.toolLimits.rules.length === 0 &&
    !canStartSubagents(role) && // The tools for starting subagents are removed at the depth limit.
    draft === undefined &&
    includeResultsFrom === undefined &&
    allowedTools === undefined &&
    deniedTools === undefined
  );
}

const NOTHING: ReturnType<typeof buildChildContext> = Object.freeze({
  ...NOTHING_INHERITED,
  toolLimits: NO_TOOL_LIMITS,
});

/**
 * Returns the limits of a subagent's account: those of its role, tightened by those above, and the
 * record of what was tightened. The first subagent of a group fixes the amount that the group
 * shares, even if it has no limits itself.
 */
function deriveChildBudget(
  run: RunRuntime,
  parent: AgentRuntime,
  role: AgentRole,
  { call, group }: SpawnCall,
): ChildLimits {
  const groupLeft = group?.getSharedBudget(() => parent.account.remainingForChildren());
  const isLimited =
    parent.role.delegation.share !== COMMON_POOL || !isEmpty(role.budget) || !isEmpty(role.limits);
  return isLimited ? tightenBudget(run, parent, role, { call, left: groupLeft }) : POOL;
}

function tightenBudget(
  { tree }: RunRuntime,
  parent: AgentRuntime,
  role: AgentRole,
  { call, left }: { readonly call: DelegatedCall; readonly left: Remaining | undefined },
): ChildLimits {
  const { delegatedRoles } = call;
  const { agentPath: source } = parent.identity;
  const budget = computeChildLimits({
    share: parent.role.delegation.share,
    definition: role.budget,
    left: left ?? parent.account.remainingForChildren(),
    role: role.name,
    delegatedRoles: delegatedRoles.length === 0 ? [role.name] : delegatedRoles,
    source,
  });
  const tightenedShape = listTightenedLimits(tree.findLimits(parent), role.limits, source);
  return { ...budget, tightened: [...tightenedShape, ...budget.tightened] };
}

/** Limits of a subagent without a budget, below a parent that shares its budget equally. */
const POOL: ChildLimits = Object.freeze({ spendLimits: {}, timeMs: undefined, tightened: [] });

function isEmpty(limits: object): boolean {
  return Object.keys(limits).length === 0;
}

/** Records the new subagent. */
function recordSpawn(
  { tree, recorder }: RunRuntime,
  child: AgentRuntime,
  scope: EventScope,
  details: { readonly isBackground: boolean; readonly inherited: InheritanceRecord },
): void {
  recorder.record(scope, {
    type: "subagent.spawned",
    ...toChildFields(child),
    task: child.taskText,
    ...details,
    subagentsByDepth: createCountFields(tree.counts).subagentsByDepth,
  });
}

/** Returns the fields by which events name a subagent. */
export function toChildFields({ identity, role }: AgentRuntime) {
  const { agentId: childId, agentPath: childPath, depth: childDepth } = identity;
  return { childId, childPath, role: role.name, childDepth } as const;
}
