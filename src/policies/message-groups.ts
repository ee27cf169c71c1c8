import type { ExecutionId } from "../protocol/ids.ts";
import type { StoredMessage } from "../protocol/message.ts";

/**
 * The groups of a history: a reply with the results of its calls, or a single message. A group is kept or left out whole. Pure; the
 * list must be valid.
 */
export function messageGroups<Stored extends { readonly role: string }>(
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

/** The last groups that have no more messages than so many in all. `least`: so many groups stay, however long they are. */
export function lastGroups<Group extends readonly unknown[]>(
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

/** How many messages stand at the head of a history as instructions. */
export function headLength(messages: readonly { readonly role: string }[]): number {
  const firstOther = messages.findIndex(({ role }) => role !== "system");
  return firstOther === -1 ? messages.length : firstOther;
}

/**
 * The history without what this execution added: its task, its replies, their results. Instructions stay, and so does what stands for
 * messages that were left out while it ran. They go in whole groups, so a valid list stays valid; with nothing to take out, the same list.
 */
export function removeMessages<Stored extends StoredMessage>(
  messages: readonly Stored[],
  executionId: ExecutionId,
): readonly Stored[] {
  const kept = messageGroups(messages).filter(([first]) => !belongsToExecution(first, executionId));
  const left = kept.flat();
  return left.length === messages.length ? messages : left;
}

function belongsToExecution(message: StoredMessage | undefined, executionId: ExecutionId): boolean {
  if (message?.executionId !== executionId) return false;
  return message.role !== "system" && message.note !== "left_out";
}
