// The roles in code and the options of the orchestrator are ceilings for a paused run that is
// passed in: whatever it contains, no agent gets more than they allow. Only recorded grants raise
// them. A lower limit in the paused run stays.

import { SPAWN_TOOL_NAME, type AgentRole } from "../../agent/agent-role.ts";
import { sameJson } from "../../kernel/json.ts";
import {
  tightenLimits,
  toLedgerLimits,
  toSpendAmounts,
  type SpendLimits,
} from "../../policies/budget.ts";
import { computeChildLimits } from "../../policies/budget-share.ts";
import { createToolRules } from "../../policies/child-tools.ts";
import type { SubagentLimits } from "../../policies/subagent-limits.ts";
import { LEDGER_AXES, type LedgerAccount, type LedgerAxis } from "../../protocol/account.ts";
import type { AgentId, CallId } from "../../protocol/ids.ts";
import type { SpawnRequest } from "../../protocol/subagent.ts";
import { collectGrants, sumGrants } from "../../budget/ledger-grant.ts";
import {
  createPausedRunError,
  type PausedAgent,
  type PausedRunRecord,
} from "../durability/paused-run.ts";
import type { RoleRegistry } from "../tree/role-registry.ts";
import { parseSpawnRequest } from "../tree/subagent-tools.ts";
import { findAgentRoles } from "./check-roles.ts";
import { readArguments } from "../../agent/tool-calls/parsed-call.ts";

/** Paused run with the roles of its agents. */
interface CastRun {
  readonly run: PausedRunRecord;
  readonly registry: RoleRegistry;
  readonly roles: ReadonlyMap<AgentId, AgentRole>;
  readonly agents: ReadonlyMap<AgentId, PausedAgent>;
}

/**
 * Returns the run with limits, budgets and denials tightened to those of its roles and the
 * orchestrator.
 *
 * Throws `invalid_paused_run` if an agent has a role that its parent may not start, or that its
 * parent did not request.
 */
export function limitPausedRun(
  run: PausedRunRecord,
  registry: RoleRegistry,
  limits: SubagentLimits,
): PausedRunRecord {
  const agents = new Map(run.agents.map((agent) => [agent.agentId, agent]));
  const cast = { run, registry, agents, roles: findAgentRoles(run, registry) };
  for (const agent of run.agents) checkDelegatedRole(cast, agent);
  return {
    ...run,
    limits: tightenTree(run.limits, limits),
    agents: tightenAgents(cast),
    accounts: tightenAccounts(cast),
  };
}

function tightenTree(recorded: SubagentLimits, limits: SubagentLimits): SubagentLimits {
  return {
    maxDepth: Math.min(recorded.maxDepth, limits.maxDepth),
    maxBreadthPerParent: Math.min(recorded.maxBreadthPerParent, limits.maxBreadthPerParent),
    maxTotalSubagents: Math.min(recorded.maxTotalSubagents, limits.maxTotalSubagents),
  };
}

// Roles

function checkDelegatedRole({ registry, roles, agents }: CastRun, agent: PausedAgent): void {
  const { agentPath, role, draft, parentAgentId } = agent;
  const parent = parentAgentId === null ? undefined : agents.get(parentAgentId);
  const parentRole = parent && roles.get(parent.agentId);
  if (parent === undefined || parentRole === undefined) return;
  const isAllowed =
    draft !== undefined || registry.getSubagents(parentRole).some(({ name }) => name === role);
  if (!isAllowed)
    throw createPausedRunError(
      `${agentPath} has the role "${role}", which ${parentRole.name} may not start`,
    );
  const request = findSpawnRequest(parent, agent);
  if (request === undefined || (request.role === role && sameJson(request.roleDefinition, draft)))
    return;
  throw createPausedRunError(
    `${agentPath} does not have the role that ${parent.agentPath} asked for`,
  );
}

/**
 * Returns the arguments of the `SpawnSubagent` call that started the agent. `undefined` if the
 * parent's history does not contain the call.
 */
function findSpawnRequest(
  parent: PausedAgent,
  { spawnStepId, spawnCallId }: PausedAgent,
): SpawnRequest | undefined {
  const { state } = parent;
  const step = state.status === "paused" ? state.step : undefined;
  const isOpen = step?.stepId === spawnStepId;
  const executions = isOpen
    ? step?.executions
    : state.log.steps.find(({ stepId }) => stepId === spawnStepId)?.tools.executions;
  const execution = executions?.find(({ call }) => call.callId === spawnCallId);
  if (execution !== undefined)
    return execution.call.toolName === SPAWN_TOOL_NAME && execution.arguments !== undefined
      ? parseSpawnRequest(execution.arguments)
      : undefined;
  const call = step?.reply?.message.toolCalls.find(({ callId }) => callId === spawnCallId);
  const deferral = step?.deferrals.find(({ callId }) => callId === spawnCallId);
  if (!isOpen || call?.toolName !== SPAWN_TOOL_NAME || deferral === undefined) return undefined;
  const parsedArguments = readArguments(deferral.argumentsText);
  return parsedArguments === undefined ? undefined : parseSpawnRequest(parsedArguments);
}

// Denials

function tightenAgents({ run, registry, roles }: CastRun): readonly PausedAgent[] {
  const tightened = new Map<AgentId, PausedAgent>();
  return run.agents.map((agent) => {
    const parent = agent.parentAgentId === null ? undefined : tightened.get(agent.parentAgentId);
    const parentRole = parent && roles.get(parent.agentId);
    const denied =
      parent === undefined || parentRole === undefined
        ? agent
        : { ...agent, toolRules: tightenRules(agent, parent, parentRole) };
    const role = roles.get(agent.agentId);
    const limited = role === undefined ? denied : hideTools(denied, role, registry);
    tightened.set(agent.agentId, limited);
    return limited;
  });
}

/** Returns the recorded rules, those of the parent, and those of the parent's role in code. */
function tightenRules(
  { toolRules: recorded }: PausedAgent,
  parent: PausedAgent,
  { contextPolicy: context }: AgentRole,
): PausedAgent["toolRules"] {
  const due = [...parent.toolRules, ...createToolRules(parent.agentPath, context)];
  const missing = due.filter((rule) => !recorded.some((candidate) => sameJson(candidate, rule)));
  return missing.length === 0 ? recorded : [...recorded, ...missing];
}

/** Keeps tools hidden in the open step that a filter of the role had hidden from the model. */
function hideTools(agent: PausedAgent, role: AgentRole, registry: RoleRegistry): PausedAgent {
  const { state } = agent;
  if (role.toolFilters.length === 0 || state.status !== "paused" || state.step === undefined)
    return agent;
  const { step } = state;
  const { toolNames, parameters } = step.context;
  if (parameters.toolChoice !== undefined && parameters.toolChoice !== "auto") return agent;
  const known = new Set([...toolNames, ...step.hiddenTools.map(({ toolName }) => toolName)]);
  const missing = registry.getParts(role).tools.names.filter((name) => !known.has(name));
  if (missing.length === 0) return agent;
  const hidden = missing.map((toolName) => ({ toolName, filter: "not offered" }));
  const hiddenTools = [...step.hiddenTools, ...hidden];
  return { ...agent, state: { ...state, step: { ...step, hiddenTools } } };
}

// Budgets

function tightenAccounts(cast: CastRun): readonly LedgerAccount[] {
  const { run, roles, agents } = cast;
  const tightened = new Map<AgentId, LedgerAccount>();
  return run.accounts.map((account) => {
    const { agentId, parentAgentId } = account;
    const role = roles.get(agentId);
    const agent = agents.get(agentId);
    if (role === undefined || agent === undefined) return account;
    const parentRole = parentAgentId === null ? undefined : roles.get(parentAgentId);
    const ceiling =
      parentRole === undefined
        ? { spendLimits: toLedgerLimits(role.budget), timeMs: role.budget.timeMs }
        : computeChildLimits({
            share: parentRole.delegation.share,
            definition: role.budget,
            left: toSpendAmounts(findMostLeft(parentAgentId, tightened)),
            role: role.name,
            delegatedRoles: listDelegatedRoles(agent, cast),
            source: "",
          });
    const limited = tightenAccount(account, role, ceiling);
    tightened.set(agentId, limited);
    return limited;
  });
}

interface Ceiling {
  readonly spendLimits: SpendLimits;
  readonly timeMs: number | undefined;
}

function tightenAccount(account: LedgerAccount, role: AgentRole, ceiling: Ceiling): LedgerAccount {
  const { limits, reserve, timeLimitMs } = account;
  const grants = collectGrants(account);
  const granted = sumGrants(grants);
  const grantedMs = grants.reduce((sum, { budget }) => sum + (budget.timeMs ?? 0), 0);
  const mostMs = (ceiling.timeMs ?? Infinity) + grantedMs;
  const leastMs = Math.min(timeLimitMs ?? Infinity, mostMs);
  const due = toLedgerLimits(role.delegation.reserve);
  const raised: Partial<Record<LedgerAxis, number>> = {};
  const reserves: Partial<Record<LedgerAxis, number>> = { ...reserve };
  for (const axis of LEDGER_AXES) {
    const [limit, least] = [ceiling.spendLimits[axis], due[axis]];
    if (limit !== undefined) raised[axis] = limit + (granted[axis] ?? 0);
    if (least !== undefined) reserves[axis] = Math.max(reserve[axis] ?? 0, least);
  }
  return {
    ...account,
    limits: tightenLimits(limits, raised),
    reserve: reserves,
    timeLimitMs: leastMs === Infinity ? null : leastMs,
  };
}

/**
 * Returns the largest amount that subagents of an account can have had left, since a limit on the
 * path never decreases.
 */
function findMostLeft(
  parentAgentId: AgentId | null,
  accounts: ReadonlyMap<AgentId, LedgerAccount>,
): SpendLimits {
  let left: SpendLimits = {};
  for (let id = parentAgentId; id !== null;) {
    const account = accounts.get(id);
    if (account === undefined) break;
    left = tightenLimits(left, account.limits);
    id = account.parentAgentId;
  }
  return left;
}

/**
 * Returns the roles of the delegations that shared the budget of a reply, as far as the run shows
 * them.
 */
function listDelegatedRoles(agent: PausedAgent, { run, agents }: CastRun): readonly string[] {
  const { parentAgentId, spawnStepId, execution, role } = agent;
  const parent = parentAgentId === null ? undefined : agents.get(parentAgentId);
  // A continued subagent was created by an earlier step.
  if (parent === undefined || execution > 1) return [role];
  const members = new Map<CallId | null, string>();
  for (const agent of run.agents) {
    const isMember = agent.parentAgentId === parentAgentId && agent.spawnStepId === spawnStepId;
    if (isMember && findSpawnRequest(parent, agent) !== undefined)
      members.set(agent.spawnCallId, agent.role);
  }
  return members.size === 0 ? [role] : [...members.values()];
}
