// The message that the pieces of a reply make: for adapters, so that none of them counts characters. Pure.

import type { AssistantMessage, ProviderData, ReplyPart, ToolCall } from "./message.ts";

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
export function partsOf(pieces: readonly ReplyPiece[]): readonly ReplyPart[] | undefined {
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
