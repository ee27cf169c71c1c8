// Steering: what somebody outside wrote to the agent goes into its history with the model call that shows it (X23).

import type { UserMessage } from "../../protocol/message.ts";
import type { AgentContext } from "../agent-context.ts";
import type { AgentState } from "../agent-state.ts";
import { stepPlace, type Prepared } from "../life-cycle.ts";
import { transition } from "../transition.ts";

/** The state as it will be if the model call that shows the messages is made. */
export function withMessages(state: AgentState, texts: readonly string[]): AgentState {
  if (texts.length === 0) return state;
  const messages = texts.map((text): UserMessage => ({ role: "user", origin: "steering", text }));
  return transition(state, { type: "addMessages", messages });
}

/** The call is paid for: the messages are in the history, after what else has changed. */
export function delivered(
  agent: AgentContext,
  { state, call }: Prepared,
  told: AgentState,
): Prepared {
  const { messages } = told.conversation;
  const added = messages.slice(state.conversation.messages.length);
  if (added.length === 0) return { state, call };
  const place = stepPlace(agent, state);
  for (const { text } of added)
    agent.record({ type: "message.delivered", origin: "steering", characters: text.length }, place);
  return { state: transition(state, { type: "addMessages", messages: added }), call };
}
