// What must be right before a paused run goes on, besides its answers.

import { EspalierError } from "../kernel/error.ts";
import { requirePrice, type AgentRole } from "../agent/agent-role.ts";
import type { PausedRun } from "./paused-run.ts";
import type { RoleRegistry } from "./role-registry.ts";

/** The role of the root: the one that was handed in, or the orchestrator's of that name. Throws `invalid_paused_run` if there is none. */
export function rootRole(
  run: PausedRun,
  given: AgentRole | undefined,
  roles: readonly AgentRole[],
): AgentRole {
  const name = run.agents[0]?.role;
  const role = given ?? roles.find((one) => one.name === name);
  if (role !== undefined && role.name === name) return role;
  throw new EspalierError({
    code: "invalid_paused_run",
    message: `Expected the role "${name}", which the run was started with, got ${role === undefined ? "none" : `"${role.name}"`}. List it in the orchestrator's roles, or hand it in as options.role.`,
    data: { role: name ?? "" },
  });
}

/** Throws what `start` would throw of models that cannot work, or whose price nobody knows though the run has a cost limit (R57). */
export function assertReady(run: PausedRun, registry: RoleRegistry): void {
  const limited = new Map(
    run.accounts.flatMap(({ agentId, limits, path }) =>
      limits.costMicroUsd === undefined ? [] : [[agentId, path] as const],
    ),
  );
  for (const agent of run.agents) {
    const role = registry.find(agent.role);
    if (role === undefined) continue;
    registry.assertReady(role, {});
    const path = limited.get(agent.agentId);
    if (path === undefined) continue;
    for (const below of registry.reachableFrom(role))
      requirePrice(`the cost limit of ${path}`, below);
  }
}

export function alreadyResumed({ runId, pauses }: PausedRun): EspalierError {
  return new EspalierError({
    code: "already_resumed",
    message: `Expected a pause that nobody has gone on from, got pause ${pauses} of ${runId}, which was resumed before. What was approved is run once: use the handle of that run, or the paused run that it left.`,
    data: { runId, pauses },
  });
}
