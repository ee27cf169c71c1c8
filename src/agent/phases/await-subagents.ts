// Waiting for subagents in the background: an agent that has answered reads what they say before it ends (X9).

import { EspalierError } from "../../kernel/error.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { AgentState } from "../agent-state.ts";
import { fail } from "../stop-requests.ts";
import { pauseForSubagents } from "../pausing.ts";

/** Waits until they have settled, a message comes, or the agent must end. Paused if one of them is and there is nothing to read. */
export async function awaitSubagents(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { subagents } = agent.run;
  const { background } = state.log;
  await subagents.settled(agent, background, "news");
  const hasMessages = (): boolean => agent.mailbox?.hasMessages === true;
  if (hasMessages() || agent.stopRequests.length > 0 || agent.effects.isEnding) return state;
  if (subagents.hasPaused(background)) return pauseForSubagents(agent, state);
  // A call has taken their results and did not hand them on.
  subagents.reactivate(agent, background);
  if (hasMessages()) return state;
  const message =
    "Subagents in the background have ended without a result. This is a bug in espalier.";
  return fail(agent, state, new EspalierError({ code: "internal_error", message }));
}
