// The parts of messages that a model may read. Reasoning and provider data are sent only to the
// model that wrote them: others refuse them, or take them for their own. Images and files are sent
// to models that accept them.

import { checkObject } from "../kernel/argument-checks.ts";
import { findGrowth, type Growth } from "../kernel/append-only-list.ts";
import { freezeInTests } from "../kernel/freeze-shared.ts";
import type { AttachmentKind } from "../protocol/attachment.ts";
import {
  countContentBytes,
  isAttached,
  MOST_ATTACHMENT_BYTES,
  formatContent,
  type ContentPart,
} from "../protocol/message-content.ts";
import type {
  AssistantMessage,
  Message,
  ReplyPart,
  StoredMessage,
  ToolMessage,
  UserMessage,
} from "../protocol/message.ts";
import type { Model } from "./model.ts";
import { getOrCompute } from "./memoized-values.ts";

type Writer = Pick<Model, "provider" | "id" | "replayKey">;

/**
 * Returns the key that marks the parts of a model's replies. They are sent back to models with the
 * same key.
 */
export function toReplayKey({ provider, id, replayKey }: Writer): string {
  return replayKey ?? `${provider}/${id}`;
}

/**
 * Model with the properties that decide which parts of a history it may read. `replayKeys` are the
 * keys of a fallback's models. Each model reads its own parts only.
 */
type HistoryReader = Writer &
  Pick<Model, "inputModalities"> & { readonly replayKeys?: readonly string[] };

/**
 * Returns the messages without parts of other models, and without content that this model does not
 * accept. Returns the same list if nothing is removed. Equal messages give identical results, so
 * that requests keep their beginning.
 */
export function toHistory(messages: readonly Message[], reader: HistoryReader): readonly Message[] {
  if (isPlain(messages)) return messages;
  const replayKeys = reader.replayKeys ?? [toReplayKey(reader)];
  return filterUnreadableParts(messages, replayKeys, reader.inputModalities);
}

/** Returns true if every model may read the messages unchanged: none has parts or content. */
export function isPlain(messages: readonly Message[]): boolean {
  const growth = findGrowth(messages);
  const from = growth === undefined ? 0 : (plainBeginnings.get(growth) ?? 0);
  for (let index = from; index < messages.length; index += 1) {
    const message = messages[index];
    if (message === undefined) continue;
    if (message.role === "assistant" ? message.parts !== undefined : hasContent(message))
      return false;
  }
  if (growth !== undefined && messages.length > from) plainBeginnings.set(growth, messages.length);
  return true;
}

/** Number of leading messages of an append-only history that are known to be plain. */
const plainBeginnings = new WeakMap<Growth, number>();

/** Model that messages are sent to. */
export interface Recipient {
  readonly replayKey: string;
  /** Kinds of attachments that it reads. None if absent. */
  readonly inputModalities?: readonly AttachmentKind[] | undefined;
}

/**
 * Returns the messages as an adapter sends them. The loop has filtered them already; another caller
 * of the model may not have. Parts without a signature count as those of the recipient.
 */
export function filterForRecipient(
  messages: readonly Message[],
  { replayKey, inputModalities }: Recipient,
): readonly Message[] {
  if (isPlain(messages)) return messages;
  return filterUnreadableParts(messages, [replayKey], inputModalities, replayKey);
}

const NO_MODALITIES: readonly AttachmentKind[] = [];

/** `unsigned`: the assumed writer of parts without a signature. */
function filterUnreadableParts(
  messages: readonly Message[],
  replayKeys: readonly string[],
  inputModalities = NO_MODALITIES,
  unsigned = "",
): readonly Message[] {
  let isCarrier = false;
  const filterMessage = (message: Message): Message => {
    if (message.role === "assistant") {
      const isForeign =
        message.parts !== undefined && !replayKeys.includes(message.writtenBy ?? unsigned);
      return isForeign ? getOrCompute(others, message, removeParts) : message;
    }
    if (!hasContent(message)) return message;
    isCarrier = true;
    return filterAttachments(message, inputModalities);
  };
  const isSame = messages.every((message) => filterMessage(message) === message);
  const list = isSame ? messages : messages.map(filterMessage);
  if (isCarrier) carriers.add(list);
  return list;
}

/** Lists with non-text content. */
const carriers = new WeakSet<readonly Message[]>();

/** Returns the bytes of the attachments in a list that `toHistory` returned. */
export function sumAttachedBytes(messages: readonly Message[]): number {
  if (!carriers.has(messages)) return 0;
  return messages.reduce(
    (sum, message) => sum + (hasContent(message) ? countContentBytes(message.content) : 0),
    0,
  );
}

/** Returns true for a message with non-text content. */
export function hasContent(message: Message): message is ContentMessage & Carried {
  return (message.role === "user" || message.role === "tool") && message.content !== undefined;
}

type Carried = Required<Pick<ContentMessage, "content">>;

const others = new WeakMap<AssistantMessage, Message>();

/**
 * Returns the messages without reasoning, provider data and attachments, for storage elsewhere.
 * Texts, calls and results stay unchanged.
 */
export function stripToText(messages: readonly StoredMessage[]): readonly StoredMessage[];
export function stripToText(messages: readonly Message[]): readonly Message[];
export function stripToText(messages: readonly Message[]): readonly Message[] {
  return messages.map((message) =>
    message.role === "assistant" ? removeParts(message) : removeContent(message),
  );
}

/** Returns the message with its text alone. */
function removeContent(message: Message): Message {
  if (!hasContent(message)) return message;
  const { content: _content, ...plain } = message;
  return freezeInTests(plain);
}

function removeParts({
  parts: _parts,
  writtenBy: _writer,
  ...message
}: AssistantMessage): AssistantMessage {
  return freezeInTests(message);
}

/** Returns the message for people: with its reasoning, without provider data. */
export function toReadable(message: Message): Message {
  return message.role === "assistant" ? removeProviderData(message) : removeContent(message);
}

/** Returns the reply for people: with its reasoning, without provider data. */
export function removeProviderData(message: AssistantMessage): AssistantMessage {
  const { parts } = message;
  if (parts === undefined) return message;
  const plainParts = parts.flatMap((part): readonly ReplyPart[] => {
    // Opaque parts, and parts of later versions, are useless to people.
    if (part.type !== "reasoning" && part.type !== "text" && part.type !== "call") return [];
    const { data: _data, ...rest } = part;
    return [rest];
  });
  return { ...removeParts(message), parts: plainParts };
}

// Selects the attachments that a model accepts. A line in the text of the message names each of the
// others. Pure.

/** A message that may have content. */
type ContentMessage = UserMessage | ToolMessage;

/**
 * Returns the message with only the attachments of these kinds, or the same message if it has no
 * others. Equal messages give identical results, so that requests keep their beginning.
 */
function filterAttachments(
  message: ContentMessage,
  inputModalities: readonly AttachmentKind[],
): ContentMessage {
  const { content } = message;
  if (content === undefined || content.every((part) => isShown(part, inputModalities)))
    return message;
  const form = inputModalities.toSorted().join();
  const known = forms.get(form) ?? new WeakMap<ContentMessage, ContentMessage>();
  forms.set(form, known);
  return getOrCompute(known, message, () => {
    const { content: _all, ...plain } = message;
    const shownContent = isInOrder(message)
      ? content.map((part) => (isShown(part, inputModalities) ? part : convertToText(part)))
      : content.filter((part) => isAttached(part) && isShown(part, inputModalities));
    return freezeInTests(
      shownContent.some(isAttached) ? { ...plain, content: shownContent } : plain,
    );
  });
}

/** Reduced messages by accepted kinds. */
const forms = new Map<string, WeakMap<ContentMessage, ContentMessage>>();

function isShown(part: ContentPart, inputModalities: readonly AttachmentKind[]): boolean {
  if (!isAttached(part)) return true;
  return inputModalities.includes(part.type) && countContentBytes([part]) <= MOST_ATTACHMENT_BYTES;
}

/** Returns a text, or the line that names an attachment. */
export function convertToText(part: ContentPart): { readonly type: "text"; readonly text: string } {
  return { type: "text", text: formatContent([part]) };
}

/**
 * Returns true if the content contains the whole text. If a hook has changed the text alone, the
 * text applies.
 */
function isInOrder({ role, text, content = [] }: ContentMessage): boolean {
  return role === "user" && formatContent(content) === text;
}

/**
 * Returns the heading of attachments that follow a tool result in a message of their own. `callId`
 * is the id as it is sent.
 */
export function createAttachmentHeading(toolName: string, callId: string): ContentPart {
  return { type: "text", text: `Content of the result of ${toolName} (${callId}):` };
}

/**
 * Returns the texts and attachments of a message in order, for adapters.
 *
 * The function does not filter. The messages of a `ModelRequest` contain only attachments within
 * the `inputModalities` of the model; a line of text names each of the others.
 *
 * @example
 * ```ts
 * const toText = (message: UserMessage) =>
 *   getContentParts(message).map((part) => (part.type === "text" ? part.text : `[${part.type}]`));
 * ```
 */
export function getContentParts(message: UserMessage | ToolMessage): readonly ContentPart[] {
  checkObject("getContentParts message", message, "Pass a message of a user or a tool.");
  const { text, content = [] } = message;
  if (isInOrder(message))
    return content.map((part) => (isAttached(part) ? part : convertToText(part)));
  const words = text === "" ? [] : [{ type: "text", text } as const];
  return [...words, ...content.filter(isAttached)];
}
