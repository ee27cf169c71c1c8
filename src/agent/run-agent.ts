// THE LOOP. One execution of one agent, as six phases that the caller may step through. Only the
// loop decides which phase is due. Only the loop, and `settle` at its end, handles stop requests
// from outside (L1). Other code only raises them. Between two effects nothing waits for I/O.

import type { AgentRuntime } from "./agent-runtime.ts";
import {
  hasReply,
  hasAllResults,
  isRequestTooLong,
  hasDeferredWork,
  getPendingCalls,
  type AgentState,
  type PausedState,
  type PendingState,
  type SettledState,
} from "./agent-state.ts";
import { fail, handleStopRequests, pauseBeforeCalls, stopOrPause } from "./stop-requests.ts";
import { pauseIfWaiting } from "./pause-agent.ts";
import { beginExecution, settle, type PreparedCall } from "./life-cycle.ts";
import { decide } from "./phases/decide.ts";
import { evaluate, executeTools, applyToolResults } from "./phases/execute-tools.ts";
import { infer } from "./phases/infer.ts";
import { prepare } from "./phases/prepare.ts";

/**
 * Runs an execution from its beginning, or from a pause, to its end or to a pause. Prepare reserves
 * the lease of a model call and infer settles it. After a stop in between, `settle` releases it.
 */
export async function runAgent(agent: AgentRuntime): Promise<SettledState> {
  let state: AgentState = agent.activate();
  try {
    state = beginExecution(agent, state);
    for (state = stopOrPause(agent, state); isActive(state); state = stopOrPause(agent, state)) {
      let call: PreparedCall | undefined;
      if (!hasReply(state) && !isRequestTooLong(state)) {
        ({ state, call } = await prepare(agent, state));
        await agent.endPhase("prepare", state);
        state = handleStopsAndWaits(agent, state);
      }
      if (call !== undefined && isActive(state)) {
        state = await infer(agent, state, call);
        await agent.endPhase("infer", state);
      }
      state = handleStopRequests(agent, state);
      if (hasReply(state) && isActive(state)) {
        state = evaluate(agent, state);
        await agent.endPhase("evaluate", state);
      }
      if (getPendingCalls(state).length > 0) state = pauseBeforeCalls(agent, state);
      if (getPendingCalls(state).length > 0 && isActive(state)) {
        state = await executeTools(agent, state);
        await agent.endPhase("execute", state);
        state = handleStopsAndWaits(agent, state);
      }
      if (hasAllResults(state)) {
        state = applyToolResults(agent, state);
        await agent.endPhase("applyToolResults", state);
      }
      if (state.status === "running") {
        state = await decide(agent, handleStopRequests(agent, state));
        await agent.endPhase("decide", state);
      }
    }
  } catch (cause) {
    // A failed execution has a beginning too: record it if it is missing (L2).
    state = fail(agent, hasBegun(state) ? state : beginExecution(agent, state), cause);
  }
  const settled = await settle(agent, state);
  await agent.endPhase(settled.status === "paused" ? "paused" : "ended", settled);
  return settled;
}

function isActive(state: AgentState): boolean {
  return state.status === "running" && state.log.signals.length === 0;
}

/** True once the beginning is recorded: no phase runs in a state that the loop has paused. */
function hasBegun(state: AgentState): state is Exclude<AgentState, PendingState | PausedState> {
  return state.status !== "pending" && state.status !== "paused";
}

/** Handles pending stop requests, and pauses if there is something to wait for. */
function handleStopsAndWaits(agent: AgentRuntime, state: AgentState): AgentState {
  const handled = handleStopRequests(agent, state);
  return hasDeferredWork(handled) ? pauseIfWaiting(agent, handled) : handled;
}
