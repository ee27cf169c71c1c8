// The subagents that an agent leaves when it ends, or when its step is over: none is left behind (T2).

import { winningSignal } from "../policies/stop-signals.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import { backgroundOf, pausedChildrenOf, type AgentState } from "./agent-state.ts";
import { transition } from "./transition.ts";

/** Ends the subagents that are paused and whose calls will not be continued (T2). */
export async function dismissChildren(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { subagents } = agent.run;
  const children = pausedChildrenOf(state);
  if (children.length === 0) return state;
  await Promise.all(children.map((id) => subagents.dismiss(agent, id)));
  return transition(state, { type: "recordSubtasks", subtasks: [] });
}

/** The agent ends: subagents that it has left end first, or go over to the run if it answered and its role says so (X9). */
export async function leaveSubagents(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { role } = agent;
  const { subagents } = agent.run;
  const background = backgroundOf(state);
  const children = [...new Set([...pausedChildrenOf(state), ...background])];
  if (children.length === 0) return state;
  const isAnswer = winningSignal(state.log.signals)?.reason.code === "completed";
  const isDetaching = isAnswer && role.delegation.atEnd === "detach";
  const kept = new Set(isDetaching ? background : []);
  await Promise.all(
    children.map((id) =>
      kept.has(id) ? subagents.detach(agent, id) : subagents.dismiss(agent, id),
    ),
  );
  return transition(state, { type: "dropSubagents", unread: isDetaching ? [] : background });
}
