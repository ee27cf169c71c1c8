import type { ExecutionId } from "../protocol/ids.ts";
import type { StoredMessage } from "../protocol/message.ts";

/**
 * Returns the groups of a valid history. A group is a reply with the results of its calls, or a
 * single message; it is kept or dropped as a whole. Pure.
 */
export function groupMessages<Stored extends { readonly role: string }>(
  messages: readonly Stored[],
): readonly (readonly Stored[])[] {
  const groups: Stored[][] = [];
  for (const message of messages) {
    const group = groups.at(-1);
    if (message.role === "tool" && group !== undefined) group.push(message);
    else groups.push([message]);
  }
  return groups;
}

/**
 * Returns the longest suffix of groups with at most `most` messages in total, but at least `least`
 * groups, regardless of their length.
 */
export function takeLastGroups<Group extends readonly unknown[]>(
  groups: readonly Group[],
  most: number,
  least = 0,
): readonly Group[] {
  let count = 0;
  const tooFar = groups.findLastIndex((group, index) => {
    count += group.length;
    return count > most && index < groups.length - least;
  });
  return groups.slice(tooFar + 1);
}

/** Returns the number of instructions at the head of a history. */
export function countHeadMessages(messages: readonly { readonly role: string }[]): number {
  const firstOther = messages.findIndex(({ role }) => role !== "system");
  return firstOther === -1 ? messages.length : firstOther;
}

/**
 * Returns the history without the messages that this execution added: its task, its replies and
 * their results. Keeps instructions and notices about messages that were left out meanwhile.
 * Removes whole groups, so a valid list stays valid. Returns the same list if nothing is removed.
 */
export function removeMessages<Stored extends StoredMessage>(
  messages: readonly Stored[],
  executionId: ExecutionId,
): readonly Stored[] {
  const remaining = groupMessages(messages).filter(
    ([first]) => !isExecutionMessage(first, executionId),
  );
  const left = remaining.flat();
  return left.length === messages.length ? messages : left;
}

function isExecutionMessage(message: StoredMessage | undefined, executionId: ExecutionId): boolean {
  if (message?.executionId !== executionId) return false;
  return message.role !== "system" && message.note !== "left_out";
}
