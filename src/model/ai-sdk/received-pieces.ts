// The pieces of a reply as providers of the AI SDK send them, and their conversion to our form.

import type {
  LanguageModelV4ToolCall,
  SharedV4ProviderMetadata,
  LanguageModelV4StreamPart,
} from "@ai-sdk/provider";

import { omitUndefined, parseJson, type JsonObject } from "../../kernel/json.ts";
import { CallIdSchema } from "../../protocol/ids.ts";
import type { ReplyPiece } from "../../protocol/reply-message.ts";
import type { ProviderData } from "../../protocol/message.ts";
import { isWireObject } from "../wire-json.ts";
import { parseProviderArguments } from "./call-options.ts";

/**
 * A piece that may still grow. Keeps the provider's metadata by reference until the reply is
 * complete, since some providers change the object later.
 */
export interface GrowingPiece {
  readonly type: "text" | "reasoning";
  text: string;
  metadata: SharedV4ProviderMetadata;
}

/** A piece of a reply. A call keeps the form of its provider. */
export type ReceivedPiece = GrowingPiece | LanguageModelV4ToolCall | OpaquePart;

/** Returns true if the provider's data of a piece contains reasoning of OpenRouter. */
export function hasReasoning(piece: ReceivedPiece, provider: string): boolean {
  const metadata = "metadata" in piece ? piece.metadata : undefined;
  const pieceMetadata =
    metadata ?? ("providerMetadata" in piece ? piece.providerMetadata : undefined);
  const details = pieceMetadata?.[provider]?.["reasoning_details"];
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
        const data = {
          text: piece.text,
          ...omitUndefined({ providerOptions: toProviderData(piece.metadata) }),
        };
        return { type: "opaque", kind: piece.type, data };
      }
      return { type: piece.type, text: piece.text, data: toProviderData(piece.metadata) };
    case "tool-call": {
      const { toolCallId, toolName, input, providerMetadata } = piece;
      return {
        type: "call",
        callId: CallIdSchema().parse(toolCallId === "" ? ownId : toolCallId),
        toolName,
        argumentsText: input,
        data: toProviderData(providerMetadata),
      };
    }
  }
}

/** Merges field by field. A later field replaces an earlier one. */
export function mergeMetadata(
  earlier: SharedV4ProviderMetadata,
  later: SharedV4ProviderMetadata,
): SharedV4ProviderMetadata {
  const sum = { ...earlier };
  for (const [provider, fields] of Object.entries(later))
    sum[provider] = { ...sum[provider], ...fields };
  return sum;
}

export interface OpaquePart {
  readonly type: "opaque";
  readonly kind: string;
  readonly data: ProviderData;
}

/**
 * Returns an opaque part for a server-side call, its result, a file, a source and so on, or
 * `undefined` if the part is not content.
 */
export function toOpaquePart(part: LanguageModelV4StreamPart): OpaquePart | undefined {
  let content: object = part;
  if (part.type === "tool-result" && part.preliminary === true) return undefined;
  if (part.type === "custom" && part.kind.endsWith(".message_start")) return undefined;
  if (part.type === "tool-call") {
    const { toolCallId, toolName, input } = part;
    content = {
      toolCallId,
      toolName,
      input: parseProviderArguments(input),
      providerExecuted: true,
    };
  }
  if (part.type === "tool-result") {
    const { toolCallId, toolName, result: value, isError } = part;
    const format = typeof value === "string" ? "text" : "json";
    const type = isError === true ? "error-json" : format;
    content = { toolCallId, toolName, output: { type, value } };
  }
  if (part.type === "file" || part.type === "reasoning-file") {
    const { data } = part;
    const isBytes = data.type === "data" && typeof data.data !== "string";
    if (isBytes)
      content = { ...part, data: { ...data, data: Buffer.from(data.data).toString("base64") } };
  }
  const { type: _type, providerMetadata: _metadata, ...own } = toPlainJson(content);
  const metadata = "providerMetadata" in part ? part.providerMetadata : undefined;
  const data = { ...own, ...omitUndefined({ providerOptions: toProviderData(metadata) }) };
  return { type: "opaque", kind: part.type, data };
}

/** Returns the data of a piece, or `undefined` if its metadata is empty. */
function toProviderData(metadata: SharedV4ProviderMetadata | undefined): ProviderData | undefined {
  const entries = Object.entries(metadata ?? {}).filter(
    ([, fields]) => Object.keys(fields).length > 0,
  );
  return entries.length === 0 ? undefined : toPlainJson(Object.fromEntries(entries));
}

/**
 * Copies by JSON.stringify, which converts values such as URLs. Our own copy of foreign values
 * rejects them.
 */
function toPlainJson(value: object): JsonObject {
  const copy = parseJson(JSON.stringify(value));
  if (!isWireObject(copy)) throw new TypeError("Expected an object.");
  return copy;
}
