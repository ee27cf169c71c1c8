// Messages to the agent, from outside or out of the background, go into its history with the model call that shows it
// (X10, X23).

import type { UserMessage } from "../../protocol/message.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { MailboxMessage } from "../mailbox.ts";
import { stepPosition, type AgentState } from "../agent-state.ts";
import { type Prepared } from "../life-cycle.ts";
import { transition } from "../transition.ts";

/** The state as it will be if the model call that shows the messages is made. */
export function withMessages(state: AgentState, mail: readonly MailboxMessage[]): AgentState {
  const messages = mail.map(messageOf);
  const reportedIds = mail.flatMap(({ from }) => from ?? []);
  return transition(state, { type: "addMessages", messages, reportedIds });
}

/** The call is paid for: the messages are in the history, after what else has changed. */
export function delivered(
  agent: AgentRuntime,
  { state, call }: Prepared,
  mail: readonly MailboxMessage[],
): Prepared {
  const place = stepPosition(agent, state);
  for (const { text, from, by = from } of mail) {
    const origin = from === undefined ? "steering" : "report";
    const sender = by === undefined ? {} : { fromAgentId: by };
    const characters = text.length;
    agent.effects.record({ type: "message.delivered", origin, characters, ...sender }, place);
  }
  return { state: withMessages(state, mail), call };
}

function messageOf({ text, from }: MailboxMessage): UserMessage {
  return { role: "user", origin: from === undefined ? "steering" : "report", text };
}
