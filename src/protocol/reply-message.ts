// The message that the pieces of a reply make: for adapters, so that none of them counts characters. Pure.

import type { AssistantMessage, ProviderData, ReplyPart, ToolCall } from "./message.ts";
import type { CallId } from "./ids.ts";

/** A piece of a reply. `data`: what must go back to the provider with it, and only to the model that wrote it. */
export type ReplyPiece =
  | { readonly type: "reasoning"; readonly text: string; readonly data?: ProviderData | undefined }
  | { readonly type: "text"; readonly text: string; readonly data?: ProviderData | undefined }
  | ({ readonly type: "call"; readonly data?: ProviderData | undefined } & ToolCall)
  /** Something of the provider's own, such as a call that it ran itself; `kind` is the adapter's word for it. */
  | { readonly type: "opaque"; readonly kind: string; readonly data: ProviderData };

/**
 * The message that a reply's pieces make. `text` is that of all text pieces together. A reply of nothing but a text and calls after it
 * has no `parts`.
 */
export function replyMessage(pieces: readonly ReplyPiece[]): AssistantMessage {
  const kept = joined(pieces);
  const toolCalls: ToolCall[] = [];
  let text = "";
  for (const piece of kept) {
    if (piece.type === "text") text += piece.text;
    if (piece.type === "call") toolCalls.push(callOf(piece));
  }
  const message = { role: "assistant", text, toolCalls: Object.freeze(toolCalls) } as const;
  const parts = partsOf(kept);
  return Object.freeze(parts === undefined ? message : { ...message, parts });
}

/** Text pieces without data that stand side by side are one; pieces that hold nothing are none. */
function joined(pieces: readonly ReplyPiece[]): readonly ReplyPiece[] {
  const kept: ReplyPiece[] = [];
  for (const piece of pieces) {
    const isSaid = piece.type === "text" || piece.type === "reasoning";
    if (!isSaid || piece.data !== undefined) {
      kept.push(piece);
      continue;
    }
    const last = kept.at(-1);
    if (last?.type === piece.type && last.data === undefined)
      kept[kept.length - 1] = { type: piece.type, text: last.text + piece.text };
    else if (piece.text !== "") kept.push(piece);
  }
  return kept;
}

/** Undefined: there is nothing to keep but a text and calls after it. */
function partsOf(pieces: readonly ReplyPiece[]): readonly ReplyPart[] | undefined {
  return pieces.every(isPlain) ? undefined : Object.freeze(pieces.map(partOf));
}

function isPlain({ type, data }: ReplyPiece, index: number): boolean {
  return data === undefined && (type === "call" || (type === "text" && index === 0));
}

function partOf(piece: ReplyPiece): ReplyPart {
  const data = piece.data === undefined ? {} : { data: piece.data };
  switch (piece.type) {
    case "reasoning":
      return Object.freeze({ type: piece.type, text: piece.text, ...data });
    case "text":
      return Object.freeze({ type: piece.type, length: piece.text.length, ...data });
    case "call":
      return Object.freeze({ type: piece.type, callId: piece.callId, ...data });
    case "opaque":
      return Object.freeze({ type: piece.type, kind: piece.kind, data: piece.data });
  }
}

function callOf({ callId, toolName, argumentsText }: ToolCall): ToolCall {
  return Object.freeze({ callId, toolName, argumentsText });
}

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
