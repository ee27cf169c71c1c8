// The beginning of an execution: hooks see the task before anything is spent, and stop conditions are asked for the first time (R5).

import type { AgentRuntime } from "../agent-runtime.ts";
import type { AgentState } from "../agent-state.ts";
import { askConditions } from "../ask-conditions.ts";
import { consultHooks } from "../consult-hooks.ts";
import { briefed } from "../life-cycle.ts";
import { failWith, addSignal } from "../stop-requests.ts";
import { transition } from "../transition.ts";

/** Puts the task into the history, as hooks of the root changed it; a refused one leaves no trace there (R90). */
export async function takeTask(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { identity, role, task, metadata } = agent;
  const hooked =
    identity.depth > 0
      ? undefined
      : await consultHooks(agent, {
          point: "userInput",
          stepNumber: 0,
          place: {},
          input: { role: role.name, task, metadata },
        });
  if (hooked?.type === "failed") return failWith(agent, unbriefed(state), hooked.error);
  if (hooked?.type === "cancelled") return unbriefed(state);
  const refusal = hooked?.patch.refuse;
  if (refusal !== undefined) {
    const reason = { code: "input_refused", message: refusal, data: {} };
    const name = hooked?.changedBy.at(-1)?.hook;
    const signal = { source: "hook" as const, reason, ...(name === undefined ? {} : { name }) };
    return addSignal(agent, unbriefed(state), signal);
  }
  const text = hooked?.patch.task ?? task;
  return await askConditions(agent, briefed(state, text));
}

function unbriefed(state: AgentState): AgentState {
  return transition(state, { type: "brief", messages: [] });
}
