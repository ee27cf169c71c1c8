// Builds the message of a reply from its pieces, so that adapters need not count characters. Pure.

import { checkList, checkObject } from "../kernel/argument-checks.ts";
import type { JsonObject } from "../kernel/json.ts";
import type { AssistantMessage, ReplyPart, ToolCall } from "./message.ts";

/**
 * Piece of a reply, as adapters build it. `data` is returned to the model that wrote it, and to no
 * other.
 *
 * @example
 * ```ts
 * const pieces: readonly ReplyPiece[] = [
 *   { type: "reasoning", text: "Sunny, I think.", data: { anthropic: { signature: "…" } } },
 *   { type: "text", text: "It is sunny." },
 * ];
 * ```
 */
export type ReplyPiece =
  | { readonly type: "reasoning"; readonly text: string; readonly data?: JsonObject | undefined }
  | { readonly type: "text"; readonly text: string; readonly data?: JsonObject | undefined }
  | ({ readonly type: "call"; readonly data?: JsonObject | undefined } & ToolCall)
  /**
   * Provider-specific piece, such as a call that the provider ran itself. The adapter chooses
   * `kind`.
   */
  | { readonly type: "opaque"; readonly kind: string; readonly data: JsonObject };

/**
 * Builds an assistant message from the pieces of a reply.
 *
 * `text` is the concatenation of all text pieces. A reply of a text followed by calls has no
 * `parts`.
 *
 * @example
 * ```ts
 * const message = buildReplyMessage([
 *   { type: "text", text: "Let me look." },
 *   { type: "call", callId: toCallId("call_1"), toolName: "search", argumentsText: "{}" },
 * ]);
 * ```
 */
export function buildReplyMessage(pieces: readonly ReplyPiece[]): AssistantMessage {
  if (!Array.isArray(pieces)) checkList("pieces", pieces);
  const merged: ReplyPiece[] = [];
  for (const piece of pieces) {
    const last = merged.at(-1);
    // Merges adjacent text pieces without data, and drops empty pieces.
    const isSaid = piece.type === "text" || piece.type === "reasoning";
    if (!isSaid || piece.data !== undefined) merged.push(piece);
    else if (last?.type === piece.type && last.data === undefined)
      merged[merged.length - 1] = { type: piece.type, text: last.text + piece.text };
    else if (piece.text !== "") merged.push(piece);
  }
  const toolCalls: ToolCall[] = [];
  let text = "";
  for (const piece of merged) {
    if (piece.type === "text") text += piece.text;
    if (piece.type !== "call") continue;
    const { callId, toolName, argumentsText } = piece;
    toolCalls.push(Object.freeze({ callId, toolName, argumentsText }));
  }
  const message = { role: "assistant", text, toolCalls: Object.freeze(toolCalls) } as const;
  const parts = toParts(merged);
  return Object.freeze(parts === undefined ? message : { ...message, parts });
}

/**
 * Returns the parts of a reply. `undefined` if the reply is a text followed by calls, which needs
 * no parts.
 */
function toParts(pieces: readonly ReplyPiece[]): readonly ReplyPart[] | undefined {
  const isPlain = pieces.every(
    ({ type, data }, index) =>
      data === undefined && (type === "call" || (type === "text" && index === 0)),
  );
  if (isPlain) return undefined;
  const parts = pieces.map((piece): ReplyPart => {
    const data = piece.data === undefined ? {} : { data: piece.data };
    switch (piece.type) {
      case "reasoning":
        return { type: piece.type, text: piece.text, ...data };
      case "text":
        return { type: piece.type, length: piece.text.length, ...data };
      case "call":
        return { type: piece.type, callId: piece.callId, ...data };
      case "opaque":
        return { type: piece.type, kind: piece.kind, data: piece.data };
    }
  });
  return Object.freeze(parts.map((part) => Object.freeze(part)));
}

/**
 * Returns the pieces of a message in order. For a message without `parts`, these are its text and
 * its calls.
 *
 * If the text was changed, the new text replaces the first text piece, without its data. If the
 * calls were changed, only text and calls are returned. Trailing reasoning is left out, since no
 * provider accepts it.
 *
 * @example
 * ```ts
 * function toWire(message: AssistantMessage): readonly string[] {
 *   return getReplyPieces(message).map((piece) =>
 *     piece.type === "text" ? piece.text : `<${piece.type}>`,
 *   );
 * }
 * ```
 */
export function getReplyPieces(message: AssistantMessage): readonly ReplyPiece[] {
  checkObject("getReplyPieces message", message, "Pass a message of an assistant.");
  const { text, toolCalls, parts } = message;
  checkList("message.toolCalls", toolCalls);
  if (parts === undefined || !hasSameCalls(parts, toolCalls)) {
    const calls = toolCalls.map((call) => ({ type: "call", ...call }) as const);
    return text === "" ? calls : [{ type: "text", text }, ...calls];
  }
  const lengths = parts.map((part) => (part.type === "text" ? part.length : 0));
  const hasText = lengths.reduce((sum, length) => sum + length, 0) === text.length;
  const pieces = toPieces(message, parts, hasText);
  const last = pieces.findLastIndex(({ type }) => type !== "reasoning");
  return last === pieces.length - 1 ? pieces : pieces.slice(0, last + 1);
}

/**
 * Returns a changed message with parts that fit its present text and calls. `before` is the
 * original message.
 */
export function fitParts(message: AssistantMessage, before: AssistantMessage): AssistantMessage {
  if (message.parts === undefined) return message;
  const { parts, writtenBy: _writer, ...plain } = message;
  if (!hasSameCalls(parts, message.toolCalls)) return plain;
  if (message.text === before.text) return message;
  const fitted = toParts(toPieces(message, parts, false));
  return fitted === undefined ? plain : { ...message, parts: fitted };
}

/** Returns the parts of a message whose calls have new ids, matched by position. */
export function renamePartCalls(
  parts: readonly ReplyPart[],
  toolCalls: readonly ToolCall[],
): readonly ReplyPart[] {
  const ids = toolCalls.map(({ callId }) => callId);
  return parts.map((part) => {
    if (part.type !== "call") return part;
    return { ...part, callId: ids.shift() ?? part.callId };
  });
}

/** Returns true if the parts name exactly these calls, in order. */
function hasSameCalls(parts: readonly ReplyPart[], toolCalls: readonly ToolCall[]): boolean {
  const named = parts.flatMap((part) => (part.type === "call" ? [part.callId] : []));
  const isSame = named.every((callId, index) => callId === toolCalls[index]?.callId);
  return isSame && named.length === toolCalls.length;
}

/**
 * Returns the parts of a message as pieces. `hasText` means that the parts cover the whole text.
 * Otherwise the text, without data, takes the place of the first text part, or the end.
 */
function toPieces(
  { text, toolCalls }: AssistantMessage,
  parts: readonly ReplyPart[],
  hasText: boolean,
): readonly ReplyPiece[] {
  const calls = toolCalls.values();
  let from = 0;
  const pieces = parts.flatMap((part): readonly ReplyPiece[] => {
    switch (part.type) {
      case "text": {
        const { type, length, data } = part;
        const partText = hasText ? text.slice(from, from + length) : text.slice(from);
        from += partText.length;
        if (!hasText) return partText === "" ? [] : [{ type, text: partText }];
        return [{ type, text: partText, ...(data === undefined ? {} : { data }) }];
      }
      case "call": {
        const { value: call } = calls.next();
        return call === undefined ? [] : [{ ...part, ...call }];
      }
      case "reasoning":
      case "opaque":
        return [part];
      default:
        return []; // A part of a later release.
    }
  });
  return from < text.length ? [...pieces, { type: "text", text: text.slice(from) }] : pieces;
}
