// Shortens a history that outgrows the model's window: the oldest goes, and the model reads that it did (R14, C27). Pure.

import { attachedBytes, isAttached, MOST_REQUEST_BYTES } from "../protocol/message-content.ts";
import type { Message, UserMessage } from "../protocol/message.ts";
import { headLength, lastGroups, messageGroups } from "./message-groups.ts";

/** How much of a history stays. */
export interface TruncateHistoryOptions {
  /** Messages that stay at most, besides the instructions, the task and the notice; the last group stays whatever its length. */
  readonly keepMessages: number;
}

/**
 * The leading instructions, the task that it works on, and of the others the most recent, up to `keepMessages`. They go in whole groups: a reply
 * and the results of its calls are never torn apart. Where messages are missing one notice says how many; a later truncation
 * replaces it and adds its number. If nothing has to go, the same list is returned, by which a caller that tries smaller and smaller
 * numbers knows the end. A valid list stays valid; the given messages are never changed.
 */
export function truncateHistory(
  messages: readonly Message[],
  options: TruncateHistoryOptions,
): readonly Message[] {
  const cut = cutHistory(messages, options);
  if (cut === undefined) return messages;
  return [...cut.head, noticeOf(cut.droppedEarlier + cut.dropped.length), ...cut.tail];
}

/** A history with a gap. */
export interface HistoryCut {
  /** What stays before the gap. */
  readonly head: readonly Message[];
  /** What goes, oldest first, without notices of earlier cuts. */
  readonly dropped: readonly Message[];
  /** Messages that went earlier, as those notices say. */
  readonly droppedEarlier: number;
  /** What stays behind it. */
  readonly tail: readonly Message[];
}

/** Where `truncateHistory` cuts; undefined: nothing has to go. */
export function cutHistory(
  messages: readonly Message[],
  { keepMessages }: TruncateHistoryOptions,
): HistoryCut | undefined {
  const head = headLength(messages);
  const task = messages.findLastIndex(
    (message) => message.role === "user" && message.origin === "task",
  );
  const isFixed = (index: number): boolean => index < head || index === task;
  // What the notices of earlier cuts say. At the end one may be all that there is to answer.
  const counts = messages.map((message, index) =>
    isFixed(index) || index === messages.length - 1 ? undefined : leftOutBy(message),
  );
  const places = [...messages.keys()].filter(
    (index) => !isFixed(index) && counts[index] === undefined,
  );
  const others = places.flatMap((index) => messages[index] ?? []);
  const gone = others.length - lastGroups(messageGroups(others), keepMessages, 1).flat().length;
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

function noticeOf(dropped: number): UserMessage {
  const text = `Earlier messages were removed here to save space: ${dropped}. Request again what you still need.`;
  return Object.freeze({ role: "user", text, origin: "notice" });
}

/** How many messages this notice speaks for; undefined if it is none. */
function leftOutBy(message: Message): number | undefined {
  if (message.role !== "user" || message.origin !== "notice") return undefined;
  const [, count] = NOTICE.exec(message.text) ?? [];
  return count === undefined ? undefined : Number(count);
}

/**
 * The history with the content of its newest messages, until they have so many attachments, or with the task more bytes than a request may
 * carry; of older ones the text stays, with its lines. The task that is worked on keeps its own. The same list, if all of it stays.
 */
export function withNewestContent(messages: readonly Message[], most: number): readonly Message[] {
  const task = messages.findLastIndex(
    ({ role, ...said }) => role === "user" && "origin" in said && said.origin === "task",
  );
  const given = messages[task];
  let count = 0;
  let bytes = given?.role === "user" ? attachedBytes(given.content ?? []) : 0;
  let isChanged = false;
  const newestFirst = messages.toReversed().map((message, index) => {
    if (!("content" in message) || message.content === undefined) return message;
    if (index === messages.length - 1 - task) return message;
    bytes += attachedBytes(message.content);
    const isKept = count < most && bytes <= MOST_REQUEST_BYTES;
    count += message.content.filter(isAttached).length;
    if (isKept) return message;
    isChanged = true;
    const { content: _content, ...plain } = message;
    return Object.freeze(plain);
  });
  return isChanged ? newestFirst.toReversed() : messages;
}
