// evaluate: is what the model asks for still within the limits? Asked before any tool runs (R19).

import type { AgentContext } from "../agent-context.ts";
import { pendingCallsOf, type AgentState } from "../agent-state.ts";
import { raise } from "../life-cycle.ts";
import { budgetSignal } from "./prepare.ts";

/** A reply that wants nothing further is never stopped by a limit: it is the answer, as a text or as a typed result (R8, C36). */
export function evaluate(agent: AgentContext, state: AgentState): AgentState {
  const wanted = pendingCallsOf(state).filter(
    (call) => agent.tools.find(call.toolName)?.kind !== "finish",
  );
  if (wanted.length === 0) return state;
  const refusal = agent.budget.exhausted();
  return refusal === undefined ? state : raise(agent, state, budgetSignal(refusal));
}
