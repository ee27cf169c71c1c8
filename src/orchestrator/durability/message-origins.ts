// Origins of inherited messages: the parent, or the ancestor from which the parent inherited them.
// Pure.

import { sameJson } from "../../kernel/json.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { Message } from "../../protocol/message.ts";

/** A message of an ancestor, with the agent that had it first. */
export interface InheritedMessage {
  readonly message: Message;
  readonly agentId: AgentId;
}

/** Returns the inherited messages of a subagent. `before`: the inherited messages of its parent. */
export function collectInheritedMessages(
  messages: readonly Message[],
  parentAgentId: AgentId,
  before: readonly InheritedMessage[],
): readonly InheritedMessage[] {
  return resolveOrigins(messages, before)
    .map((agentId, index) => {
      const message = messages[index];
      return message === undefined ? [] : [{ message, agentId: agentId ?? parentAgentId }];
    })
    .flat();
}

/**
 * Returns for each message the agent that had it first. `null` if it was not inherited. Both lists
 * are in the order of the history.
 */
export function resolveOrigins(
  messages: readonly (Message | null)[],
  inherited: readonly InheritedMessage[],
): readonly (AgentId | null)[] {
  let next = 0;
  return messages.map((message) => {
    if (message === null || next === inherited.length) return null;
    const at = inherited.findIndex(
      (candidate, index) => index >= next && sameJson(candidate.message, message),
    );
    if (at === -1) return null;
    next = at + 1;
    return inherited[at]?.agentId ?? null;
  });
}
