// LivePieces: the live output of the agents of a run, and its listeners. Owns what was emitted of each reply under
// way, so that the pieces add up to the reply. What has ended, a late reader is shown from the states of the agents.

import { callListener } from "../../kernel/warn-once.ts";
import type { Pieces } from "../../agent/run-ports.ts";
import type { FinishReason } from "../../protocol/finish-reason.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { AssistantMessage } from "../../protocol/message.ts";
import type {
  ModelDelta,
  PieceBody,
  PieceSource,
  ResetReason,
  ResultBody,
  StreamPiece,
} from "../../protocol/stream-piece.ts";
import { cameAs, emptyReply, isSaidBy, lengthOf, piecesOf, type SaidReply } from "./said-reply.ts";
import { JOINED, saidSteps } from "./said-steps.ts";

export type PieceListener = (piece: StreamPiece) => void;

const NONE: readonly never[] = Object.freeze([]);

export class LivePieces implements Pieces {
  #listeners: readonly PieceListener[] = NONE;
  /** The reply of each agent that is under way, or the last one that came to nothing. */
  readonly #replies = new Map<AgentId, SaidReply>();
  #sequence = 0;

  get isHeard(): boolean {
    return this.#listeners.length > 0;
  }

  /** Adds a listener for pieces from now on; the returned function removes it. */
  subscribe(listener: PieceListener): () => void {
    this.#listeners = [...this.#listeners, listener];
    return () => (this.#listeners = this.#listeners.filter((one) => one !== listener));
  }

  /** Continues the numbers of the pieces that the run had before. */
  follow(before: LivePieces): void {
    this.#sequence = before.#sequence;
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
    if (this.#replies.get(source.agentId)?.source.stepId !== source.stepId) {
      if (!this.isHeard) return;
      this.#emit(source, JOINED); // The listeners came after it was made, or had it before a crash.
    }
    this.arrived(source, message);
    this.#replies.delete(source.agentId);
    this.#emit(source, { type: "end", finishReason });
  }

  drop(source: PieceSource, reason: ResetReason): void {
    this.reset(source, reason); // It stays, empty: a reader that reconnects has to drop what it had of it.
  }

  result(source: PieceSource, body: ResultBody): void {
    this.#emit(source, body);
  }

  settled(agentId: AgentId): void {
    this.#replies.delete(agentId);
  }

  /**
   * What these agents have said so far in their present executions: each step once, in the order in which they began. Made into pieces when it
   * is read: what is not, takes no room besides that of the states.
   */
  soFar(agents: readonly AgentRuntime[]): readonly (() => readonly StreamPiece[])[] {
    const sequence = this.#sequence;
    const steps = agents.flatMap((agent) => [
      ...saidSteps(agent, this.#replies.get(agent.identity.agentId)),
    ]);
    return steps
      .toSorted((one, other) => one.startedAtMs - other.startedAtMs)
      .map(({ source, bodies }) => (): readonly StreamPiece[] => {
        const whose = source();
        return [JOINED, ...bodies()].map((body) => Object.freeze({ ...whose, sequence, ...body }));
      });
  }

  #replyOf(source: PieceSource): SaidReply {
    const known = this.#replies.get(source.agentId);
    if (known?.source.stepId === source.stepId) return known;
    const reply = emptyReply(source);
    this.#replies.set(source.agentId, reply);
    return reply;
  }

  #emit(source: PieceSource, body: PieceBody): void {
    this.#sequence += 1;
    if (!this.isHeard) return;
    const piece: StreamPiece = Object.freeze({ ...source, sequence: this.#sequence, ...body });
    for (const listener of this.#listeners) hand(listener, piece);
  }
}

/** A listener that throws harms no run (E2). */
function hand(listener: PieceListener, piece: StreamPiece): void {
  callListener(
    listener,
    () => listener(piece),
    (why) => `A listener to pieces threw (${why}); the run continues.`,
  );
}
