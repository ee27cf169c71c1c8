import { idOf, type CallId } from "../protocol/ids.ts";

/**
 * Returns the provider's id of a tool call as a `CallId`, for adapters.
 *
 * @throws TypeError if the text is empty.
 *
 * @example
 * ```ts
 * const message = buildReplyMessage([
 *   { type: "call", callId: toCallId("call_1"), toolName: "search", argumentsText: '{"query":"x"}' },
 * ]);
 * ```
 */
export function toCallId(text: string): CallId {
  return idOf<"CallId">(text);
}
