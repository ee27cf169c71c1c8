// Measures the common beginning of a request and the previous one, which decides whether prompt
// caches hit: tools and the result schema first, then messages. Pure.

import { findGrowth } from "../kernel/append-only-list.ts";
import { sameJson } from "../kernel/json.ts";
import type { Message } from "../protocol/message.ts";
import type { ModelRequest } from "./model.ts";

/** A request that was sent. */
export interface SentRequest {
  readonly request: ModelRequest;
  /** Number of messages at its end that no later request has. */
  readonly ephemeralCount: number;
}

/** The common beginning of two requests. */
export interface RequestPrefix {
  /** True if it begins with the last request without its ephemeral messages. */
  readonly isUnchanged: boolean;
  /** Number of equal messages at the beginning. 0 if the tools or the result schema differ. */
  readonly messageCount: number;
  /** The part that differs. The schema of the result counts as part of the tools. */
  readonly changed?: "tools" | "messages";
}

/** Compares two requests. Messages are equal if the provider receives equal content. */
export function compareRequests(
  { request: last, ephemeralCount }: SentRequest,
  next: ModelRequest,
): RequestPrefix {
  const { tools, output } = last;
  const isSameLength = tools.length === next.tools.length;
  const hasSameTools =
    tools === next.tools || (isSameLength && tools.every((tool, at) => tool === next.tools[at]));
  const hasSameOutput =
    output === next.output ||
    (output !== undefined && next.output !== undefined && sameJson(output, next.output));
  if (!hasSameTools || !hasSameOutput)
    return { isUnchanged: false, messageCount: 0, changed: "tools" };
  // Lists with a common append-only prefix are equal without a comparison.
  const growth = findGrowth(last.messages);
  const isGrown = growth !== undefined && growth === findGrowth(next.messages);
  let messageCount = isGrown ? Math.min(last.messages.length, next.messages.length) : 0;
  while (messageCount < last.messages.length) {
    const [message, other] = [last.messages[messageCount], next.messages[messageCount]];
    // Most messages are the same object. Only different objects are compared.
    if (message !== other && !isSameForProvider(message, other)) break;
    messageCount += 1;
  }
  return messageCount >= last.messages.length - ephemeralCount
    ? { isUnchanged: true, messageCount }
    : { isUnchanged: false, messageCount, changed: "messages" };
}

/** Returns the number of messages of `tail` at the end of `messages`, or 0 if one is missing. */
export function countEphemeralTail(messages: readonly Message[], tail: readonly Message[]): number {
  const from = messages.length - tail.length;
  const areThere = tail.every((message, index) => {
    return isSameForProvider(message, messages[from + index]);
  });
  return areThere ? tail.length : 0;
}

function isSameForProvider(left: Message | undefined, right: Message | undefined): boolean {
  if (left === undefined || right === undefined) return left === right;
  return left === right || serializeMessage(left) === serializeMessage(right);
}

/** Serialises the fields of a message that a provider receives, without its origin. */
function serializeMessage(message: Message): string {
  switch (message.role) {
    case "system":
      return JSON.stringify([message.role, message.text]);
    case "user":
      return JSON.stringify([message.role, message.text, message.content ?? null]);
    case "tool":
      return JSON.stringify([message.role, message.callId, message.text, message.content ?? null]);
    case "assistant":
      return JSON.stringify([
        message.role,
        message.text,
        message.refusal ?? null,
        message.toolCalls.map((call) => [call.callId, call.toolName, call.argumentsText]),
        message.parts ?? null,
      ]);
  }
}
