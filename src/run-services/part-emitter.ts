// PartEmitter: the live output of the agents of a run, and its listeners. Owns the emitted text of
// each reply in progress, so that the parts add up to the reply. `orchestrator/run/run-iterators.ts`
// creates the parts of earlier replies for a late reader.

import { callListener } from "../kernel/warn-once.ts";
import type { FinishReason } from "../protocol/finish-reason.ts";
import type { AgentId, CallId } from "../protocol/ids.ts";
import type { AssistantMessage } from "../protocol/message.ts";
import type {
  ModelDelta,
  StreamPartBody,
  StreamPartSource,
  ResetReason,
  StreamPart,
} from "../protocol/stream-part.ts";
import { getReplyPieces } from "../protocol/reply-message.ts";

export type StreamPartListener = (piece: StreamPart) => void;

const NONE: readonly never[] = Object.freeze([]);

/** The reply is emitted from its beginning, for a reader that joined late. */
export const JOINED = { type: "reset", reason: "joined", characters: 0 } as const;

/** Emits nothing of replies in progress while nobody listens. Methods never throw. */
export class PartEmitter {
  #listeners: readonly StreamPartListener[] = NONE;
  /** The reply in progress of each agent, or its last reply that was dropped. */
  readonly #replies = new Map<AgentId, OpenReply>();
  #seq = 0;

  get hasListeners(): boolean {
    return this.#listeners.length > 0;
  }

  /** Adds a listener for pieces from now on. Returns a function that removes the listener. */
  subscribe(listener: StreamPartListener): () => void {
    this.#listeners = [...this.#listeners, listener];
    return () => {
      this.#listeners = this.#listeners.filter((candidate) => candidate !== listener);
    };
  }

  /** Continues the sequence numbers of an earlier part of the run. */
  follow(before: PartEmitter): void {
    this.#seq = before.#seq;
  }

  /** Emits a delta of the model for the reply of a step. */
  emitDelta(source: StreamPartSource, delta: ModelDelta): void {
    if (delta.type === "reset") return this.reset(source, delta.reason);
    if ("text" in delta && delta.text === "") return;
    const reply = this.#getReply(source);
    switch (delta.type) {
      case "call": {
        const { callId, toolName } = delta;
        reply.calls.set(delta.index, { callId, toolName, argumentsText: "" });
        break;
      }
      case "arguments": {
        const call = reply.calls.get(delta.index);
        if (call !== undefined) call.argumentsText += delta.text;
        break;
      }
      default:
        reply[delta.type] += delta.text;
    }
    this.emit(source, delta);
  }

  /**
   * Emits that the emitted part of the reply is void. The reply is emitted again from its
   * beginning.
   */
  reset(source: StreamPartSource, reason: ResetReason): void {
    const reply = this.#replies.get(source.agentId);
    const characters = reply === undefined ? 0 : countCharacters(reply);
    if (characters === 0 && reason !== "recovered") return;
    this.#replies.set(source.agentId, openReply(source));
    this.emit(source, { type: "reset", reason, characters });
  }

  /**
   * Emits the rest of a complete reply. If the reply differs from the emitted text, emits a reset
   * first.
   */
  emitRest(source: StreamPartSource, message: AssistantMessage): void {
    const came = asReply(message);
    if (!isAppendOnlyReply(this.#getReply(source), came)) this.reset(source, "replaced");
    for (const body of diffReply(came, this.#getReply(source))) this.emitDelta(source, body);
  }

  /** Emits the rest of a reply that is final, and its end. */
  end(source: StreamPartSource, message: AssistantMessage, finishReason: FinishReason): void {
    if (this.#replies.get(source.agentId)?.source.stepId !== source.stepId) {
      if (!this.hasListeners) return;
      this.emit(source, JOINED); // The listeners subscribed after the reply was complete, or received the reply before a crash.
    }
    this.emitRest(source, message);
    this.#replies.delete(source.agentId);
    this.emit(source, { type: "end", finishReason });
  }

  /** Forgets the reply of an agent that has settled, since the agent's state contains it. */
  forgetReply(agentId: AgentId): void {
    this.#replies.delete(agentId);
  }

  /** Sequence number of the last piece. */
  get seq(): number {
    return this.#seq;
  }

  /** Returns the reply in progress of an agent, or its last reply that was dropped. */
  findReply(agentId: AgentId): OpenReply | undefined {
    return this.#replies.get(agentId);
  }

  #getReply(source: StreamPartSource): OpenReply {
    const known = this.#replies.get(source.agentId);
    if (known?.source.stepId === source.stepId) return known;
    const reply = openReply(source);
    this.#replies.set(source.agentId, reply);
    return reply;
  }

  /** Emits a part that does not change the text of the reply, such as a result. */
  emit(source: StreamPartSource, body: StreamPartBody): void {
    this.#seq += 1;
    if (!this.hasListeners) return;
    const piece: StreamPart = Object.freeze({ ...source, seq: this.#seq, ...body });
    for (const listener of this.#listeners) deliverPiece(listener, piece);
  }
}

/** Calls a listener. An error in the listener does not affect the run (E2). */
function deliverPiece(listener: StreamPartListener, piece: StreamPart): void {
  callListener(
    listener,
    () => listener(piece),
    (why) => `A listener of stream parts threw (${why}); the run continues.`,
  );
}

interface SaidCall {
  readonly callId: CallId;
  readonly toolName: string;
  argumentsText: string;
}

/** The streamed content of a reply: texts and calls, as far as readers need them. */
export interface StreamedContent {
  reasoning: string;
  text: string;
  refusal: string;
  /** By index, since a model may stream a later call first. */
  calls: Map<number, SaidCall>;
}

/** A reply in progress. */
interface OpenReply extends StreamedContent {
  readonly source: StreamPartSource;
}

const NOTHING_SAID: StreamedContent = { reasoning: "", text: "", refusal: "", calls: new Map() };

function openReply(source: StreamPartSource): OpenReply {
  return { ...NOTHING_SAID, source, calls: new Map() };
}

/** Returns the streamed content of a complete reply. */
export function asReply(message: AssistantMessage): StreamedContent {
  const { text, refusal = "", toolCalls } = message;
  const reasoning = getReplyPieces(message)
    .map((piece) => (piece.type === "reasoning" ? piece.text : ""))
    .join("");
  const calls = new Map(toolCalls.map((call, index) => [index, { ...call }]));
  return { reasoning, text, refusal, calls };
}

function countCharacters({ reasoning, text, refusal, calls }: StreamedContent): number {
  let ofCalls = 0;
  for (const call of calls.values()) ofCalls += call.toolName.length + call.argumentsText.length;
  return reasoning.length + text.length + refusal.length + ofCalls;
}

/**
 * Returns true if a complete reply extends the streamed part. Arguments and reasoning are not
 * compared, because the model may change them.
 */
function isAppendOnlyReply(
  streamed: StreamedContent,
  { text, refusal, calls }: StreamedContent,
): boolean {
  if (!text.startsWith(streamed.text) || !refusal.startsWith(streamed.refusal)) return false;
  return [...streamed.calls].every(([index, { callId, toolName }]) => {
    const call = calls.get(index);
    return call?.callId === callId && call.toolName === toolName;
  });
}

type ReplyPieceBody = Exclude<ModelDelta, { readonly type: "reset" }>;

/** Returns the deltas of the part of a reply that was not streamed. */
export function diffReply(
  reply: StreamedContent,
  streamed = NOTHING_SAID,
): readonly ReplyPieceBody[] {
  const pieces: ReplyPieceBody[] = [];
  if (streamed.reasoning === "") pieces.push({ type: "reasoning", text: reply.reasoning });
  pieces.push({ type: "text", text: reply.text.slice(streamed.text.length) });
  pieces.push({ type: "refusal", text: reply.refusal.slice(streamed.refusal.length) });
  for (const [index, { callId, toolName, argumentsText }] of reply.calls) {
    const known = streamed.calls.get(index);
    if (known === undefined) pieces.push({ type: "call", index, callId, toolName });
    if (known === undefined || known.argumentsText === "")
      pieces.push({ type: "arguments", index, text: argumentsText });
  }
  return pieces.filter((piece) => !("text" in piece) || piece.text !== "");
}
