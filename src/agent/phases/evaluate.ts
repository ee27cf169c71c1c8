// evaluate: is what the model asks for still within the limits? Asked before any tool runs (R19).

import type { AgentContext } from "../agent-context.ts";
import { pendingCallsOf, type AgentState } from "../agent-state.ts";
import { raise } from "../life-cycle.ts";
import { budgetSignal } from "./prepare.ts";

/** A reply that wants nothing further is never stopped by a limit: it is the answer (R8). */
export function evaluate(agent: AgentContext, state: AgentState): AgentState {
  if (pendingCallsOf(state).length === 0) return state;
  const refusal = agent.budget.exhausted();
  return refusal === undefined ? state : raise(agent, state, budgetSignal(refusal));
}
