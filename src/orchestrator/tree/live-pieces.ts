// LivePieces: the live output of the agents of a run, and its listeners. Owns what was emitted of each reply under way, so that the pieces
// add up to the reply, and of each step that is not in the state of its agent yet, so that a late reader misses nothing.

import { callListener } from "../../kernel/call-listener.ts";
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
import { JOINED, saidSteps, type LatestStep } from "./said-steps.ts";

export type PieceListener = (piece: StreamPiece) => void;

const NONE: readonly never[] = Object.freeze([]);

/** What an agent says. */
interface Saying {
  /** Of the reply that is under way, or of the last one that came to nothing. */
  reply: SaidReply | undefined;
  /** Of its step, which is not in its state yet. */
  latest: LatestStep | undefined;
}

export class LivePieces implements Pieces {
  #listeners: readonly PieceListener[] = NONE;
  /** Of agents that have not settled. Made when the first has said something: runs that wait have none. */
  #sayings: Map<AgentId, Saying> | undefined;
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
    const said = this.#sayings?.get(source.agentId)?.reply;
    const characters = said === undefined ? 0 : lengthOf(said);
    if (characters === 0 && reason !== "recovered") return;
    this.#sayingOf(source).reply = emptyReply(source);
    this.#emit(source, { type: "reset", reason, characters });
  }

  arrived(source: PieceSource, message: AssistantMessage): void {
    const came = cameAs(source, message);
    if (!isSaidBy(this.#replyOf(source), came)) this.reset(source, "replaced");
    const said = this.#replyOf(source);
    for (const body of piecesOf(came, said)) this.take(source, body);
  }

  end(source: PieceSource, message: AssistantMessage, finishReason: FinishReason): void {
    const saying = this.#sayingOf(source);
    saying.latest = { source, reply: { message, finishReason }, results: [] };
    if (saying.reply?.source.stepId !== source.stepId) {
      if (!this.isHeard) return;
      this.#emit(source, JOINED); // The listeners came after it was made, or had it before a crash.
    }
    this.arrived(source, message);
    saying.reply = undefined;
    this.#emit(source, { type: "end", finishReason });
  }

  drop(source: PieceSource, reason: ResetReason): void {
    this.reset(source, reason); // It stays, empty: a reader that reconnects has to drop what it had of it.
    const saying = this.#sayings?.get(source.agentId);
    if (saying !== undefined) saying.latest = undefined; // A step before this one: it is in the state.
  }

  result(source: PieceSource, body: ResultBody): void {
    const saying = this.#sayingOf(source);
    const { latest } = saying;
    if (latest?.source.stepId === source.stepId) latest.results.push(body);
    else saying.latest = { source, reply: undefined, results: [body] };
    this.#emit(source, body);
  }

  settled(agentId: AgentId): void {
    this.#sayings?.delete(agentId);
  }

  /**
   * What these agents have said so far in their present executions: each step once, in the order in which they began. Made into pieces when it
   * is read: what is not, takes no room besides that of the states.
   */
  soFar(agents: readonly AgentRuntime[]): readonly (() => readonly StreamPiece[])[] {
    const sequence = this.#sequence;
    const steps = agents.flatMap((agent) => {
      const { latest, reply } = this.#sayings?.get(agent.identity.agentId) ?? NOTHING_SAID;
      return [...saidSteps(agent, latest, reply)];
    });
    return steps
      .toSorted((one, other) => one.startedAtMs - other.startedAtMs)
      .map(({ source, bodies }) => (): readonly StreamPiece[] => {
        const whose = source();
        return [JOINED, ...bodies()].map((body) => Object.freeze({ ...whose, sequence, ...body }));
      });
  }

  #replyOf(source: PieceSource): SaidReply {
    const saying = this.#sayingOf(source);
    const { reply } = saying;
    return reply?.source.stepId === source.stepId ? reply : (saying.reply = emptyReply(source));
  }

  #sayingOf({ agentId }: PieceSource): Saying {
    const sayings = (this.#sayings ??= new Map<AgentId, Saying>());
    const saying = sayings.get(agentId) ?? { ...NOTHING_SAID };
    sayings.set(agentId, saying);
    return saying;
  }

  #emit(source: PieceSource, body: PieceBody): void {
    this.#sequence += 1;
    if (!this.isHeard) return;
    const piece: StreamPiece = Object.freeze({ ...source, sequence: this.#sequence, ...body });
    for (const listener of this.#listeners) hand(listener, piece);
  }
}

const NOTHING_SAID: Readonly<Saying> = { reply: undefined, latest: undefined };

/** A listener that throws harms no run (E2). */
function hand(listener: PieceListener, piece: StreamPiece): void {
  callListener(
    listener,
    () => listener(piece),
    (why) => `A listener to pieces threw (${why}); the run continues.`,
  );
}
