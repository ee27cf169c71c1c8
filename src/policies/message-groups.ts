/**
 * The groups of a history: a reply with the results of its calls, or a single message. A group is kept or left out whole (C27). Pure; the
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

/** How many messages stand at the head of a history as instructions. */
export function headLength(messages: readonly { readonly role: string }[]): number {
  const firstOther = messages.findIndex(({ role }) => role !== "system");
  return firstOther === -1 ? messages.length : firstOther;
}
