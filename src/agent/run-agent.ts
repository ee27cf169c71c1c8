// THE LOOP. One execution of one agent, as six phases that the caller may step through. It alone calls phases and it alone reads
// stop signals (L1): everything else only raises them. Between two effects all is synchronous.

import type { Message } from "../protocol/message.ts";
import type { AgentContext } from "./agent-context.ts";
import type { AgentState, EndedState } from "./agent-state.ts";
import { hasReply, pendingCallsOf } from "./agent-state.ts";
import { begin, fail, finish, heedSignals, openStep } from "./life-cycle.ts";
import { decide } from "./phases/decide.ts";
import { evaluate } from "./phases/evaluate.ts";
import { executeTools } from "./phases/execute-tools.ts";
import { incorporate } from "./phases/incorporate.ts";
import { infer } from "./phases/infer.ts";
import { prepare } from "./phases/prepare.ts";

/** The phases of a step, and the end of the execution. */
export type Phase =
  | "prepare"
  | "infer"
  | "evaluate"
  | "execute"
  | "incorporate"
  | "decide"
  | "ended";

/** A phase that has just ended, with the state it left: frozen, and not the one the loop works on next. */
export interface PhaseReport {
  readonly phase: Phase;
  readonly state: AgentState;
}

/** Runs an execution to its end. Each `next` runs one phase; nothing of the loop happens while the caller holds a report. */
export async function* runAgent(
  agent: AgentContext,
  messages: readonly Message[],
): AsyncGenerator<PhaseReport, EndedState, undefined> {
  let state = begin(agent, messages);
  try {
    while (goesOn((state = heedSignals(agent, state)))) {
      const prepared = await prepare(agent, state);
      yield { phase: "prepare", state: (state = prepared.state) };

      if (prepared.call !== undefined && goesOn((state = heedSignals(agent, state)))) {
        state = openStep(agent, state);
        state = await infer(agent, state, prepared.call);
        yield { phase: "infer", state };
      }
      if (hasReply(state) && goesOn((state = heedSignals(agent, state)))) {
        yield { phase: "evaluate", state: (state = evaluate(agent, state)) };
      }
      if (pendingCallsOf(state).length > 0 && goesOn((state = heedSignals(agent, state)))) {
        const executed = await executeTools(agent, state);
        yield { phase: "execute", state };
        yield { phase: "incorporate", state: (state = incorporate(agent, state, executed)) };
      }
      yield { phase: "decide", state: (state = decide(agent, heedSignals(agent, state))) };
    }
  } catch (cause) {
    state = fail(agent, state, cause);
  }
  const ended = finish(agent, state);
  yield { phase: "ended", state: ended };
  return ended;
}

function goesOn(state: AgentState): boolean {
  return state.log.signals.length === 0;
}
