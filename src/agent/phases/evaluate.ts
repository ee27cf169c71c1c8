// evaluate: is what the model asks for still within the limits? Asked before any tool runs (R19).

import type { StopSignal } from "../../protocol/stop.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { openStepOf, pendingCallsOf, type AgentState } from "../agent-state.ts";
import type { LastStep } from "../../budget/lease.ts";
import { addSignal, budgetSignal } from "../stop-requests.ts";

/**
 * A reply that wants nothing further is never stopped by a limit: it is the answer, as a text or as a typed result (R8, C36). A reply
 * that was let through before a pause is not evaluated again (R28).
 */
export function evaluate(agent: AgentRuntime, state: AgentState): AgentState {
  const step = openStepOf(state);
  if (step.executions.length > 0 || step.deferrals.length > 0) return state;
  const pending = pendingCallsOf(state).filter(
    ({ toolName }) => agent.tools.find(toolName)?.kind !== "finish",
  );
  if (pending.length === 0) return state;
  if (step.lastStep !== undefined) return addSignal(agent, state, lastStepSignal(step.lastStep));
  // A reply that was let through before the process died is not evaluated again.
  if (agent.persistence?.inFlight?.isUnderWay === true) return state;
  const refusal = agent.account.exhausted();
  return refusal === undefined ? state : addSignal(agent, state, budgetSignal(refusal));
}

/** The steps are used up, and the request said so in time (C6). */
export function lastStepSignal({ accountPath, maximum }: LastStep): StopSignal {
  return {
    source: "budget",
    reason: {
      code: "steps_limit",
      message: `The steps budget of ${accountPath} allows ${maximum}; this was the last, and the agent was told to finish in it.`,
      data: { axis: "steps", accountPath, maximum, current: maximum },
    },
  };
}
