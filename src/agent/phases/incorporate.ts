// incorporate: the results go into the history, one for every call, in call order.

import { hasFailures } from "../../policies/failure-counts.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { AgentState, OpenStep } from "../agent-state.ts";
import { addSignal } from "../stop-requests.ts";
import { recordResults } from "../transition.ts";
import { failureSignals } from "../../policies/error-budget.ts";

/**
 * Called once every call of the reply has its result (L3). What the calls make the execution stop for becomes a
 * signal here: a limit that refused one, or failures beyond the error budget, unless the result was already given.
 */
export function incorporate(agent: AgentRuntime, state: AgentState): AgentState {
  const { step } = state;
  const incorporated = recordResults(state);
  const { limit, executions = [] } = step ?? {};
  const limited = limit === undefined ? incorporated : addSignal(agent, incorporated, limit);
  const isCounted = limited.log.output === undefined && hasFailures(state.log.failures, executions);
  return isCounted ? raiseFailures(agent, limited, { before: state, executions }) : limited;
}

/** Raises what calls of the step make the execution stop for. `before`: the state in which they are not counted yet. */
export function raiseFailures(
  agent: AgentRuntime,
  state: AgentState,
  { before, executions }: { readonly before: AgentState } & Pick<OpenStep, "executions">,
): AgentState {
  const { failures } = before.log;
  const { errorBudget: budget, errorPolicy: policy } = agent.role;
  return failureSignals(failures, executions, { budget, policy }).reduce<AgentState>(
    (current, signal) => addSignal(agent, current, signal),
    state,
  );
}
