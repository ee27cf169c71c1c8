// Waiting for subagents in the background: an agent that has answered reads what they say before it ends (X9).

import { EspalierError } from "../../kernel/error.ts";
import type { AgentContext } from "../agent-context.ts";
import type { AgentState } from "../agent-state.ts";
import { fail, pauseForSubagents, stepPlace } from "../life-cycle.ts";

/** Waits until they rest, somebody writes to the agent, or it must end. Paused if one of them is and there is nothing to read. */
export async function awaitSubagents(agent: AgentContext, state: AgentState): Promise<AgentState> {
  const { effects, inbox } = agent;
  const { background } = state.log;
  await effects.join([effects.awaitSubagents(stepPlace(agent, state), background, "news")]);
  if (inbox.hasMessages || inbox.hasSignals || agent.isEnding) return state;
  if (agent.hasPaused(background)) return pauseForSubagents(agent, state);
  // A call has taken their results and did not hand them on.
  agent.reviveSubagents(background);
  if (inbox.hasMessages) return state;
  const message =
    "Subagents in the background have ended without a result. This is a bug in espalier.";
  return fail(agent, state, new EspalierError({ code: "internal_error", message }));
}
