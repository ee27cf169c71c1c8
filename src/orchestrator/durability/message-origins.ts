// Whose messages an agent began with: those of its parent, which may have had them of its own parent. Pure.

import { sameJson } from "../../kernel/json.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { Message } from "../../protocol/message.ts";

/** A message of an ancestor, and the one that had it first. */
export interface InheritedMessage {
  readonly message: Message;
  readonly agentId: AgentId;
}

/** What a subagent began with of its parent's messages. `before`: what the parent itself had begun with. */
export function inheritedFrom(
  messages: readonly Message[],
  parentAgentId: AgentId,
  before: readonly InheritedMessage[],
): readonly InheritedMessage[] {
  return originsOf(messages, before)
    .map((agentId, index) => {
      const message = messages[index];
      return message === undefined ? [] : [{ message, agentId: agentId ?? parentAgentId }];
    })
    .flat();
}

/** For each message, the agent that had it first; null: it was not inherited. Both stand in their order. */
export function originsOf(
  messages: readonly (Message | null)[],
  inherited: readonly InheritedMessage[],
): readonly (AgentId | null)[] {
  let next = 0;
  return messages.map((message) => {
    if (message === null || next === inherited.length) return null;
    const at = inherited.findIndex((one, index) => index >= next && sameJson(one.message, message));
    if (at === -1) return null;
    next = at + 1;
    return inherited[at]?.agentId ?? null;
  });
}
