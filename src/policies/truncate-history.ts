// Shortens a history that outgrows the model's window: the oldest goes, and the model reads that it did (R14, C27). Pure.

import { checkKeys, mismatch } from "../kernel/check.ts";
import type { Message, UserMessage } from "../protocol/message.ts";
import { headLength, messageGroups } from "./message-groups.ts";

/** How much of a history stays. */
export interface TruncateHistoryOptions {
  /** Messages that stay at most, besides the instructions, the task and the notice; the last group stays whatever its length. */
  readonly keepMessages: number;
}

/**
 * The leading instructions, the task that it works on, and of the others the most recent, up to `keepMessages`. They go in whole groups: a reply
 * and the results of its calls are never torn apart (C27). Where messages are missing one notice says how many; a later truncation
 * replaces it and adds its number. If nothing has to go, the same list comes back, by which a caller that tries smaller and smaller
 * numbers knows the end. A valid list stays valid; the given messages are never changed.
 */
export function truncateHistory(
  messages: readonly Message[],
  options: TruncateHistoryOptions,
): readonly Message[] {
  const cut = cutHistory(messages, options);
  if (cut === undefined) return messages;
  return [...cut.head, noticeOf(cut.leftOut + cut.dropped.length), ...cut.tail];
}

/** A history with a gap. */
export interface HistoryCut {
  /** What stays before the gap. */
  readonly head: readonly Message[];
  /** What goes, oldest first, without notices of earlier cuts. */
  readonly dropped: readonly Message[];
  /** Messages that went earlier, as those notices say. */
  readonly leftOut: number;
  /** What stays behind it. */
  readonly tail: readonly Message[];
}

/** Where `truncateHistory` cuts; undefined: nothing has to go. */
export function cutHistory(
  messages: readonly Message[],
  options: TruncateHistoryOptions,
): HistoryCut | undefined {
  const { keepMessages } = checkedOptions(options);
  const { fixed, others, leftOut } = partsOf(messages);
  const dropped = others.length - retainedLength(others, keepMessages);
  if (dropped === 0) return undefined;
  const kept = new Set(others.slice(dropped).map(({ index }) => index));
  const firstRetained = others[dropped]?.index ?? messages.length;
  const stays = (index: number): boolean => fixed.has(index) || kept.has(index);
  return {
    head: messages.slice(0, firstRetained).filter((_message, index) => stays(index)),
    dropped: others.slice(0, dropped).map(({ message }) => message),
    leftOut,
    tail: messages.slice(firstRetained).filter((_message, index) => stays(firstRetained + index)),
  };
}

function checkedOptions(options: TruncateHistoryOptions): TruncateHistoryOptions {
  checkKeys("truncateHistory(options)", options, ["keepMessages"]);
  const { keepMessages } = options;
  if (Number.isSafeInteger(keepMessages) && keepMessages >= 0) return options;
  const field = "truncateHistory(options.keepMessages)";
  throw mismatch(field, "a whole number from 0 up", keepMessages, "Say how many may stay.");
}

interface Entry {
  readonly index: number;
  readonly message: Message;
}

/** A history taken apart. */
interface Parts {
  /** Places of the messages that always stay. */
  readonly fixed: ReadonlySet<number>;
  readonly others: readonly Entry[];
  /** What the notices of earlier truncations say. */
  readonly leftOut: number;
}

function partsOf(messages: readonly Message[]): Parts {
  const fixed = fixedPlaces(messages);
  const others: Entry[] = [];
  let leftOut = 0;
  for (const [index, message] of messages.entries()) {
    if (fixed.has(index)) continue;
    // At the end it may be all that there is to answer.
    const count = index === messages.length - 1 ? undefined : leftOutBy(message);
    if (count === undefined) others.push({ index, message });
    else leftOut += count;
  }
  return { fixed, others, leftOut };
}

function fixedPlaces(messages: readonly Message[]): ReadonlySet<number> {
  const task = messages.findLastIndex(
    (message) => message.role === "user" && message.origin === "task",
  );
  const places = Array.from({ length: headLength(messages) }, (_, index) => index);
  return new Set(task === -1 ? places : [...places, task]);
}

/** The length of the last whole groups that fit, the last one even if it does not. */
function retainedLength(others: readonly Entry[], keepMessages: number): number {
  let length = 0;
  for (const group of messageGroups(others.map(({ message }) => message)).toReversed()) {
    if (length > 0 && length + group.length > keepMessages) break;
    length += group.length;
  }
  return length;
}

const NOTICE = /^Earlier messages were left out here to save room: (\d{1,15})\./;

function noticeOf(leftOut: number): UserMessage {
  const text = `Earlier messages were left out here to save room: ${leftOut}. Ask again for what you need of them.`;
  return Object.freeze({ role: "user", text, origin: "notice" });
}

/** How many messages this notice speaks for; undefined if it is none. */
function leftOutBy(message: Message): number | undefined {
  if (message.role !== "user" || message.origin !== "notice") return undefined;
  const [, count] = NOTICE.exec(message.text) ?? [];
  return count === undefined ? undefined : Number(count);
}
