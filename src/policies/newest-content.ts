// Which attachments of a history stay when it is made shorter: the newest. Pure.

import { attachedBytes, isAttached, MOST_REQUEST_BYTES } from "../protocol/message-content.ts";
import type { Message } from "../protocol/message.ts";

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
