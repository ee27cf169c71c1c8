// incorporate: the results go into the history, one for every call, in call order.

import type { AgentContext } from "../agent-context.ts";
import { stepOf, type AgentState } from "../agent-state.ts";
import { raise } from "../life-cycle.ts";
import { transition } from "../transition.ts";

/** Straight through transition(), once every call of the reply has its result (L3); a limit that refused a call becomes a signal here. */
export function incorporate(agent: AgentContext, state: AgentState): AgentState {
  const limit = stepOf(state)?.limit;
  const incorporated = transition(state, { type: "incorporate" });
  return limit === undefined ? incorporated : raise(agent, incorporated, limit);
}
