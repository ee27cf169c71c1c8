// incorporate: the results go into the history, one for every call, in call order.

import { NO_USAGE } from "../../protocol/usage.ts";
import type { AgentContext } from "../agent-context.ts";
import type { AgentState } from "../agent-state.ts";
import { raise } from "../life-cycle.ts";
import { transition } from "../transition.ts";
import type { Executed } from "./execute-tools.ts";

/** Straight through transition(); a limit that refused a call becomes a signal here. */
export function incorporate(
  agent: AgentContext,
  state: AgentState,
  executed: Executed,
): AgentState {
  const usage = { ...NO_USAGE, toolCalls: executed.charged };
  let next = transition(state, { type: "addUsage", usage });
  next = transition(next, { type: "recordExecutions", executions: executed.executions });
  if (executed.output !== undefined)
    next = transition(next, { type: "recordOutput", output: executed.output });
  return executed.signal === undefined ? next : raise(agent, next, executed.signal);
}
