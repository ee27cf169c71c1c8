// A message as the pieces that made it: for adapters, so that none of them counts characters. Pure. Whatever hooks and repairs have made
// of a message since, its pieces say what its text and its calls say now.

import type { CallId } from "./ids.ts";
import type { AssistantMessage, ReplyPart, ToolCall } from "./message.ts";
import { partsOf, type ReplyPiece } from "./reply-message.ts";

/**
 * The pieces of a message, in order; those of a message without parts are its text and its calls. A message that was changed since:
 * another text stands without data where the first text was, or else at the end; other calls leave nothing but text and calls, as does
 * reasoning with nothing behind it, which no provider takes back.
 */
export function replyPieces(message: AssistantMessage): readonly ReplyPiece[] {
  const { text, toolCalls, parts } = message;
  if (parts === undefined || !haveCalls(parts, toolCalls)) return plainPieces(message);
  const hasText = parts.reduce((length, part) => length + lengthOf(part), 0) === text.length;
  const pieces = hasText ? piecesInOrder(message, parts) : piecesWithText(message, parts);
  const last = pieces.findLastIndex(({ type }) => type !== "reasoning");
  return last === pieces.length - 1 ? pieces : pieces.slice(0, last + 1);
}

/** A message that was made from another one, with parts that fit what it says now. */
export function partsFitted(message: AssistantMessage, before: AssistantMessage): AssistantMessage {
  if (message.parts === undefined) return message;
  const { parts, writtenBy: _writer, ...plain } = message;
  if (!haveCalls(parts, message.toolCalls)) return plain;
  if (message.text === before.text) return message;
  const fitted = partsOf(piecesWithText(message, parts));
  return fitted === undefined ? plain : { ...message, parts: fitted };
}

/** The parts of a message whose calls have other ids now, by their place. */
export function partsRenamed(
  parts: readonly ReplyPart[],
  toolCalls: readonly ToolCall[],
): readonly ReplyPart[] {
  const ids = toolCalls.map(({ callId }) => callId);
  return parts.map((part) => {
    if (part.type !== "call") return part;
    return { ...part, callId: ids.shift() ?? part.callId };
  });
}

/** True if the parts name just these calls, in their order. */
function haveCalls(parts: readonly ReplyPart[], toolCalls: readonly ToolCall[]): boolean {
  const named = parts.flatMap((part): readonly CallId[] =>
    part.type === "call" ? [part.callId] : [],
  );
  return (
    named.length === toolCalls.length &&
    named.every((callId, index) => callId === toolCalls[index]?.callId)
  );
}

function lengthOf(part: ReplyPart): number {
  return part.type === "text" ? part.length : 0;
}

function plainPieces({ text, toolCalls }: AssistantMessage): readonly ReplyPiece[] {
  const calls = toolCalls.map((call) => ({ type: "call", ...call }) as const);
  return text === "" ? calls : [{ type: "text", text }, ...calls];
}

function piecesInOrder(
  message: AssistantMessage,
  parts: readonly ReplyPart[],
): readonly ReplyPiece[] {
  let from = 0;
  return piecesOf(message, parts, (part) => {
    const text = message.text.slice(from, from + part.length);
    from += part.length;
    return [{ type: "text", text, ...(part.data === undefined ? {} : { data: part.data }) }];
  });
}

function piecesWithText(
  message: AssistantMessage,
  parts: readonly ReplyPart[],
): readonly ReplyPiece[] {
  let rest: readonly ReplyPiece[] =
    message.text === "" ? [] : [{ type: "text", text: message.text }];
  const pieces = piecesOf(message, parts, () => {
    const text = rest;
    rest = [];
    return text;
  });
  return [...pieces, ...rest];
}

type TextPart = Extract<ReplyPart, { readonly type: "text" }>;

function piecesOf(
  { toolCalls }: AssistantMessage,
  parts: readonly ReplyPart[],
  textPieces: (part: TextPart) => readonly ReplyPiece[],
): readonly ReplyPiece[] {
  const calls = toolCalls.values();
  return parts.flatMap((part): readonly ReplyPiece[] => {
    switch (part.type) {
      case "text":
        return textPieces(part);
      case "call": {
        const { value: call } = calls.next();
        return call === undefined ? [] : [{ ...part, ...call }];
      }
      case "reasoning":
      case "opaque":
        return [part];
      default:
        return []; // Of a later release.
    }
  });
}
