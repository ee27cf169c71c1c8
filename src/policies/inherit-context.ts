// Builds the initial context of a subagent by applying its parent's policy to the parent's context.
// Pure.

import { deepFreeze, type JsonObject, stringifyCanonical } from "../kernel/json.ts";
import { freezeInTests } from "../kernel/freeze-shared.ts";
import { computeJsonHash, type InheritanceRecord } from "../protocol/context-manifest.ts";
import type { Message, UserMessage } from "../protocol/message.ts";
import type { ToolErrorRecord } from "../protocol/tool-error-record.ts";
import type { RemovedTool } from "../protocol/tool-rule.ts";
import {
  formatAttemptsNote,
  formatConstraintsNote,
  formatRemovedToolsNote,
  formatResultsNote,
  formatSiblingsNote,
  MOST_ATTEMPTS,
  type ParentConstraints,
  type FramedResult,
} from "./context-notes.ts";
import type { SubagentContextPolicy } from "./subagent-context-policy.ts";
import { isPromiseLike } from "../kernel/cancel-signal.ts";
import { describeReceived } from "../kernel/argument-checks.ts";
import { EspalierError, getErrorMessage } from "../kernel/error.ts";
import { takeLastGroups, groupMessages } from "./message-groups.ts";

/** The context of a parent. The parts that its policy does not select are not read. */
export interface ParentContext {
  readonly agentPath: string;
  /** The parent's history. */
  readonly messages: readonly Message[];
  readonly metadata: JsonObject;
  readonly constraints: ParentConstraints;
  /** Failed tool calls of the parent, oldest first. */
  readonly failedAttempts: readonly ToolErrorRecord[];
}

/** Facts of the delegation besides the parent's context. */
export interface DelegationFacts {
  /** Returns the parent's ended subagents, with shortened results. */
  readonly siblings: () => readonly FramedResult[];
  /** Full results of the subagents that the request names. */
  readonly results: readonly FramedResult[];
  /** Tools of its role that the subagent does not have. */
  readonly removedTools: readonly RemovedTool[];
}

/**
 * The initial context of a subagent besides its instructions and task, and the record of the
 * inheritance without limits.
 */
export interface InheritedContext {
  readonly messages: readonly Message[];
  readonly metadata: JsonObject;
  readonly manifest: Omit<InheritanceRecord, "tightened">;
}

/**
 * Applies the policy. Inherited messages come first, followed by the injected texts and the notes,
 * one message each. The subagent cannot change anything that the parent still uses.
 *
 * @throws EspalierError `context_policy_failed` if `selectMessages` throws or returns an invalid
 * value.
 */
export function inheritContext(
  policy: SubagentContextPolicy,
  parent: ParentContext,
  { siblings: endedSiblings, results, removedTools }: DelegationFacts,
): InheritedContext {
  const messages = policy.inheritMessages
    ? selectInheritedMessages(parent.messages, { ...policy, agentPath: parent.agentPath })
    : [];
  const failed = policy.includeFailedAttempts ? parent.failedAttempts.slice(-MOST_ATTEMPTS) : [];
  // A result that is passed on in full is not also summarised.
  const named = new Set(results.map(({ childName }) => childName));
  const siblings = policy.includeSiblingResults
    ? endedSiblings().filter(({ childName }) => !named.has(childName))
    : [];
  const notes = [
    ...(policy.includeParentConstraints ? [formatConstraintsNote(parent.constraints)] : []),
    ...(failed.length === 0 ? [] : [formatAttemptsNote(failed)]),
    ...(siblings.length === 0 ? [] : [formatSiblingsNote(siblings)]),
    ...(results.length === 0 ? [] : [formatResultsNote(results)]),
    ...(policy.reportRemovedTools && removedTools.length > 0
      ? [formatRemovedToolsNote(removedTools)]
      : []),
  ];
  const injections = [...policy.injectedTexts, ...notes].map((text): UserMessage => ({
    role: "user",
    text,
    origin: "injected",
  }));
  const metadata = deepFreeze(
    policy.inheritMetadata ? pick(parent.metadata, policy.metadataKeys) : {},
  );
  return freezeInTests({
    messages: [...messages, ...injections],
    metadata,
    manifest: {
      messages: measurePortion(messages),
      injections: measurePortion(injections),
      metadataKeys: Object.keys(metadata),
      siblingResults: siblings.map(({ childName }) => childName),
      results: results.map(({ childName }) => childName),
      failedAttempts: failed.length,
      parentConstraints: policy.includeParentConstraints,
      removedTools: removedTools.map((removed) => ({ ...removed })),
    },
  });
}

const NOTHING = { count: 0, hash: computeJsonHash([]) };

/** The context of a subagent that inherits nothing, as most do. */
export const NOTHING_INHERITED: InheritedContext = deepFreeze({
  messages: [],
  metadata: {},
  manifest: {
    messages: NOTHING,
    injections: NOTHING,
    metadataKeys: [],
    siblingResults: [],
    results: [],
    failedAttempts: 0,
    parentConstraints: false,
    removedTools: [],
  },
});

function measurePortion(messages: readonly Message[]): InheritanceRecord["messages"] {
  return messages.length === 0
    ? NOTHING
    : { count: messages.length, hash: computeJsonHash(messages) };
}

function pick(metadata: JsonObject, keys: readonly string[] | undefined): JsonObject {
  const entries = Object.entries(structuredClone(metadata));
  return Object.fromEntries(
    keys === undefined ? entries : entries.filter(([key]) => keys.includes(key)),
  );
}

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
