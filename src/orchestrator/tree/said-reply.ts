// What was said of a reply, as far as it matters to a reader: texts and calls; and the pieces that are missing of it.

import type { CallId } from "../../protocol/ids.ts";
import type { AssistantMessage } from "../../protocol/message.ts";
import type { ModelDelta, PieceSource } from "../../protocol/stream-piece.ts";
import { replyPieces } from "../../protocol/reply-message.ts";

interface SaidCall {
  readonly callId: CallId;
  readonly toolName: string;
  argumentsText: string;
}

/** A reply that is under way. */
export interface SaidReply {
  readonly source: PieceSource;
  reasoning: string;
  text: string;
  refusal: string;
  /** By their index: a model may say a later one first. */
  calls: Map<number, SaidCall>;
}

export function emptyReply(source: PieceSource): SaidReply {
  return { source, reasoning: "", text: "", refusal: "", calls: new Map() };
}

/** A reply as it is when nothing more is said of it. */
export function cameAs(source: PieceSource, message: AssistantMessage): SaidReply {
  const { text, refusal = "", toolCalls } = message;
  const reasoning = replyPieces(message)
    .map((piece) => (piece.type === "reasoning" ? piece.text : ""))
    .join("");
  const calls = new Map(toolCalls.map((call, index) => [index, { ...call }]));
  return { source, reasoning, text, refusal, calls };
}

export function lengthOf({ reasoning, text, refusal, calls }: SaidReply): number {
  let ofCalls = 0;
  for (const call of calls.values()) ofCalls += call.toolName.length + call.argumentsText.length;
  return reasoning.length + text.length + refusal.length + ofCalls;
}

/** True if a reply only adds to what was said of it. Arguments may come to be others, and reasoning is not always kept as it came. */
export function isSaidBy(said: SaidReply, came: SaidReply): boolean {
  const { text, refusal, calls } = came;
  if (!text.startsWith(said.text) || !refusal.startsWith(said.refusal)) return false;
  return [...said.calls].every(([index, { callId, toolName }]) => {
    const call = calls.get(index);
    return call?.callId === callId && call.toolName === toolName;
  });
}

type ReplyPieceBody = Exclude<ModelDelta, { readonly type: "reset" }>;

/** All of a reply that was not said. */
export function piecesOf(
  came: SaidReply,
  said = emptyReply(came.source),
): readonly ReplyPieceBody[] {
  const pieces: ReplyPieceBody[] = [];
  if (said.reasoning === "") pieces.push({ type: "reasoning", text: came.reasoning });
  pieces.push({ type: "text", text: came.text.slice(said.text.length) });
  pieces.push({ type: "refusal", text: came.refusal.slice(said.refusal.length) });
  for (const [index, { callId, toolName, argumentsText }] of came.calls) {
    const known = said.calls.get(index);
    if (known === undefined) pieces.push({ type: "call", index, callId, toolName });
    if (known === undefined || known.argumentsText === "")
      pieces.push({ type: "arguments", index, text: argumentsText });
  }
  return pieces.filter((piece) => !("text" in piece) || piece.text !== "");
}
