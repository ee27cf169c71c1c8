// Which tool calls of a run had begun when it was cut off, and whether each is made again when the run continues.

import type { AgentRole } from "espalier";
import { openToolCalls, type OpenToolCall, type RunFold } from "espalier/view";

/** A call of which the end is not known. */
export interface InterruptedCall extends OpenToolCall {
  /** False: the tool must not be repeated. The model reads that the call was interrupted. */
  readonly isRepeated: boolean;
}

/** The calls that were cut off in a run, those that must not be repeated first. `roles`: what is known of the tools. */
export function interruptedCalls(
  fold: RunFold,
  roles: readonly AgentRole[],
): readonly InterruptedCall[] {
  const tools = new Map(roles.flatMap((role) => role.tools.map((tool) => [tool.name, tool])));
  const calls = openToolCalls(fold).map((call) => {
    const tool = tools.get(call.toolName);
    return { ...call, isRepeated: tool?.kind !== "function" || tool.isRepeatable };
  });
  return calls.toSorted((left, right) => Number(left.isRepeated) - Number(right.isRepeated));
}
