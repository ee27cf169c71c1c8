// THE LOOP. One execution of one agent, as six phases that the caller may step through. It alone says which phase is due, and it alone
// takes in stop signals from outside (L1): everything else only raises them. Between two effects all is synchronous.

import type { AgentRuntime } from "./agent-runtime.ts";
import {
  hasReply,
  isAnswered,
  isTooLong,
  pendingCallsOf,
  type AgentState,
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

/** Holds the loop between two phases until the next one is asked for. */
export interface PhaseStepper {
  step(report: PhaseReport): Promise<void>;
}

/** Runs an execution to its end, or to a pause, from its beginning or from a pause. `stepper`: default none, and the loop runs freely. */
export async function runAgent(agent: AgentRuntime, stepper?: PhaseStepper): Promise<RestingState> {
  const from = agent.activate();
  const over = async (phase: Phase, left: AgentState): Promise<AgentState> => {
    agent.run.journal?.phaseOver(agent, phase, left);
    if (stepper !== undefined) await stepper.step({ phase, state: left });
    return left;
  };
  let state: AgentState = from;
  try {
    state = begin(agent, from);
    while (goesOn((state = heed(agent, state)))) {
      let call: PreparedCall | undefined;
      // A process may have died between a refusal and what decide makes of it.
      if (!hasReply(state) && !isTooLong(state)) {
        ({ state, call } = await prepare(agent, state));
        state = pauseIfWaiting(agent, heedSignals(agent, await over("prepare", state)));
      }
      if (call !== undefined && goesOn(state))
        state = await over("infer", await infer(agent, state, call));
      if (hasReply(state) && goesOn((state = heedSignals(agent, state))))
        state = await over("evaluate", evaluate(agent, state));
      if (pendingCallsOf(state).length > 0 && goesOn((state = heed(agent, state)))) {
        state = await executeTools(agent, state);
        state = pauseIfWaiting(agent, heedSignals(agent, await over("execute", state)));
      }
      if (isAnswered(state)) state = await over("incorporate", incorporate(agent, state));
      if (state.status === "running") {
        state = await decide(agent, heedSignals(agent, state));
        await over("decide", state);
      }
    }
  } catch (cause) {
    // What broke before the beginning was recorded has begun nothing: an execution that fails begins, too (L2).
    const begun = state === from ? begin(agent, from) : state;
    state = fail(agent, begun, cause);
  }
  const rested = await rest(agent, state);
  await over(rested.status === "paused" ? "paused" : "ended", rested);
  return rested;
}

function goesOn(state: AgentState): boolean {
  return state.status === "running" && state.log.signals.length === 0;
}
