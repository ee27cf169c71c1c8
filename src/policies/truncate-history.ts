// Shortens a history that exceeds the model's context window: drops the oldest messages and adds a
// notice for the model. Pure.

import { countContentBytes, isAttached, MOST_REQUEST_BYTES } from "../protocol/message-content.ts";
import type { Message, UserMessage } from "../protocol/message.ts";
import { countHeadMessages, takeLastGroups, groupMessages } from "./message-groups.ts";

/** Options of a truncation. */
export interface TruncateHistoryOptions {
  /**
   * Maximum number of messages besides the instructions, the task and the notice. The last group
   * stays regardless of its length.
   */
  readonly keepMessages: number;
}

/**
 * Returns the leading instructions, the current task and the most recent other messages, up to
 * `keepMessages`. Drops whole groups: a reply and the results of its calls stay together. One
 * notice contains the number of dropped messages; a later truncation replaces the notice and adds
 * to its number.
 *
 * Returns the same list if nothing is dropped, so a caller that tries smaller limits knows when to
 * stop. A valid list stays valid. The given messages are never changed.
 */
export function truncateHistory(
  messages: readonly Message[],
  options: TruncateHistoryOptions,
): readonly Message[] {
  const cut = cutHistory(messages, options);
  if (cut === undefined) return messages;
  return [...cut.head, createNotice(cut.droppedEarlier + cut.dropped.length), ...cut.tail];
}

/** A history with a gap. */
export interface HistoryCut {
  /** The messages before the gap. */
  readonly head: readonly Message[];
  /** The dropped messages, oldest first, without notices of earlier cuts. */
  readonly dropped: readonly Message[];
  /** Number of messages that earlier cuts dropped, by their notices. */
  readonly droppedEarlier: number;
  /** The messages after the gap. */
  readonly tail: readonly Message[];
}

/** Returns the cut of `truncateHistory`, or `undefined` if nothing is dropped. */
export function cutHistory(
  messages: readonly Message[],
  { keepMessages }: TruncateHistoryOptions,
): HistoryCut | undefined {
  const head = countHeadMessages(messages);
  const task = messages.findLastIndex(
    (message) => message.role === "user" && message.origin === "task",
  );
  const isFixed = (index: number): boolean => index < head || index === task;
  // Counts in the notices of earlier cuts. A notice at the end of the list is kept, since it may be
  // the only message to answer.
  const counts = messages.map((message, index) =>
    isFixed(index) || index === messages.length - 1 ? undefined : readNotice(message),
  );
  const places = [...messages.keys()].filter(
    (index) => !isFixed(index) && counts[index] === undefined,
  );
  const others = places.flatMap((index) => messages[index] ?? []);
  const gone = others.length - takeLastGroups(groupMessages(others), keepMessages, 1).flat().length;
  if (gone === 0) return undefined;
  const gap = places[gone] ?? messages.length;
  return {
    head: messages.slice(0, gap).filter((_message, index) => isFixed(index)),
    dropped: others.slice(0, gone),
    droppedEarlier: counts.reduce<number>((sum, count = 0) => sum + count, 0),
    tail: messages.slice(gap).filter((_message, index) => counts[gap + index] === undefined),
  };
}

const NOTICE = /^Earlier messages were removed here to save space: (\d{1,15})\./;

function createNotice(dropped: number): UserMessage {
  const text = `Earlier messages were removed here to save space: ${dropped}. Request again what you still need.`;
  return Object.freeze({ role: "user", text, origin: "notice" });
}

/** Returns the number in a notice of an earlier cut. `undefined` for other messages. */
function readNotice(message: Message): number | undefined {
  if (message.role !== "user" || message.origin !== "notice") return undefined;
  const [, count] = NOTICE.exec(message.text) ?? [];
  return count === undefined ? undefined : Number(count);
}

/**
 * Returns the history with attachments in its newest messages only: at most `most` attachments, and
 * with the task no more bytes than a request may carry. Older messages keep their text. The current
 * task keeps its attachments. Returns the same list if nothing is removed.
 */
export function keepNewestContent(messages: readonly Message[], most: number): readonly Message[] {
  const task = messages.findLastIndex(
    ({ role, ...rest }) => role === "user" && "origin" in rest && rest.origin === "task",
  );
  const taskMessage = messages[task];
  let count = 0;
  let bytes = taskMessage?.role === "user" ? countContentBytes(taskMessage.content ?? []) : 0;
  let isChanged = false;
  const newestFirst = messages.toReversed().map((message, index) => {
    if (!("content" in message) || message.content === undefined) return message;
    if (index === messages.length - 1 - task) return message;
    bytes += countContentBytes(message.content);
    const isKept = count < most && bytes <= MOST_REQUEST_BYTES;
    count += message.content.filter(isAttached).length;
    if (isKept) return message;
    isChanged = true;
    const { content: _content, ...plain } = message;
    return Object.freeze(plain);
  });
  return isChanged ? newestFirst.toReversed() : messages;
}
