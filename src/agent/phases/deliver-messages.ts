// Steering: what somebody outside wrote to the agent goes into its history before the next model call (X23).

import type { AgentContext } from "../agent-context.ts";
import type { AgentState } from "../agent-state.ts";
import { stepPlace } from "../life-cycle.ts";
import { transition } from "../transition.ts";

export function deliverMessages(agent: AgentContext, state: AgentState): AgentState {
  const texts = agent.inbox.takeMessages();
  if (texts.length === 0) return state;
  const place = stepPlace(agent, state);
  for (const { length } of texts)
    agent.record({ type: "message.delivered", origin: "steering", characters: length }, place);
  const messages = texts.map((text) => ({ role: "user", origin: "steering", text }) as const);
  return transition(state, { type: "addMessages", messages });
}
