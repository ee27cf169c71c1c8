import { failureSignals } from "../../policies/failure-signals.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { AgentState, OpenStep } from "../agent-state.ts";
import { addSignal } from "../stop-requests.ts";

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
