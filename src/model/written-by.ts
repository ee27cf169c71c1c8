// Whose parts a message has. Reasoning and data of one model are sent to that model alone: others refuse them, or take them for theirs.

import { growthOf, type Growth } from "../kernel/grown.ts";
import type { AssistantMessage, Message, ReplyPart, StoredMessage } from "../protocol/message.ts";
import type { Model } from "./model.ts";
import { remembered } from "./remembered.ts";

type Writer = Pick<Model, "provider" | "id" | "replayKey">;

/** `replayKeys`: of the models that a fallback asks, each of which is shown its own alone. */
type Reader = Writer & { readonly replayKeys?: readonly string[] };

/** What the parts of a model's replies are stamped with: they go back where this is the same. */
export function replayKeyOf({ provider, id, replayKey }: Writer): string {
  return replayKey ?? `${provider}/${id}`;
}

/**
 * The messages as a model may see them: parts that another one wrote are left out. The same list, if there are none; and always the same
 * message for the same message, so that a request still begins like the one before it.
 */
export function forModel(messages: readonly Message[], reader: Reader): readonly Message[] {
  const growth = growthOf(messages);
  const from = growth === undefined ? 0 : (plainBeginnings.get(growth) ?? 0);
  for (let index = from; index < messages.length; index += 1) {
    const message = messages[index];
    if (message?.role === "assistant" && message.parts !== undefined)
      return withoutForeign(messages, reader.replayKeys ?? [replayKeyOf(reader)]);
  }
  if (growth !== undefined) plainBeginnings.set(growth, Math.max(from, messages.length));
  return messages;
}

/** How many messages at the beginning of histories that grow are known to have no parts. */
const plainBeginnings = new WeakMap<Growth, number>();

/**
 * The messages as an adapter sends them: the loop has left out what other models wrote, a caller of the model itself may have not. Parts
 * without a signature are taken for its own.
 */
export function sendable(messages: readonly Message[], replayKey: string): readonly Message[] {
  return withoutForeign(messages, [replayKey], replayKey);
}

/** `unsigned`: taken for the writer of parts that are not signed. */
function withoutForeign(
  messages: readonly Message[],
  replayKeys: readonly string[],
  unsigned = "",
): readonly Message[] {
  const isForeign = (message: Message): message is AssistantMessage =>
    message.role === "assistant" &&
    message.parts !== undefined &&
    !replayKeys.includes(message.writtenBy ?? unsigned);
  if (!messages.some(isForeign)) return messages;
  return messages.map((one) => (isForeign(one) ? remembered(others, one, withoutParts) : one));
}

const others = new WeakMap<AssistantMessage, Message>();

/**
 * The messages without reasoning, and without what only the models that wrote them can read: for keeping them elsewhere. Texts,
 * calls and results are as they were.
 */
export function textOnly(messages: readonly StoredMessage[]): readonly StoredMessage[];
export function textOnly(messages: readonly Message[]): readonly Message[];
export function textOnly(messages: readonly Message[]): readonly Message[] {
  return messages.map((message) =>
    message.role === "assistant" ? withoutParts(message) : message,
  );
}

function withoutParts({
  parts: _parts,
  writtenBy: _writer,
  ...message
}: AssistantMessage): AssistantMessage {
  return Object.freeze(message);
}

/** The message as people may read it: with its reasoning, and without what only its model can read. */
export function withoutData(message: AssistantMessage): AssistantMessage {
  const { parts } = message;
  if (parts === undefined) return message;
  return { ...withoutParts(message), parts: parts.flatMap(readablePart) };
}

function readablePart(part: ReplyPart): readonly ReplyPart[] {
  // What is opaque, and parts of a later release, say nothing to people.
  if (part.type !== "reasoning" && part.type !== "text" && part.type !== "call") return [];
  const { data: _data, ...rest } = part;
  return [rest];
}
