// LivePieces: what the agents of a run say while they say it, and who listens. Owns what was said of each reply that is under way, so that a
// late listener misses nothing of it, and so that what was said is what the reply comes to.

import { messageOf } from "../../kernel/error.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import type { Pieces } from "../../agent/run-ports.ts";
import type { FinishReason } from "../../protocol/finish-reason.ts";
import type { AgentId, CallId } from "../../protocol/ids.ts";
import type { AssistantMessage } from "../../protocol/message.ts";
import { replyPieces } from "../../protocol/reply-pieces.ts";
import type {
  ModelDelta,
  PieceBody,
  PieceSource,
  ResetReason,
  StreamPiece,
} from "../../protocol/stream-piece.ts";

export type PieceListener = (piece: StreamPiece) => void;

interface SaidCall {
  readonly callId: CallId;
  readonly toolName: string;
  argumentsText: string;
}

/** A reply that is under way. */
interface SaidReply {
  readonly source: PieceSource;
  reasoning: string;
  text: string;
  refusal: string;
  /** By their index: a model may say a later one first. */
  calls: Map<number, SaidCall>;
}

export class LivePieces implements Pieces {
  #listeners: readonly PieceListener[] = [];
  readonly #replies = new Map<AgentId, SaidReply>();
  #sequence = 0;

  get isHeard(): boolean {
    return this.#listeners.length > 0;
  }

  /** Adds a listener, which is told at once what was said of replies that are under way; the returned function takes it away again. */
  subscribe(listener: PieceListener): () => void {
    for (const said of this.#replies.values()) {
      const reset = { type: "reset", reason: "joined", characters: 0 } as const;
      for (const body of [reset, ...piecesOf(said)])
        hand(listener, { ...said.source, sequence: this.#sequence, ...body });
    }
    this.#listeners = [...this.#listeners, listener];
    return () => (this.#listeners = this.#listeners.filter((one) => one !== listener));
  }

  take(source: PieceSource, delta: ModelDelta): void {
    if (delta.type === "reset") return this.reset(source, delta.reason);
    if ("text" in delta && delta.text === "") return;
    const said = this.#replyOf(source);
    switch (delta.type) {
      case "call": {
        const { callId, toolName } = delta;
        said.calls.set(delta.index, { callId, toolName, argumentsText: "" });
        break;
      }
      case "arguments": {
        const call = said.calls.get(delta.index);
        if (call !== undefined) call.argumentsText += delta.text;
        break;
      }
      default:
        said[delta.type] += delta.text;
    }
    this.#emit(source, delta);
  }

  reset(source: PieceSource, reason: ResetReason): void {
    const said = this.#replies.get(source.agentId);
    const characters = said === undefined ? 0 : lengthOf(said);
    if (characters === 0 && reason !== "recovered") return;
    this.#replies.set(source.agentId, emptyReply(source));
    this.#emit(source, { type: "reset", reason, characters });
  }

  arrived(source: PieceSource, message: AssistantMessage): void {
    const came = cameAs(source, message);
    if (!isSaidBy(this.#replyOf(source), came)) this.reset(source, "replaced");
    const said = this.#replyOf(source);
    for (const body of piecesOf(came, said)) this.take(source, body);
  }

  end(source: PieceSource, message: AssistantMessage, finishReason: FinishReason): void {
    if (!this.#replies.has(source.agentId)) return;
    this.arrived(source, message);
    this.#replies.delete(source.agentId);
    this.#emit(source, { type: "end", finishReason });
  }

  drop(source: PieceSource, reason: ResetReason): void {
    this.reset(source, reason);
    this.#replies.delete(source.agentId);
  }

  result(source: PieceSource, body: Extract<PieceBody, { readonly type: "result" }>): void {
    this.#emit(source, body);
  }

  #replyOf(source: PieceSource): SaidReply {
    const said = this.#replies.get(source.agentId) ?? emptyReply(source);
    this.#replies.set(source.agentId, said);
    return said;
  }

  #emit(source: PieceSource, body: PieceBody): void {
    this.#sequence += 1;
    if (!this.isHeard) return;
    const piece: StreamPiece = Object.freeze({ ...source, sequence: this.#sequence, ...body });
    for (const listener of this.#listeners) hand(listener, piece);
  }
}

function emptyReply(source: PieceSource): SaidReply {
  return { source, reasoning: "", text: "", refusal: "", calls: new Map() };
}

/** A reply as it is when nothing more is said of it. */
function cameAs(source: PieceSource, message: AssistantMessage): SaidReply {
  const { text, refusal = "", toolCalls } = message;
  const reasoning = replyPieces(message)
    .map((piece) => (piece.type === "reasoning" ? piece.text : ""))
    .join("");
  const calls = new Map(toolCalls.map((call, index) => [index, { ...call }]));
  return { source, reasoning, text, refusal, calls };
}

function lengthOf({ reasoning, text, refusal, calls }: SaidReply): number {
  let ofCalls = 0;
  for (const call of calls.values()) ofCalls += call.toolName.length + call.argumentsText.length;
  return reasoning.length + text.length + refusal.length + ofCalls;
}

/** True if a reply only adds to what was said of it. Arguments may come to be others, and reasoning is not always kept as it came. */
function isSaidBy(said: SaidReply, came: SaidReply): boolean {
  const { text, refusal, calls } = came;
  if (!text.startsWith(said.text) || !refusal.startsWith(said.refusal)) return false;
  return [...said.calls].every(([index, { callId, toolName }]) => {
    const call = calls.get(index);
    return call?.callId === callId && call.toolName === toolName;
  });
}

type ReplyPieceBody = Exclude<ModelDelta, { readonly type: "reset" }>;

/** All of a reply that was not said. */
function piecesOf(came: SaidReply, said = emptyReply(came.source)): readonly ReplyPieceBody[] {
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

/** A listener that throws harms no run (E2). */
function hand(listener: PieceListener, piece: StreamPiece): void {
  try {
    listener(piece);
  } catch (cause) {
    warnOnce(listener, `A listener to pieces threw (${messageOf(cause)}); the run continues.`);
  }
}
