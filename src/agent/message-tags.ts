// Where the messages of a history came from (R98): one tag for each message, in the same order, beside the messages themselves. A message
// that goes to a model has no ids in it, whatever the adapter does with it. Pure; every tag is made here.

import { appendToList } from "../kernel/grown.ts";
import { invariant } from "../kernel/assert.ts";
import { omitUndefined } from "../kernel/json.ts";
import { freezeInTests } from "../kernel/shared.ts";
import { createMessageId, createStepId, type AgentId, type ExecutionId } from "../protocol/ids.ts";
import {
  MessageSchema,
  type Message,
  type MessageTag,
  type StoredMessage,
} from "../protocol/message.ts";
import { lazyObject, lazySchema, lazyUnion, z } from "../protocol/lazy-schema.ts";

/** A message that its agent added and a compaction left out. */
export interface DroppedMessage {
  readonly message: Message;
  readonly tag: MessageTag;
}

/** A history with where it came from. */
export interface TaggedHistory {
  readonly messages: readonly Message[];
  /** One for each message, in the same order. What an execution is given before it starts has its tags from the start on. */
  readonly tags: readonly MessageTag[];
  /** What the agent itself had added and compactions left out, oldest first; no instructions and no notes. */
  readonly dropped: readonly DroppedMessage[];
  /** Messages that the agent has ever added. */
  readonly added: number;
}

/** Where a message is added: the execution, and the number of the step that is open or was the last, 0 before the first. */
export interface TagPlace {
  readonly executionId: ExecutionId;
  readonly stepNumber: number;
}

/** The history with messages added at its end. With none, the same. */
export function appendMessages<History extends TaggedHistory>(
  history: History,
  added: readonly Message[],
  place: TagPlace,
): History {
  if (added.length === 0) return history;
  return tagRest({ ...history, messages: appendToList(history.messages, added) }, place);
}

/** Gives tags to the messages at the end that have none yet. */
export function tagRest<History extends TaggedHistory>(history: History, place: TagPlace): History {
  const { messages, tags, added } = history;
  const untagged = messages.length - tags.length;
  if (untagged === 0) return history;
  const { executionId, stepNumber } = place;
  const given: MessageTag[] = [];
  for (let number = added + 1; number <= added + untagged; number += 1)
    given.push({ executionId, stepNumber, number });
  return { ...history, tags: tags.concat(given), added: added + untagged };
}

/**
 * The history with other messages in its place: those of it that stay are the same objects in the same order and keep their tags, what
 * is new among them stands for what is gone.
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
    gone.push(...ownBetween(history, from, at));
    tags.push(tag);
    from = at + 1;
  }
  gone.push(...ownBetween(history, from, history.messages.length));
  const dropped = gone.length === 0 ? history.dropped : [...history.dropped, ...gone];
  return { ...history, messages, tags, dropped, added };
}

function ownBetween(
  { messages, tags }: TaggedHistory,
  from: number,
  to: number,
): readonly DroppedMessage[] {
  return messages.slice(from, to).flatMap((message, index) => {
    const tag = tags[from + index];
    return tag !== undefined && isAddedByAgent(message, tag) ? [{ message, tag }] : [];
  });
}

/** True for what the agent itself was given or said: no instructions, no note, nothing from before it was created. */
function isAddedByAgent({ role }: Message, { agentId, note }: MessageTag): boolean {
  return agentId === undefined && note === undefined && role !== "system";
}

/** The whole history, each message with its ids. `agentId`: whose history it is. */
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

/** What the agent itself has added, in order, also what compactions left out since. */
export function collectAddedMessages(
  history: TaggedHistory,
  agentId: AgentId,
): readonly StoredMessage[] {
  return [...history.dropped, ...ownBetween(history, 0, history.messages.length)]
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

/** The tags of messages that another agent takes over: they say whose they were. */
export function assignTagOwner(
  tags: readonly MessageTag[],
  agentId: AgentId,
): readonly MessageTag[] {
  return tags.map((tag) => (tag.agentId === undefined ? { ...tag, agentId } : tag));
}

const count = lazySchema(() => z.int().nonnegative());

/**
 * A part of a history as it was before a change. `kept`: messages of the history as the change left it.
 * `dropped`: messages of `Conversation.dropped`. Both from number `from`, counted from 0, to before number
 * `to`. `unrecorded`: messages that no other record has, such as notes, instructions and inherited messages.
 */
const PastPartSchema = lazyUnion("type", () => [
  z.strictObject({ type: z.enum(["kept", "dropped"]), from: count(), to: count() }),
  z.strictObject({ type: z.literal("unrecorded"), messages: z.array(MessageSchema()).readonly() }),
]);

/** A change of a history after which it does not begin as it did before. */
export const HistoryChangeSchema = lazyObject(() => ({
  /** The steps that were completed by then. */
  afterStep: count(),
  before: z.array(PastPartSchema()).readonly(),
}));
export type HistoryChange = Readonly<z.infer<ReturnType<typeof HistoryChangeSchema>>>;

/** A history with what compactions left out of it. */
export type PersistedHistory = Pick<TaggedHistory, "messages" | "dropped">;

/** What has to be kept when a history becomes another one; undefined: nothing, since the new one begins with the old one. */
export function findHistoryChange(
  { messages: before }: PersistedHistory,
  after: PersistedHistory,
  afterStep: number,
): HistoryChange | undefined {
  if (before.every((message, index) => message === after.messages[index])) return undefined;
  const kept = indexMessages(after.messages);
  const dropped = indexMessages(after.dropped.map(({ message }) => message));
  const parts: Growing[] = [];
  for (const message of before) {
    const last = parts.at(-1);
    const type = kept.has(message) ? "kept" : "dropped";
    const from = kept.get(message) ?? dropped.get(message);
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

/** A list that begins with the history as it was when the step began. */
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
