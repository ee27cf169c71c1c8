// How much of the history of a session the next execution begins with (R153, R154, C27). Pure.

import { checkBoolean, checkCount, checkFields, mismatch } from "../kernel/check.ts";
import { defined } from "../kernel/json.ts";
import type { StoredMessage } from "../protocol/message.ts";
import { headLength, lastGroups, messageGroups } from "./message-groups.ts";

/** The option `retention` of a session, with the defaults in the place of what was left out. */
export interface MessageRetentionPolicy {
  readonly maxMessages: number | "unlimited";
  readonly maxExecutions: number | "unlimited";
  readonly summarizeDropped: boolean;
}

/** What a session keeps, where its options do not say. */
export const DEFAULT_MESSAGE_RETENTION: MessageRetentionPolicy = Object.freeze({
  maxMessages: 100,
  maxExecutions: 5,
  summarizeDropped: false,
});

/** The policy with defaults for what is left out. Throws `invalid_option`. */
export function messageRetention(
  field: string,
  given: Partial<MessageRetentionPolicy>,
): MessageRetentionPolicy {
  checkFields(field, given, {
    maxMessages: checkMaximum,
    maxExecutions: checkMaximum,
    summarizeDropped: (at, value) => checkBoolean(at, value, "Default: false."),
  });
  return Object.freeze({ ...DEFAULT_MESSAGE_RETENTION, ...defined(given) });
}

function checkMaximum(field: string, value: unknown): void {
  if (value === "unlimited") return;
  checkCount(field, value, 'Raise it, or use "unlimited".');
  if (value === 0)
    throw mismatch(
      field,
      "at least 1",
      value,
      "Raise it: the new execution and its task count as well.",
    );
}

/** A history, and what was left out of it. */
export interface RetainedMessages<Stored extends StoredMessage> {
  /** What is kept, in its order. */
  readonly retained: readonly Stored[];
  /** Oldest first; empty: nothing. */
  readonly dropped: readonly Stored[];
}

/**
 * What stays of a history, and what goes: all of the oldest executions that are too many, then the oldest groups that are too many.
 * Instructions at the head stay, and so does the last group, whatever its length. With `summarizeDropped`, and something to leave out, there is
 * room in `maxMessages` for one message more. If nothing has to go, `retained` is the same list.
 */
export function retainMessages<Stored extends StoredMessage>(
  messages: readonly Stored[],
  policy: MessageRetentionPolicy,
): RetainedMessages<Stored> {
  const retained = retainedGroups(messages, policy, 0);
  if (retained.dropped.length === 0) return { retained: messages, dropped: [] };
  return hasRoomForSummary(policy) ? retainedGroups(messages, policy, 1) : retained;
}

/** True if what is left out is to be summarised, and the summary has a place in the history. */
export function hasRoomForSummary({
  summarizeDropped,
  maxMessages,
}: MessageRetentionPolicy): boolean {
  return summarizeDropped && (maxMessages === "unlimited" || maxMessages > 1);
}

/** `reserved`: places of `maxMessages` that stay free. */
function retainedGroups<Stored extends StoredMessage>(
  messages: readonly Stored[],
  { maxMessages, maxExecutions }: MessageRetentionPolicy,
  reserved: number,
): RetainedMessages<Stored> {
  const head = headLength(messages);
  const executions = recentExecutions(messages.slice(head), maxExecutions);
  const groups = messageGroups(messages.slice(head)).filter(
    ([first]) => first !== undefined && executions.has(first.executionId),
  );
  const room = maxMessages === "unlimited" ? Infinity : maxMessages - reserved;
  const kept = new Set([...messages.slice(0, head), ...lastGroups(groups, room, 1).flat()]);
  return {
    retained: messages.filter((message) => kept.has(message)),
    dropped: messages.filter((message) => !kept.has(message)),
  };
}

/** The ids of the executions that spoke last. */
function recentExecutions(
  messages: readonly StoredMessage[],
  maxExecutions: number | "unlimited",
): ReadonlySet<string> {
  const recent = new Set<string>();
  for (const { executionId } of messages.toReversed()) {
    if (!recent.has(executionId) && recent.size === maxExecutions) break;
    recent.add(executionId);
  }
  return recent;
}
