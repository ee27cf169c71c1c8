// What must be right before a run at rest continues, besides its answers.

import { EspalierError } from "../../kernel/error.ts";
import { mismatch } from "../../kernel/check.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { UserMessage } from "../../protocol/message.ts";
import { checkToolLists } from "./check-tool-lists.ts";
import type { RestoredRun } from "../durability/restored-run.ts";
import type { RoleRegistry } from "../tree/role-registry.ts";
import type { ResumeGrant } from "./run-options.ts";
import { checkRaisable, type BudgetGrant } from "../budget/ledger-grant.ts";

/** The role of the root: the one that was handed in, or the orchestrator's of that name. Throws `invalid_paused_run` if there is none. */
export function rootRole(
  run: { readonly agents: readonly { readonly role: string }[] },
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

/** A grant for an agent of a run at rest. */
export interface AgentGrant extends BudgetGrant {
  readonly agentId: AgentId;
  /** What names it in errors. */
  readonly field: string;
}

/**
 * The grants, each with the agent that it is for. `hasToEnd`: the process died before the end of the run was kept, so that it continues also
 * if its root has ended. Throws `invalid_paused_run` for a run that has ended and that no grant can continue, and `invalid_option` for a
 * grant without an agent, or of what that agent has no limit on.
 */
export function grantsFor(
  run: RestoredRun,
  asked: readonly ResumeGrant[],
  { hasToEnd }: { readonly hasToEnd: boolean },
): readonly AgentGrant[] {
  const [root] = run.agents;
  const isOver = root?.state.status !== "paused" && root?.state.status !== "pending" && !hasToEnd;
  if (root !== undefined && isOver) {
    const { status, reason } = root.state;
    const isLimited = status === "stopped" && LIMITS.has(reason.code);
    if (!isLimited || asked.length === 0) {
      const advice = isLimited
        ? "Grant it more of what it lacked: options.grants."
        : "Fork it instead: orchestrator.fork.";
      throw new EspalierError({
        code: "invalid_paused_run",
        message: `Expected a run that can continue, got ${root.agentPath} (${run.runId}), which is ${status} (${reason.code}). ${advice}`,
        data: { runId: run.runId, status, reason: reason.code },
      });
    }
  }
  return asked.map(({ budget, by, agentPath = root?.agentPath ?? "" }, index) => {
    const field = `resume options.grants[${index}]`;
    const agent = run.agents.find((one) => one.agentPath === agentPath);
    if (agent === undefined) {
      const paths = run.agents.map((one) => one.agentPath).join(", ");
      throw mismatch(
        `${field}.agentPath`,
        `an agent of the run (${paths})`,
        agentPath,
        "See result.agents.",
      );
    }
    const { agentId } = agent;
    const account = run.accounts.find((one) => one.agentId === agentId);
    if (account !== undefined) checkRaisable(account, { budget, by }, field);
    return { budget, by, agentId, field };
  });
}

const LIMITS: ReadonlySet<string> = new Set([
  "steps_limit",
  "token_limit",
  "cost_limit",
  "time_limit",
  "tool_calls_limit",
]);

/** The notice to the model of an agent that a limit had stopped. */
export function stoppedNotice({ agents }: RestoredRun): UserMessage {
  const state = agents[0]?.state;
  const reason = state === undefined || state.status === "pending" ? "" : state.reason.message;
  const text = `You were stopped before you were done: ${reason} You have been granted more since. Go on from where you were.`;
  return { role: "user", text, origin: "notice" };
}

/** Throws what `start` would throw of models that cannot work, or whose price is unknown though the run has a cost limit (R57). */
export function assertReady(run: RestoredRun, registry: RoleRegistry): void {
  checkToolLists(registry, registry.root);
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
    if (path !== undefined) registry.requirePrices(`the cost limit of ${path}`, role);
  }
}
