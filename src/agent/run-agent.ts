// THE LOOP. One execution of one agent, as six phases that the caller may step through. It alone says which phase is due, and it alone
// takes in stop signals from outside (L1): everything else only raises them. Between two effects all is synchronous.

import type { AgentContext } from "./agent-context.ts";
import {
  hasReply,
  isAnswered,
  isTooLong,
  pendingCallsOf,
  type AgentState,
  type PausedState,
  type PendingState,
  type RestingState,
} from "./agent-state.ts";
import {
  begin,
  fail,
  heed,
  heedSignals,
  pauseIfWaiting,
  rest,
  type PreparedCall,
} from "./life-cycle.ts";
import { decide } from "./phases/decide.ts";
import { evaluate } from "./phases/evaluate.ts";
import { executeTools } from "./phases/execute-tools.ts";
import { incorporate } from "./phases/incorporate.ts";
import { infer } from "./phases/infer.ts";
import { prepare } from "./phases/prepare.ts";

/** The phases of a step, and the ways to leave the loop. */
export type Phase =
  | "prepare"
  | "infer"
  | "evaluate"
  | "execute"
  | "incorporate"
  | "decide"
  | "paused"
  | "ended";

/** A phase that has just ended, with the state it left: frozen, and not the one the loop works on next. */
export interface PhaseReport {
  readonly phase: Phase;
  readonly state: AgentState;
}

/** Runs an execution to its end, or to a pause, from its beginning or from a pause. Each `next` runs one phase. */
export async function* runAgent(
  agent: AgentContext,
  from: PendingState | PausedState,
): AsyncGenerator<PhaseReport, RestingState, undefined> {
  let state: AgentState = from;
  try {
    state = begin(agent, from);
    while (goesOn((state = heed(agent, state)))) {
      let call: PreparedCall | undefined;
      // A process may have died between a refusal and what decide makes of it.
      if (!hasReply(state) && !isTooLong(state)) {
        ({ state, call } = await prepare(agent, state));
        yield { phase: "prepare", state };
        state = pauseIfWaiting(agent, heedSignals(agent, state));
      }
      if (call !== undefined && goesOn(state)) {
        yield { phase: "infer", state: (state = await infer(agent, state, call)) };
      }
      if (hasReply(state) && goesOn((state = heedSignals(agent, state)))) {
        yield { phase: "evaluate", state: (state = evaluate(agent, state)) };
      }
      if (pendingCallsOf(state).length > 0 && goesOn((state = heed(agent, state)))) {
        yield { phase: "execute", state: (state = await executeTools(agent, state)) };
        state = pauseIfWaiting(agent, heedSignals(agent, state));
      }
      if (isAnswered(state)) {
        yield { phase: "incorporate", state: (state = incorporate(agent, state)) };
      }
      if (state.status === "running") {
        yield { phase: "decide", state: (state = await decide(agent, heedSignals(agent, state))) };
      }
    }
  } catch (cause) {
    // What broke before the beginning was recorded has begun nothing: an execution that fails begins, too (L2).
    const begun = state === from ? begin(agent, from) : state;
    state = fail(agent, begun, cause);
  }
  const rested = await rest(agent, state);
  yield { phase: rested.status === "paused" ? "paused" : "ended", state: rested };
  return rested;
}

function goesOn(state: AgentState): boolean {
  return state.status === "running" && state.log.signals.length === 0;
}
