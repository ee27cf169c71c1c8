// Tags that record the origin of the messages in a history: one tag per message, in the same order,
// in a separate list. So messages sent to a model never contain ids. Pure. All tags are created
// here.

import { appendToList } from "../kernel/append-only-list.ts";
import { invariant } from "../kernel/invariant.ts";
import { omitUndefined } from "../kernel/json.ts";
import { freezeInTests } from "../kernel/freeze-shared.ts";
import { createMessageId, createStepId, type AgentId, type ExecutionId } from "../protocol/ids.ts";
import {
  MessageSchema,
  type Message,
  type MessageTag,
  type StoredMessage,
} from "../protocol/message.ts";
import { CountSchema, lazyObject, lazyUnion, z } from "../protocol/lazy-schema.ts";

/** A message that its agent added and a compaction removed. */
export interface DroppedMessage {
  readonly message: Message;
  readonly tag: MessageTag;
}

/** A history with the origins of its messages. */
export interface TaggedHistory {
  readonly messages: readonly Message[];
  /**
   * One tag per message, in the same order. Messages passed to a pending execution get their tags
   * when it starts.
   */
  readonly tags: readonly MessageTag[];
  /**
   * Messages that the agent itself added and compactions removed, oldest first, without
   * instructions and notes.
   */
  readonly dropped: readonly DroppedMessage[];
  /** Number of messages that the agent has ever added. */
  readonly added: number;
}

/**
 * The position at which a message is added: the execution, and the number of the open or last step.
 * 0 before the first step.
 */
export interface TagPlace {
  readonly executionId: ExecutionId;
  readonly stepNumber: number;
}

/** Returns the history with messages appended. Returns the same history for an empty list. */
export function appendMessages<History extends TaggedHistory>(
  history: History,
  added: readonly Message[],
  place: TagPlace,
): History {
  if (added.length === 0) return history;
  return tagRest({ ...history, messages: appendToList(history.messages, added) }, place);
}

/** Tags the messages at the end that have no tags yet. */
export function tagRest<History extends TaggedHistory>(history: History, place: TagPlace): History {
  const { messages, tags, added } = history;
  const untagged = messages.length - tags.length;
  if (untagged === 0) return history;
  const { executionId, stepNumber } = place;
  const newTags: MessageTag[] = [];
  for (let number = added + 1; number <= added + untagged; number += 1)
    newTags.push({ executionId, stepNumber, number });
  return { ...history, tags: tags.concat(newTags), added: added + untagged };
}

/**
 * Returns the history with a new list of messages. Messages that remain are the same objects in the
 * same order, and keep their tags. New messages are notes about removed ones.
 */
export function replaceMessages<History extends TaggedHistory>(
  history: History,
  messages: readonly Message[],
  { executionId, stepNumber }: TagPlace,
): History {
  const gone: DroppedMessage[] = [];
  const tags: MessageTag[] = [];
  let { added } = history;
  let from = 0;
  for (const message of messages) {
    const at = history.messages.indexOf(message, from);
    const tag = at < 0 ? undefined : history.tags[at];
    if (tag === undefined) {
      added += 1;
      tags.push({ executionId, stepNumber, number: added, note: "left_out" });
      continue;
    }
    gone.push(...collectOwnBetween(history, from, at));
    tags.push(tag);
    from = at + 1;
  }
  gone.push(...collectOwnBetween(history, from, history.messages.length));
  const dropped = gone.length === 0 ? history.dropped : [...history.dropped, ...gone];
  return { ...history, messages, tags, dropped, added };
}

function collectOwnBetween(
  { messages, tags }: TaggedHistory,
  from: number,
  to: number,
): readonly DroppedMessage[] {
  return messages.slice(from, to).flatMap((message, index) => {
    const tag = tags[from + index];
    return tag !== undefined && isAddedByAgent(message, tag) ? [{ message, tag }] : [];
  });
}

/**
 * True for a message that the agent itself received or wrote. False for instructions, notes and
 * inherited messages.
 */
function isAddedByAgent({ role }: Message, { agentId, note }: MessageTag): boolean {
  return agentId === undefined && note === undefined && role !== "system";
}

/** Returns the whole history, each message with its ids. `agentId` is the owner of the history. */
export function createStoredMessages(
  { messages, tags }: Pick<TaggedHistory, "messages" | "tags">,
  agentId: AgentId,
): readonly StoredMessage[] {
  return messages.map((message, index) => {
    const tag = tags[index];
    invariant(tag !== undefined, "every message of a history that was begun has a tag");
    return createStoredMessage(message, tag, agentId);
  });
}

/**
 * Returns the messages that the agent itself added, in order, including those that compactions
 * removed.
 */
export function collectAddedMessages(
  history: TaggedHistory,
  agentId: AgentId,
): readonly StoredMessage[] {
  return [...history.dropped, ...collectOwnBetween(history, 0, history.messages.length)]
    .toSorted((left, right) => left.tag.number - right.tag.number)
    .map(({ message, tag }) => createStoredMessage(message, tag, agentId));
}

function createStoredMessage(message: Message, tag: MessageTag, ownId: AgentId): StoredMessage {
  const { executionId, stepNumber, number, agentId = ownId, note } = tag;
  return freezeInTests({
    ...message,
    messageId: createMessageId(executionId, number),
    agentId,
    executionId,
    ...(stepNumber === 0 ? {} : { stepId: createStepId(executionId, stepNumber) }),
    ...omitUndefined({ note }),
  });
}

/** Returns the tags of messages that another agent inherits, with the original agent's id. */
export function assignTagOwner(
  tags: readonly MessageTag[],
  agentId: AgentId,
): readonly MessageTag[] {
  return tags.map((tag) => (tag.agentId === undefined ? { ...tag, agentId } : tag));
}

/**
 * A part of a history before a change. `kept` refers to messages of the history after the change,
 * and `dropped` to messages of `Conversation.dropped`. Both are ranges from index `from` to before
 * index `to`. `unrecorded` contains messages that no other record has, such as notes, instructions
 * and inherited messages.
 */
const PastPartSchema = lazyUnion("type", () => [
  z.strictObject({ type: z.enum(["kept", "dropped"]), from: CountSchema(), to: CountSchema() }),
  z.strictObject({ type: z.literal("unrecorded"), messages: z.array(MessageSchema()).readonly() }),
]);

/** A change of a history other than appended messages. */
export const HistoryChangeSchema = lazyObject(() => ({
  /** Number of steps completed by then. */
  afterStep: CountSchema(),
  before: z.array(PastPartSchema()).readonly(),
}));
export type HistoryChange = Readonly<z.infer<ReturnType<typeof HistoryChangeSchema>>>;

/** A history with the messages that compactions removed. */
export type PersistedHistory = Pick<TaggedHistory, "messages" | "dropped">;

/**
 * Returns the record of a change from one history to another. `undefined` if messages were only
 * appended.
 */
export function findHistoryChange(
  { messages: before }: PersistedHistory,
  after: PersistedHistory,
  afterStep: number,
): HistoryChange | undefined {
  if (before.every((message, index) => message === after.messages[index])) return undefined;
  const keptIndexes = indexMessages(after.messages);
  const droppedIndexes = indexMessages(after.dropped.map(({ message }) => message));
  const parts: Growing[] = [];
  for (const message of before) {
    const last = parts.at(-1);
    const type = keptIndexes.has(message) ? "kept" : "dropped";
    const from = keptIndexes.get(message) ?? droppedIndexes.get(message);
    if (from === undefined && last?.type === "unrecorded") last.messages.push(message);
    else if (from === undefined) parts.push({ type: "unrecorded", messages: [message] });
    else if (last?.type === type && last.to === from) last.to += 1;
    else parts.push({ type, from, to: from + 1 });
  }
  return { afterStep, before: parts };
}

type Growing =
  | { readonly type: "kept" | "dropped"; readonly from: number; to: number }
  | { readonly type: "unrecorded"; readonly messages: Message[] };

function indexMessages(messages: readonly Message[]): ReadonlyMap<Message, number> {
  return new Map(messages.map((message, index) => [message, index]));
}

/** Returns a list that begins with the history as it was at the start of the step. */
export function rebuildHistoryAtStep(
  { messages, dropped }: PersistedHistory,
  changes: readonly HistoryChange[],
  stepNumber: number,
): readonly Message[] {
  const later = changes.filter(({ afterStep }) => afterStep >= stepNumber);
  if (later.length === 0) return messages;
  const gone = dropped.map(({ message }) => message);
  return later.reduceRight<readonly Message[]>(
    (list, { before }) =>
      before.flatMap((part) => {
        if (part.type === "unrecorded") return part.messages;
        return (part.type === "kept" ? list : gone).slice(part.from, part.to);
      }),
    messages,
  );
}
