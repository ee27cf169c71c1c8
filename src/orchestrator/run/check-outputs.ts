// Checks the typed results in a run that is to continue: code of today must not be given a result
// that its types exclude.

import type { AgentRole } from "../../agent/agent-role.ts";
import { EspalierError } from "../../kernel/error.ts";
import type { AgentId, RunId } from "../../protocol/ids.ts";
import { FINISH_TOOL_NAME } from "../../protocol/tool-rule.ts";
import { problemLines, type ArgumentProblem } from "../../tools/arguments/argument-problems.ts";
import type { RestoredAgent, RestoredRun } from "../durability/restored-run.ts";
import { readArguments } from "../../agent/tool-calls/parsed-call.ts";
import { findOutputProblems, NO_OUTPUT } from "../../agent/finish-tool.ts";
import { CallEndSchema } from "../../agent/effects.ts";

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
