// What of a message a model is shown that is no text: the kinds that it takes. All else stands in the text of the message, by a line. Pure.

import { shared } from "../kernel/shared.ts";
import type { AttachmentKind } from "../protocol/attachment.ts";
import {
  attachedBytes,
  isAttached,
  MOST_ATTACHMENT_BYTES,
  contentText,
  type ContentPart,
} from "../protocol/message-content.ts";
import type { ToolMessage, UserMessage } from "../protocol/message.ts";
import { remembered } from "./remembered.ts";

/** A message that may have content. */
export type ContentMessage = UserMessage | ToolMessage;

/**
 * The message as a model sees it that takes these kinds: the same, if it takes all that is in it; and always the same for the same
 * message, so that a request still begins like the one before it.
 */
export function withAccepted(
  message: ContentMessage,
  accepts: readonly AttachmentKind[],
): ContentMessage {
  const { content } = message;
  if (content === undefined || content.every((part) => isShown(part, accepts))) return message;
  const form = accepts.toSorted().join();
  const known = forms.get(form) ?? new WeakMap<ContentMessage, ContentMessage>();
  forms.set(form, known);
  return remembered(known, message, () => withKinds(message, content, accepts));
}

/** By the kinds that are taken. */
const forms = new Map<string, WeakMap<ContentMessage, ContentMessage>>();

function withKinds(
  message: ContentMessage,
  content: readonly ContentPart[],
  accepts: readonly AttachmentKind[],
): ContentMessage {
  const { content: _all, ...plain } = message;
  const shown = isInOrder(message)
    ? content.map((part) => (isShown(part, accepts) ? part : asText(part)))
    : content.filter((part) => isAttached(part) && isShown(part, accepts));
  return shared(shown.some(isAttached) ? { ...plain, content: shown } : plain);
}

function isShown(part: ContentPart, accepts: readonly AttachmentKind[]): boolean {
  if (!isAttached(part)) return true;
  return accepts.includes(part.type) && attachedBytes([part]) <= MOST_ATTACHMENT_BYTES;
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

/** What a model is shown of a message with content, in order: texts, and attachments of kinds that it takes. For adapters. */
export function contentParts(message: ContentMessage): readonly ContentPart[] {
  const { text, content = [] } = message;
  if (isInOrder(message)) return content.map((part) => (isAttached(part) ? part : asText(part)));
  const words = text === "" ? [] : [{ type: "text", text } as const];
  return [...words, ...content.filter(isAttached)];
}
