// Takes the messages of one execution out of a history, such as those of one that failed (R99). Pure.

import type { ExecutionId } from "../protocol/ids.ts";
import type { StoredMessage } from "../protocol/message.ts";
import { messageGroups } from "./message-groups.ts";

/**
 * The history without what this execution added: its task, its replies, their results. Instructions stay, and so does what stands for
 * messages that were left out while it ran. They go in whole groups, so a valid list stays valid; with nothing to take out, the same list.
 */
export function removeMessages<Stored extends StoredMessage>(
  messages: readonly Stored[],
  executionId: ExecutionId,
): readonly Stored[] {
  const kept = messageGroups(messages).filter(([first]) => !isOf(first, executionId));
  const left = kept.flat();
  return left.length === messages.length ? messages : left;
}

function isOf(message: StoredMessage | undefined, executionId: ExecutionId): boolean {
  if (message?.executionId !== executionId) return false;
  return message.role !== "system" && message.note !== "left_out";
}
