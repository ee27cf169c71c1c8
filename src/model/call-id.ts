import { mismatch } from "../kernel/argument-checks.ts";
import { isId, type CallId } from "../protocol/ids.ts";

const NO_ID =
  "Pass the id that the provider gave the call, or make one that is unique in the reply.";

/**
 * Returns the provider's id of a tool call as a `CallId`, for adapters.
 *
 * @throws EspalierError `invalid_argument` if the text is empty.
 *
 * @example
 * ```ts
 * const message = buildReplyMessage([
 *   { type: "call", callId: toCallId("call_1"), toolName: "search", argumentsText: '{"query":"x"}' },
 * ]);
 * ```
 */
export function toCallId(text: string): CallId {
  if (isId<"CallId">(text)) return text;
  throw mismatch("callId", "a non-empty string", text, NO_ID);
}
