// The pieces of a reply as providers of the AI SDK give them, and in our form.

import type { LanguageModelV4ToolCall, SharedV4ProviderMetadata } from "@ai-sdk/provider";

import { defined } from "../../kernel/json.ts";
import { CallIdSchema } from "../../protocol/ids.ts";
import type { ReplyPiece } from "../../protocol/reply-message.ts";
import { dataOf, type OpaquePart } from "./opaque.ts";

/**
 * A piece that may still grow. Its metadata stays the provider's own until the reply is complete: some
 * providers change the object later.
 */
export interface GrowingText {
  readonly type: "text" | "reasoning";
  text: string;
  metadata: SharedV4ProviderMetadata;
}

/** A piece of a reply. A call is kept as its provider gave it. */
export type ReceivedPiece = GrowingText | LanguageModelV4ToolCall | OpaquePart;

/** Returns true if the provider's data of a piece contains reasoning of OpenRouter. */
export function hasReasoning(piece: ReceivedPiece, provider: string): boolean {
  const metadata = "metadata" in piece ? piece.metadata : undefined;
  const own = metadata ?? ("providerMetadata" in piece ? piece.providerMetadata : undefined);
  const details = own?.[provider]?.["reasoning_details"];
  return Array.isArray(details) && details.length > 0;
}

/** Returns true for the text of a summary that the provider made of the history. */
export function isCompaction(metadata: SharedV4ProviderMetadata): boolean {
  return Object.values(metadata).some(({ type }) => type === "compaction");
}

/** Returns a piece in our form. A call without an id gets `ownId`. */
export function toReplyPiece(piece: ReceivedPiece, ownId: string): ReplyPiece {
  switch (piece.type) {
    case "opaque":
      return piece;
    case "text":
    case "reasoning":
      if (isCompaction(piece.metadata)) {
        const data = { text: piece.text, ...defined({ providerOptions: dataOf(piece.metadata) }) };
        return { type: "opaque", kind: piece.type, data };
      }
      return { type: piece.type, text: piece.text, data: dataOf(piece.metadata) };
    case "tool-call": {
      const { toolCallId, toolName, input, providerMetadata } = piece;
      return {
        type: "call",
        callId: CallIdSchema.parse(toolCallId === "" ? ownId : toolCallId),
        toolName,
        argumentsText: input,
        data: dataOf(providerMetadata),
      };
    }
  }
}

/** Returns both, field by field; a later field replaces an earlier one. */
export function mergeMetadata(
  before: SharedV4ProviderMetadata,
  more: SharedV4ProviderMetadata,
): SharedV4ProviderMetadata {
  const sum = { ...before };
  for (const [provider, fields] of Object.entries(more))
    sum[provider] = { ...sum[provider], ...fields };
  return sum;
}
