// Checks of roles, tools, typed results and grants before a run starts or continues. Refuses a
// context policy that names an unknown tool, because another tool would stay allowed by mistake.
// Warns of guards and hooks that name an unknown tool, because they are never called.

import type { AgentRole } from "../../agent/agent-role.ts";
import { CallEndSchema } from "../../agent/effect-outcomes.ts";
import { findOutputProblems, NO_OUTPUT } from "../../agent/typed-result.ts";
import { readArguments } from "../../agent/tool-calls/parsed-call.ts";
import type { Hook } from "../../hooks/hook.ts";
import { mismatch } from "../../kernel/argument-checks.ts";
import { EspalierError } from "../../kernel/error.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import { findUnknownToolName } from "../../policies/child-tools.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { UserMessage } from "../../protocol/message.ts";
import { BUDGET_STOP_CODES } from "../../protocol/stop.ts";
import { FINISH_TOOL_NAME } from "../../protocol/tool-rule.ts";
import {
  type ArgumentProblem,
  describeProblemLines,
} from "../../tools/arguments/argument-problems.ts";
import type { ToolGuard } from "../../tools/tool-guard.ts";
import { type BudgetGrant, checkRaisable } from "../../budget/ledger-grant.ts";
import { createCannotContinueError, type PausedAgent } from "../durability/paused-run.ts";
import type { RestoredAgent, RestoredRun } from "../durability/restored-run.ts";
import { createDynamicRole } from "../tree/spawn-checks.ts";
import type { RoleRegistry } from "../tree/role-registry.ts";
import type { Settings } from "../tree/orchestrator-settings.ts";
import type { ResumeGrant } from "./run-options.ts";

/**
 * Returns the role of the root: the given role, or the orchestrator's role with this name. Throws
 * `invalid_paused_run` if the orchestrator has no such role.
 */
export function resolveRootRole(
  run: { readonly agents: readonly { readonly role: string }[] },
  givenRole: AgentRole | undefined,
  roles: readonly AgentRole[],
): AgentRole {
  const name = run.agents[0]?.role;
  const role = givenRole ?? roles.find((candidate) => candidate.name === name);
  if (role !== undefined && role.name === name) return role;
  const got = role === undefined ? "none" : `"${role.name}"`;
  const message = `Cannot continue the run: it was started with the role "${name}", got ${got}. List the role in the orchestrator's roles, or pass it as options.role.`;
  throw createCannotContinueError(message, { role: name ?? "" });
}

/**
 * Returns the roles of the agents of a run, including dynamic ones. Throws `invalid_paused_run` if
 * one is missing.
 */
export function findAgentRoles(
  { agents }: { readonly agents: readonly Omit<PausedAgent, "state">[] },
  registry: RoleRegistry,
): ReadonlyMap<AgentId, AgentRole> {
  const roles = new Map<AgentId, AgentRole>();
  for (const { agentId, parentAgentId, role: name, draft, agentPath } of agents) {
    const parent = parentAgentId === null ? undefined : roles.get(parentAgentId);
    const { role, refusal } =
      draft === undefined || parent === undefined
        ? { role: registry.find(name), refusal: undefined }
        : createDynamicRole(parent, { role: name, draft }, registry);
    if (role === undefined) {
      const got = refusal === undefined ? "none" : `an unusable one: ${refusal.message}`;
      const message = `Expected a role named "${name}" for ${agentPath}, got ${got}. Resume with the roles that the run was started with.`;
      throw createCannotContinueError(message, { role: name, agentPath });
    }
    roles.set(agentId, role);
  }
  return roles;
}

/** Grant for an agent of an ended or paused run. */
export interface AgentGrant extends BudgetGrant {
  readonly agentId: AgentId;
  /** Name of the grant in errors. */
  readonly field: string;
}

/**
 * Returns the grants, each with its agent. `hasToEnd` means that the process crashed before the end
 * of the run was persisted, so the run continues even if its root has ended. Throws
 * `invalid_paused_run` for an ended run that no grant can continue. Throws `invalid_argument` for a
 * grant to an unknown agent, or without a limit to raise.
 */
export function resolveGrants(
  run: RestoredRun,
  requests: readonly ResumeGrant[],
  { hasToEnd }: { readonly hasToEnd: boolean },
): readonly AgentGrant[] {
  const [root] = run.agents;
  const isOver = root?.state.status !== "paused" && root?.state.status !== "pending" && !hasToEnd;
  if (root !== undefined && isOver) {
    const { status, reason } = root.state;
    const isLimited = status === "stopped" && BUDGET_STOP_CODES.has(reason.code);
    if (!isLimited || requests.length === 0) {
      const advice = isLimited
        ? "Raise the limit that stopped it: options.grants."
        : "Fork the run instead: orchestrator.fork.";
      const message = `Cannot continue run ${run.runId}: ${root.agentPath} is ${status} (${reason.code}). ${advice}`;
      throw createCannotContinueError(message, { runId: run.runId, status, reason: reason.code });
    }
  }
  return requests.map(({ budget, by, agentPath = root?.agentPath ?? "" }, index) => {
    const field = `resume options.grants[${index}]`;
    const agent = run.agents.find((candidate) => candidate.agentPath === agentPath);
    if (agent === undefined) {
      const paths = run.agents.map((candidate) => candidate.agentPath).join(", ");
      throw mismatch(
        `${field}.agentPath`,
        `an agent of the run (${paths})`,
        agentPath,
        "See result.agents.",
      );
    }
    const { agentId } = agent;
    const account = run.accounts.find((candidate) => candidate.agentId === agentId);
    if (account !== undefined) checkRaisable(account, { budget, by }, field);
    return { budget, by, agentId, field };
  });
}

/** Returns the notice to the model of an agent that a limit had stopped. */
export function createStoppedNotice({ agents }: RestoredRun): UserMessage {
  const state = agents[0]?.state;
  const reason = state === undefined || state.status === "pending" ? "" : state.reason.message;
  const text = `You were stopped before you were done: ${reason} You have been granted more since. Continue from where you were.`;
  return { role: "user", text, origin: "notice" };
}

/**
 * Throws like `start` for models that cannot work, or without a known price although the run has a
 * cost limit.
 */
export function assertReady(run: RestoredRun, registry: RoleRegistry): void {
  checkToolLists(registry, registry.root);
  const limited = new Map(
    run.accounts.flatMap(({ agentId, limits, agentPath }) =>
      limits.costMicroUsd === undefined ? [] : [[agentId, agentPath] as const],
    ),
  );
  for (const agent of run.agents) {
    const role = registry.find(agent.role);
    if (role === undefined) continue;
    registry.assertReady(role, {});
    const path = limited.get(agent.agentId);
    if (path !== undefined) registry.requirePrices(`the cost limit of ${path}`, role);
  }
}

/**
 * Throws `output_mismatch` if the typed result of an agent does not fit the `output` of its role in
 * code. Changes nothing.
 */
export function checkOutputs(
  { runId, agents }: Pick<RestoredRun, "runId" | "agents">,
  roles: ReadonlyMap<AgentId, AgentRole>,
): void {
  for (const agent of agents) {
    const role = roles.get(agent.agentId);
    const problems = role && findProblems(agent, role);
    if (role === undefined || problems === undefined || problems.length === 0) continue;
    const { agentPath } = agent;
    const lines = describeProblemLines("the result", problems).join("; ");
    throw new EspalierError({
      code: "output_mismatch",
      message: `Cannot continue run ${runId}: the stored result of ${agentPath} does not fit the output of role "${role.name}": ${lines}. Restore the output schema that the role had, or start a new run. Nothing was changed.`,
      data: {
        runId,
        role: role.name,
        agentPath,
        fields: problems.map(({ parameter }) => parameter),
      },
    });
  }
}

function findProblems(
  { state, inFlight }: RestoredAgent,
  role: AgentRole,
): readonly ArgumentProblem[] {
  const { output, outputParse } = state.log;
  if (output !== undefined) return findOutputProblems(role, output, outputParse);
  return [...(inFlight?.outcomes ?? [])].flatMap(([name, outcome]) =>
    name.endsWith(`:${FINISH_TOOL_NAME}`) ? findCallProblems(role, outcome) : [],
  );
}

/**
 * Returns the problems of a result whose call had ended before the crash. The result is parsed
 * again.
 */
function findCallProblems({ finish }: AgentRole, outcome: unknown): readonly ArgumentProblem[] {
  const end = CallEndSchema().safeParse(outcome).data;
  if (end?.type !== "executed" || end.execution.type !== "succeeded") return [];
  if (finish === undefined) return NO_OUTPUT;
  const { call, arguments: parsed } = end.execution;
  const attempts = [readArguments(call.argumentsText), parsed].flatMap((input) =>
    input === undefined ? [] : [finish.bind(input)],
  );
  const problems = attempts.map((bound) => (bound.type === "invalid" ? bound.problems : []));
  return problems.some(({ length }) => length === 0) ? [] : (problems[0] ?? []);
}

/**
 * Throws `unknown_tool` if a context policy names a tool that no agent below can have. `root`: the
 * root of the tree.
 */
export function checkToolLists(registry: RoleRegistry, root: AgentRole): void {
  for (const [role, path] of findRolePaths(registry, root)) {
    const { contextPolicy: context } = role;
    if (context.allowedTools === undefined && context.deniedTools.length === 0) continue;
    const known = findToolsBelow(registry, role);
    if (known === undefined) continue;
    const unknown = findUnknownToolName(context, known);
    if (unknown === undefined) continue;
    const { field, toolName } = unknown;
    const names = known.size === 0 ? "they have none" : [...known].join(", ");
    throw new EspalierError({
      code: "unknown_tool",
      message: `Expected ${role.name}.contextPolicy.${field} to be a tool of an agent below ${path} (${names}), got "${toolName}". Name tools as the model calls them, or leave it out.`,
      data: { field: `${role.name}.contextPolicy.${field}`, path, got: toolName },
    });
  }
}

/**
 * Returns the roles that can be started, each with the shortest path from the root, such as
 * `lead/researcher`.
 */
function findRolePaths(registry: RoleRegistry, root: AgentRole): ReadonlyMap<AgentRole, string> {
  const paths = new Map([[root, root.name]]);
  for (const [role, path] of paths) {
    for (const subagent of registry.getSubagents(role))
      if (!paths.has(subagent)) paths.set(subagent, `${path}/${subagent.name}`);
  }
  return paths;
}

/** Returns the tools of all agents that can run below a role. `undefined` if none can. */
function findToolsBelow(registry: RoleRegistry, role: AgentRole): ReadonlySet<string> | undefined {
  const subagents = registry.getSubagents(role);
  if (subagents.length === 0 && role.dynamicRoles === undefined) return undefined;
  const below = subagents.flatMap((subagent) => [...registry.findReachable(subagent)]);
  const written = (role.dynamicRoles?.tools ?? []).map(({ name }) => name);
  return new Set([...registry.collectToolNames(below), ...written]);
}

/** Warns once of each guard or hook that names a tool which none of its agents can have. */
export function warnOfUnknownToolNames(
  registry: RoleRegistry,
  { guards, hooks }: Pick<Settings, "guards" | "hooks">,
): void {
  const ofRun = { owner: "the orchestrator", where: "of this run" };
  warnOfUnknown([...guards.map(({ guard }) => guard), ...hooks], ofRun, () =>
    registry.collectToolNames(registry.all),
  );
  for (const role of registry.all) {
    const ofRole = { owner: role.name, where: "there" };
    warnOfUnknown(role.guards, ofRole, () =>
      registry.collectToolNames(registry.findReachable(role)),
    );
    warnOfUnknown(role.hooks, ofRole, () => registry.collectToolNames([role]));
  }
}

/** Warns of guards or hooks for tools that no agent has. `collect` returns the existing names. */
function warnOfUnknown(
  limits: readonly (ToolGuard | Hook)[],
  { owner, where }: { readonly owner: string; readonly where: string },
  collect: () => ReadonlySet<string>,
): void {
  const names = limits.length === 0 ? undefined : collect();
  for (const limit of limits) {
    const tools = "tools" in limit ? (limit.tools ?? []) : [];
    const unknown = tools.filter((name) => names?.has(name) === false);
    if (unknown.length === 0) continue;
    const known = [...(names ?? [])].join(", ") || "they have none";
    const isHook = "kind" in limit;
    const consequence = isHook ? "the hook is never called" : "the guard never applies";
    warnOnce(
      limit,
      `A ${isHook ? "hook" : "guard"} of ${owner} is for ${unknown.join(", ")}, and no agent ${where} has a tool of that name (${known}). Name tools as the model calls them, or ${consequence}.`,
    );
  }
}
