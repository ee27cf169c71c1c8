// Whose parts a message has, and what of its content a model takes. Reasoning and data of one model are sent to that model alone: others
// refuse them, or take them for theirs. Images and files are sent to models that take them.

import { growthOf, type Growth } from "../kernel/grown.ts";
import { shared } from "../kernel/shared.ts";
import type { AttachmentKind } from "../protocol/attachment.ts";
import {
  attachedBytes,
  isAttached,
  MOST_ATTACHMENT_BYTES,
  contentText,
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
import { remembered } from "./remembered.ts";

type Writer = Pick<Model, "provider" | "id" | "replayKey">;

/** What the parts of a model's replies are stamped with: they go back where this is the same. */
export function replayKeyOf({ provider, id, replayKey }: Writer): string {
  return replayKey ?? `${provider}/${id}`;
}

/** A model, by what of a history it may see. `replayKeys`: of those that a fallback asks, each of which is shown its own alone. */
type HistoryReader = Writer &
  Pick<Model, "inputModalities"> & { readonly replayKeys?: readonly string[] };

/**
 * The messages as a model may see them: without parts that another one wrote, and without content of kinds that it does not take. The same
 * list, if there is nothing of it; and always the same message for the same message, so that a request still begins like the one before it.
 */
export function forModel(messages: readonly Message[], reader: HistoryReader): readonly Message[] {
  if (isPlain(messages)) return messages;
  const replayKeys = reader.replayKeys ?? [replayKeyOf(reader)];
  return seenBy(messages, replayKeys, reader.inputModalities);
}

/** True for messages that every model is shown as they are: none has parts, or content. */
export function isPlain(messages: readonly Message[]): boolean {
  const growth = growthOf(messages);
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

/** How many messages at the beginning of histories that grow are known to be the same for all models. */
const plainBeginnings = new WeakMap<Growth, number>();

/** A model that messages are sent to, and what it takes besides text. */
export interface Recipient {
  readonly replayKey: string;
  /** Left out: nothing. */
  readonly inputModalities?: readonly AttachmentKind[] | undefined;
}

/**
 * The messages as an adapter sends them: the loop has left out what the model is not to see, a caller of the model itself may have not.
 * Parts without a signature are taken for its own.
 */
export function sendable(
  messages: readonly Message[],
  { replayKey, inputModalities }: Recipient,
): readonly Message[] {
  if (isPlain(messages)) return messages;
  return seenBy(messages, [replayKey], inputModalities, replayKey);
}

const NOTHING: readonly AttachmentKind[] = [];

/** `unsigned`: taken for the writer of parts that are not signed. */
function seenBy(
  messages: readonly Message[],
  replayKeys: readonly string[],
  inputModalities = NOTHING,
  unsigned = "",
): readonly Message[] {
  let isCarrier = false;
  const seen = (message: Message): Message => {
    if (message.role === "assistant") {
      const isForeign =
        message.parts !== undefined && !replayKeys.includes(message.writtenBy ?? unsigned);
      return isForeign ? remembered(others, message, withoutParts) : message;
    }
    if (!hasContent(message)) return message;
    isCarrier = true;
    return withAccepted(message, inputModalities);
  };
  const isSame = messages.every((message) => seen(message) === message);
  const list = isSame ? messages : messages.map(seen);
  if (isCarrier) carriers.add(list);
  return list;
}

/** Lists in which something is no text. */
const carriers = new WeakSet<readonly Message[]>();

/** The bytes of attachments in a list that `forModel` gave. */
export function attachedBytesOf(messages: readonly Message[]): number {
  if (!carriers.has(messages)) return 0;
  return messages.reduce(
    (sum, message) => sum + (hasContent(message) ? attachedBytes(message.content) : 0),
    0,
  );
}

/** True for a message of which something is no text. */
export function hasContent(message: Message): message is ContentMessage & Carried {
  return (message.role === "user" || message.role === "tool") && message.content !== undefined;
}

type Carried = Required<Pick<ContentMessage, "content">>;

const others = new WeakMap<AssistantMessage, Message>();

/**
 * The messages without reasoning, without what only the models that wrote them can read, and without what is no text: for keeping them
 * elsewhere. Texts, calls and results are as they were.
 */
export function textOnly(messages: readonly StoredMessage[]): readonly StoredMessage[];
export function textOnly(messages: readonly Message[]): readonly Message[];
export function textOnly(messages: readonly Message[]): readonly Message[] {
  return messages.map((message) =>
    message.role === "assistant" ? withoutParts(message) : withoutContent(message),
  );
}

/** The message by its text alone. */
function withoutContent(message: Message): Message {
  if (!hasContent(message)) return message;
  const { content: _content, ...plain } = message;
  return shared(plain);
}

function withoutParts({
  parts: _parts,
  writtenBy: _writer,
  ...message
}: AssistantMessage): AssistantMessage {
  return shared(message);
}

/** The message as people may read it: with its reasoning, and without data that only its model, or nothing, can read. */
export function toReadable(message: Message): Message {
  return message.role === "assistant" ? withoutData(message) : withoutContent(message);
}

/** The same for a reply. */
export function withoutData(message: AssistantMessage): AssistantMessage {
  const { parts } = message;
  if (parts === undefined) return message;
  const kept = parts.flatMap((part): readonly ReplyPart[] => {
    // What is opaque, and parts of a later release, say nothing to people.
    if (part.type !== "reasoning" && part.type !== "text" && part.type !== "call") return [];
    const { data: _data, ...rest } = part;
    return [rest];
  });
  return { ...withoutParts(message), parts: kept };
}

// What of a message a model is shown that is no text: the kinds that it takes. All else stands in the text of the message, by a line. Pure.

/** A message that may have content. */
type ContentMessage = UserMessage | ToolMessage;

/**
 * The message as a model sees it that takes these kinds: the same, if it takes all that is in it; and always the same for the same
 * message, so that a request still begins like the one before it.
 */
function withAccepted(
  message: ContentMessage,
  inputModalities: readonly AttachmentKind[],
): ContentMessage {
  const { content } = message;
  if (content === undefined || content.every((part) => isShown(part, inputModalities)))
    return message;
  const form = inputModalities.toSorted().join();
  const known = forms.get(form) ?? new WeakMap<ContentMessage, ContentMessage>();
  forms.set(form, known);
  return remembered(known, message, () => {
    const { content: _all, ...plain } = message;
    const kept = isInOrder(message)
      ? content.map((part) => (isShown(part, inputModalities) ? part : asText(part)))
      : content.filter((part) => isAttached(part) && isShown(part, inputModalities));
    return shared(kept.some(isAttached) ? { ...plain, content: kept } : plain);
  });
}

/** By the kinds that are taken. */
const forms = new Map<string, WeakMap<ContentMessage, ContentMessage>>();

function isShown(part: ContentPart, inputModalities: readonly AttachmentKind[]): boolean {
  if (!isAttached(part)) return true;
  return inputModalities.includes(part.type) && attachedBytes([part]) <= MOST_ATTACHMENT_BYTES;
}

/** A line that names the part, if it is no text; else the text that it is. */
export function asText(part: ContentPart): { readonly type: "text"; readonly text: string } {
  return { type: "text", text: contentText([part]) };
}

/** True if the content says all that the text does. A hook may have changed the text alone: then that is what holds. */
function isInOrder({ role, text, content = [] }: ContentMessage): boolean {
  return role === "user" && contentText(content) === text;
}

/** What stands before the attachments of a result where they follow it in a message of their own. `callId`: as it is sent. */
export function followingHeading(toolName: string, callId: string): ContentPart {
  return { type: "text", text: `What belongs to the result of ${toolName} (${callId}):` };
}

/**
 * Returns the content of a message in order, for adapters: texts, and the attachments that the
 * model accepts.
 *
 * @example
 * ```ts
 * const toText = (message: UserMessage) =>
 *   getContentParts(message).map((part) => (part.type === "text" ? part.text : `[${part.type}]`));
 * ```
 */
export function getContentParts(message: UserMessage | ToolMessage): readonly ContentPart[] {
  const { text, content = [] } = message;
  if (isInOrder(message)) return content.map((part) => (isAttached(part) ? part : asText(part)));
  const words = text === "" ? [] : [{ type: "text", text } as const];
  return [...words, ...content.filter(isAttached)];
}
