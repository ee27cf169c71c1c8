// What agents have said so far, for a reader of pieces that was not there. It is made of their states,
// of which a step is part once a phase is over, and of what has come since.

import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { isUseless, type StepReply } from "../../agent/agent-state.ts";
import { defined } from "../../kernel/json.ts";
import { FinishReasonSchema } from "../../protocol/finish-reason.ts";
import type { StepRecord } from "../../protocol/step-record.ts";
import {
  resultBody,
  type PieceBody,
  type PieceSource,
  type StreamPiece,
} from "../../protocol/stream-piece.ts";
import { JOINED, listPieces, makeReply, type LivePieces } from "../../run-services/live-pieces.ts";

/** A step of which something was said. */
interface SaidStep {
  readonly source: PieceSource;
  /** Infinity: it has only begun. */
  readonly startedAtMs: number;
  /** Makes the pieces of the step, when they are read. */
  readonly bodies: () => readonly PieceBody[];
}

/**
 * Returns a reader of what these agents have said so far in their present executions: each step once,
 * in the order in which they began. Returns `undefined` if they have said nothing.
 */
export function readPastPieces(
  pieces: LivePieces,
  agents: readonly AgentRuntime[],
): AsyncGenerator<StreamPiece, undefined> | undefined {
  const { sequence } = pieces;
  const steps = agents.flatMap((agent) => [...listSaidSteps(agent, pieces)]);
  if (steps.length === 0) return undefined;
  const ordered = steps.toSorted((one, other) => one.startedAtMs - other.startedAtMs);
  return makePieces();

  async function* makePieces(): AsyncGenerator<StreamPiece, undefined> {
    for (const { source, bodies } of ordered)
      for (const body of [JOINED, ...bodies()])
        yield Object.freeze({ ...source, sequence, ...body });
    return undefined;
  }
}

/**
 * Yields what an agent has said in its present execution: what its state has, and what has come since.
 * Of a reply that was thrown away, or never came, it yields nothing: a reader that had a part of it
 * drops that.
 */
function* listSaidSteps(agent: AgentRuntime, pieces: LivePieces): Generator<SaidStep, void> {
  const { log, step } = agent.currentState;
  const underWay = pieces.findReply(agent.identity.agentId);
  for (const record of log.steps) {
    const { stepId, number: stepNumber, telemetry } = record;
    yield {
      source: agent.pieceSource({ stepId, stepNumber }),
      startedAtMs: telemetry.startedAtMs,
      bodies: () => listRecordedPieces(record),
    };
  }
  const last = log.steps.at(-1)?.stepId;
  if (
    step?.reply !== undefined &&
    step.stepId !== last &&
    step.stepId !== underWay?.source.stepId
  ) {
    const { stepId, number: stepNumber, startedAtMs, reply } = step;
    // Results that have come since the state was noted are among them.
    const results = [...step.executions, ...(agent.endedCalls ?? [])].map(resultBody);
    const bodies = (): readonly PieceBody[] => [...listReplyPieces(reply), ...results];
    yield { source: agent.pieceSource({ stepId, stepNumber }), startedAtMs, bodies };
  }
  if (underWay === undefined || underWay.source.stepId === last) return;
  const bodies = listPieces(underWay); // At once: more of it is emitted meanwhile.
  yield { source: underWay.source, startedAtMs: Infinity, bodies: () => bodies };
}

function listRecordedPieces({ io, tools }: StepRecord): readonly PieceBody[] {
  const { text, refusal } = io;
  const { calls: toolCalls, executions } = tools;
  const message = { role: "assistant", text, toolCalls, ...defined({ refusal }) } as const;
  const finishReason = FinishReasonSchema.catch("unknown").parse(io.finishReason);
  return [...listReplyPieces({ message, finishReason }), ...executions.map(resultBody)];
}

/** Returns the pieces of a whole reply: none of one that says nothing. */
function listReplyPieces(reply: StepReply): readonly PieceBody[] {
  if (isUseless(reply)) return [];
  const { message, finishReason } = reply;
  return [...listPieces(makeReply(message)), { type: "end", finishReason }];
}
