// Which tool calls of a run had begun when it was cut off, and whether each is made again when the run goes on.

import type { AgentRole, RunId } from "espalier";
import type { Store } from "espalier/extend";
import { RunFold, RunRecord } from "espalier/view";

/** A call of which the end is not known. */
export interface InterruptedCall {
  readonly agentPath: string;
  readonly toolName: string;
  /** False: the tool must not be repeated. The model reads that the call was interrupted. */
  readonly isRepeated: boolean;
}

/** The calls that were cut off, those that must not be repeated first. `roles`: what is known of the tools. */
export async function interruptedCalls(
  store: Store,
  runId: RunId,
  roles: readonly AgentRole[],
): Promise<readonly InterruptedCall[]> {
  const fold = await keptFold(store, runId);
  const tools = new Map(roles.flatMap((role) => role.tools.map((tool) => [tool.name, tool])));
  const calls = fold.agents.flatMap(({ agentPath, openCalls }) =>
    openCalls.flatMap(({ kind, toolName }) => {
      const tool = tools.get(toolName);
      const isRepeated = tool?.kind !== "function" || tool.isRepeatable;
      return kind === "tool" ? [{ agentPath, toolName, isRepeated }] : [];
    }),
  );
  return calls.toSorted((left, right) => Number(left.isRepeated) - Number(right.isRepeated));
}

/** The run as far as its store has it. */
async function keptFold(store: Store, runId: RunId): Promise<RunFold> {
  const fold = new RunFold(runId);
  await new RunRecord(store, runId).advance((event) => fold.take(event));
  return fold;
}
