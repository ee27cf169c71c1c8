// Selects the messages that subagents inherit: the most recent ones, or a selection by a function.
// Calls and results stay together. Pure.

import { isPromiseLike } from "../kernel/cancel-signal.ts";
import { describeReceived } from "../kernel/argument-checks.ts";
import { EspalierError, getErrorMessage } from "../kernel/error.ts";
import { stringifyCanonical, deepFreeze } from "../kernel/json.ts";
import type { Message } from "../protocol/message.ts";
import { takeLastGroups, groupMessages } from "./message-groups.ts";
import type { SubagentContextPolicy } from "./subagent-context-policy.ts";

export type MessageSelection = NonNullable<SubagentContextPolicy["selectMessages"]>;

/** The selection of messages from a history. */
export interface MessageChoice {
  /** The agent that owns the history. */
  readonly agentPath: string;
  /** 0 for all messages. */
  readonly messageWindowSize: number;
  readonly selectMessages: MessageSelection | undefined;
}

/**
 * Returns the messages that a subagent inherits, marked as inherited. Empty if the last group does
 * not fit into the window.
 *
 * @throws EspalierError `context_policy_failed` if the function throws or returns an invalid value.
 */
export function selectInheritedMessages(
  messages: readonly Message[],
  { agentPath, messageWindowSize, selectMessages }: MessageChoice,
): readonly Message[] {
  const groups = selectWholeGroups(messages);
  const selected =
    selectMessages === undefined
      ? takeLastGroups(groups, messageWindowSize === 0 ? Infinity : messageWindowSize)
      : runSelection(groups, agentPath, selectMessages);
  return selected.flat().map(markInherited);
}

/** A reply with the results of its calls, or a single message. Never split. */
type Group = readonly Message[];

/**
 * Returns the groups of a history without instructions. Drops replies with missing results, such as
 * the reply that spawns the subagent.
 */
function selectWholeGroups(messages: readonly Message[]): readonly Group[] {
  return groupMessages(messages.filter(({ role }) => role !== "system")).filter(
    ([first, ...results]) =>
      first?.role !== "assistant" || first.toolCalls.length === results.length,
  );
}

function runSelection(
  groups: readonly Group[],
  agentPath: string,
  select: MessageSelection,
): readonly Group[] {
  const offered: readonly Message[] = deepFreeze(groups.flat());
  let selected: unknown;
  let items: readonly unknown[];
  try {
    selected = select(offered);
    items =
      Array.isArray(selected) && selected.length <= offered.length ? Array.from(selected) : [];
  } catch (cause) {
    throw createSelectionError(agentPath, `but it threw: ${getErrorMessage(cause)}`, cause);
  }
  if (isPromise(selected)) throw createSelectionError(agentPath, "got a promise");
  if (!Array.isArray(selected))
    throw createSelectionError(agentPath, `got ${describeReceived(selected)}`);
  if (selected.length > offered.length)
    throw createSelectionError(agentPath, `got ${selected.length}, more than there are`);
  return matchGroups(items, groups, agentPath);
}

/** Returns true for a promise, and ignores its rejection. */
function isPromise(value: unknown): boolean {
  try {
    if (!isPromiseLike(value)) return false;
    value.then(undefined, () => undefined);
    return true;
  } catch {
    return false; // A value whose getters throw is not a promise either.
  }
}

/**
 * Returns the groups that the selected items form, in order. The result contains the parent's own
 * messages, never the selected objects.
 */
function matchGroups(
  items: readonly unknown[],
  groups: readonly Group[],
  agentPath: string,
): readonly Group[] {
  const isSame = createEquality(groups.flat());
  const startsAt = (at: number, group: Group): boolean =>
    group.every((message, offset) => isSame(items[at + offset], message));
  let at = 0;
  const matching = groups.filter((group) => {
    const isNext = startsAt(at, group);
    if (isNext) at += group.length;
    return isNext;
  });
  if (at === items.length) return matching;
  const group = groups.find((candidate) => candidate.some((message) => isSame(items[at], message)));
  if (group === undefined)
    throw createSelectionError(
      agentPath,
      `got ${describeItem(items[at])} at [${at}], which is not one of them`,
    );
  throw createSelectionError(
    agentPath,
    startsAt(at, group)
      ? `got the one at [${at}] out of order, or twice`
      : `got the one at [${at}] without the calls or results that belong to it`,
  );
}

/**
 * Returns a function that compares an item with a message: by identity, or by value if the item is
 * not one of the messages. So copies are accepted.
 */
function createEquality(
  messages: readonly Message[],
): (item: unknown, message: Message) => boolean {
  const ownMessages = new Set<unknown>(messages);
  const texts = new Map<unknown, string | undefined>();
  const getText = (value: unknown): string | undefined => {
    if (!texts.has(value)) texts.set(value, tryCanonicalJson(value));
    return texts.get(value);
  };
  return (item, message) =>
    item === message ||
    (!ownMessages.has(item) && getText(item) !== undefined && getText(item) === getText(message));
}

function tryCanonicalJson(value: unknown): string | undefined {
  try {
    return stringifyCanonical(value);
  } catch {
    return undefined;
  }
}

function describeItem(item: unknown): string {
  try {
    return describeReceived(item);
  } catch {
    return "a value that cannot be read";
  }
}

function createSelectionError(agentPath: string, problem: string, cause?: unknown): EspalierError {
  return new EspalierError({
    code: "context_policy_failed",
    message: `Expected contextPolicy.selectMessages of ${agentPath} to return some of the given messages, in their order, calls with all their results, ${problem}. Make it a synchronous pure function that selects whole exchanges, or leave it out and set messageWindowSize.`,
    data: { agentPath },
    cause,
  });
}

function markInherited(message: Message): Message {
  return message.role === "user" ? { ...message, origin: "inherited" } : message;
}
