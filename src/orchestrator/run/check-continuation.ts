// What must be right before a run at rest continues, besides its answers. Code of today must not be
// given a typed result that its types exclude.

import { EspalierError } from "../../kernel/error.ts";
import { mismatch } from "../../kernel/check.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import type { AgentId, RunId } from "../../protocol/ids.ts";
import type { UserMessage } from "../../protocol/message.ts";
import { checkToolLists } from "./check-tool-lists.ts";
import type { PausedAgent } from "../durability/paused-run.ts";
import { makeDynamicRole } from "../tree/admission.ts";
import type { RestoredAgent, RestoredRun } from "../durability/restored-run.ts";
import type { RoleRegistry } from "../tree/role-registry.ts";
import type { ResumeGrant } from "./start-options.ts";
import { type BudgetGrant, checkRaisable } from "../../budget/ledger-grant.ts";
import { CallEndSchema } from "../../agent/effects.ts";
import { NO_OUTPUT, findOutputProblems } from "../../agent/finish-tool.ts";
import { readArguments } from "../../agent/tool-calls/parsed-call.ts";
import { FINISH_TOOL_NAME } from "../../protocol/tool-rule.ts";
import { type ArgumentProblem, problemLines } from "../../tools/arguments/argument-problems.ts";

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

/** The roles by which the agents of a run live, those that were written at spawn included. Throws `invalid_paused_run` if one is not there. */
export function rolesOf(
  { agents }: { readonly agents: readonly Omit<PausedAgent, "state">[] },
  registry: RoleRegistry,
): ReadonlyMap<AgentId, AgentRole> {
  const roles = new Map<AgentId, AgentRole>();
  for (const { agentId, parentAgentId, role: name, draft, agentPath } of agents) {
    const parent = parentAgentId === null ? undefined : roles.get(parentAgentId);
    const role =
      draft === undefined || parent === undefined
        ? registry.find(name)
        : makeDynamicRole(parent, { role: name, draft }, registry);
    if (role === undefined || "code" in role) {
      const got = role === undefined ? "none" : `one that cannot be used: ${role.message}`;
      throw new EspalierError({
        code: "invalid_paused_run",
        message: `Expected a role named "${name}" for ${agentPath}, got ${got}. Resume with the roles that the run was started with.`,
        data: { role: name, agentPath },
      });
    }
    roles.set(agentId, role);
  }
  return roles;
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

/**
 * Throws `output_mismatch` if an agent has a typed result that does not fit the `output` of its role
 * in code. Changes nothing.
 */
export function checkOutputs(
  { runId, agents }: Pick<RestoredRun, "runId" | "agents">,
  roles: ReadonlyMap<AgentId, AgentRole>,
): void {
  for (const agent of agents) {
    const role = roles.get(agent.agentId);
    const problems = role && findProblems(agent, role);
    if (role !== undefined && problems !== undefined && problems.length > 0)
      throw outputMismatch({ runId, agent, role, problems });
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

/** Returns the problems of a result whose call had ended when the process died. It is parsed again. */
function findCallProblems({ finish }: AgentRole, outcome: unknown): readonly ArgumentProblem[] {
  const end = CallEndSchema.safeParse(outcome).data;
  if (end?.type !== "executed" || end.execution.type !== "succeeded") return [];
  if (finish === undefined) return NO_OUTPUT;
  const { call, arguments: parsed } = end.execution;
  const attempts = [readArguments(call.argumentsText), parsed].flatMap((input) =>
    input === undefined ? [] : [finish.bind(input)],
  );
  const problems = attempts.map((bound) => (bound.type === "invalid" ? bound.problems : []));
  return problems.some(({ length }) => length === 0) ? [] : (problems[0] ?? []);
}

interface Mismatch {
  readonly runId: RunId;
  readonly agent: RestoredAgent;
  readonly role: AgentRole;
  readonly problems: readonly ArgumentProblem[];
}

function outputMismatch({ runId, agent, role, problems }: Mismatch): EspalierError {
  const { agentPath } = agent;
  const lines = problemLines("the result", problems).join("; ");
  return new EspalierError({
    code: "output_mismatch",
    message: `Run ${runId} cannot continue, because the stored result of ${agentPath} does not fit the output of role "${role.name}": ${lines}. Restore the output schema that the role had, or start a new run. Nothing was changed.`,
    data: {
      runId,
      role: role.name,
      agentPath,
      fields: problems.map(({ parameter }) => parameter),
    },
  });
}
