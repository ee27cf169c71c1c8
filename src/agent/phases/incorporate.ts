// incorporate: the results go into the history, one for every call, in call order.

import type { AgentRuntime } from "../agent-runtime.ts";
import { stepOf, type AgentState } from "../agent-state.ts";
import { raise } from "../life-cycle.ts";
import { transition } from "../transition.ts";
import { raiseFailures } from "./raise-failures.ts";

/**
 * Straight through transition(), once every call of the reply has its result (L3). What the calls make the execution stop for becomes a
 * signal here: a limit that refused one, or failures beyond the error budget, unless the result was given and nothing further is wanted.
 */
export function incorporate(agent: AgentRuntime, state: AgentState): AgentState {
  const step = stepOf(state);
  const incorporated = transition(state, { type: "incorporate" });
  const { limit } = step ?? {};
  const limited = limit === undefined ? incorporated : raise(agent, incorporated, limit);
  if (limited.log.output !== undefined) return limited;
  return raiseFailures(agent, limited, { before: state, executions: step?.executions ?? [] });
}
