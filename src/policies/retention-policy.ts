// Selects the part of a session's history that the next execution starts with. Pure.

import { checkBoolean, checkCount, checkFields, mismatch } from "../kernel/argument-checks.ts";
import { omitUndefined } from "../kernel/json.ts";
import type { StoredMessage } from "../protocol/message.ts";
import { countHeadMessages, takeLastGroups, groupMessages } from "./message-groups.ts";

/** The option `retention` of a session, with defaults applied. */
export interface MessageRetentionPolicy {
  readonly maxMessages: number | "unlimited";
  readonly maxExecutions: number | "unlimited";
  readonly summarizeDropped: boolean;
}

/** The retention of a session that sets none. */
export const DEFAULT_MESSAGE_RETENTION: MessageRetentionPolicy = Object.freeze({
  maxMessages: 100,
  maxExecutions: "unlimited",
  summarizeDropped: false,
});

/**
 * Returns the policy with defaults for omitted fields. Throws `invalid_argument` if a field is
 * unknown or invalid.
 */
export function resolveMessageRetention(
  field: string,
  options: Partial<MessageRetentionPolicy>,
): MessageRetentionPolicy {
  checkFields(field, options, {
    maxMessages: checkMaximum,
    maxExecutions: checkMaximum,
    summarizeDropped: (at, value) => checkBoolean(at, value, "Default: false."),
  });
  return Object.freeze({ ...DEFAULT_MESSAGE_RETENTION, ...omitUndefined(options) });
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

/** A history divided into retained and dropped messages. */
export interface RetainedMessages<Stored extends StoredMessage> {
  /** The retained messages, in order. */
  readonly retained: readonly Stored[];
  /** The dropped messages, oldest first. */
  readonly dropped: readonly Stored[];
}

/**
 * Divides a history: drops the oldest executions beyond `maxExecutions`, then the oldest groups
 * beyond `maxMessages`. Always retains instructions at the head and the last group. With
 * `summarizeDropped`, one place of `maxMessages` is left free for the summary if messages are
 * dropped. If nothing is dropped, `retained` is the same list.
 */
export function retainMessages<Stored extends StoredMessage>(
  messages: readonly Stored[],
  policy: MessageRetentionPolicy,
): RetainedMessages<Stored> {
  const retained = selectGroups(messages, policy, 0);
  if (retained.dropped.length === 0) return { retained: messages, dropped: [] };
  return hasRoomForSummary(policy) ? selectGroups(messages, policy, 1) : retained;
}

/** Returns true if dropped messages are summarised and the summary fits into the history. */
export function hasRoomForSummary({
  summarizeDropped,
  maxMessages,
}: MessageRetentionPolicy): boolean {
  return summarizeDropped && (maxMessages === "unlimited" || maxMessages > 1);
}

/** Applies the policy. `reserved` places of `maxMessages` stay free. */
function selectGroups<Stored extends StoredMessage>(
  messages: readonly Stored[],
  { maxMessages, maxExecutions }: MessageRetentionPolicy,
  reserved: number,
): RetainedMessages<Stored> {
  const head = countHeadMessages(messages);
  const executions = findRecentExecutions(messages.slice(head), maxExecutions);
  const groups = groupMessages(messages.slice(head)).filter(
    ([first]) => first !== undefined && executions.has(first.executionId),
  );
  const room = maxMessages === "unlimited" ? Infinity : maxMessages - reserved;
  const retained = new Set([...messages.slice(0, head), ...takeLastGroups(groups, room, 1).flat()]);
  return {
    retained: messages.filter((message) => retained.has(message)),
    dropped: messages.filter((message) => !retained.has(message)),
  };
}

/** Returns the ids of the executions that wrote the most recent messages. */
function findRecentExecutions(
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
