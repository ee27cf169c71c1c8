// Which tool calls of a run had begun when it was cut off, and whether each is made again when the run continues.

import type { AgentRole, RunId } from "espalier";
import type { Store } from "espalier/extend";
import { openToolCalls, RunFold, RunRecord, type OpenToolCall } from "espalier/view";

/** A call of which the end is not known. */
export interface InterruptedCall extends OpenToolCall {
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
  const calls = openToolCalls(fold).map((call) => {
    const tool = tools.get(call.toolName);
    return { ...call, isRepeated: tool?.kind !== "function" || tool.isRepeatable };
  });
  return calls.toSorted((left, right) => Number(left.isRepeated) - Number(right.isRepeated));
}

/** The run as far as its store has it. */
async function keptFold(store: Store, runId: RunId): Promise<RunFold> {
  const fold = new RunFold(runId);
  await new RunRecord(store, runId).advance((event) => fold.take(event));
  return fold;
}
