// What an agent has said so far, for a reader of pieces that was not there: made of its state, of which a step is part once a phase is over, and
// of what has come since.

import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { isUseless, type OpenStep, type StepReply } from "../../agent/agent-state.ts";
import { defined } from "../../kernel/json.ts";
import { FinishReasonSchema } from "../../protocol/finish-reason.ts";
import type { StepId } from "../../protocol/ids.ts";
import type { StepRecord } from "../../protocol/step-record.ts";
import { resultBody, type PieceBody, type PieceSource } from "../../protocol/stream-piece.ts";
import { cameAs, piecesOf, type SaidReply } from "./said-reply.ts";

/** What follows is emitted from its beginning, for a reader that was not there. */
export const JOINED = { type: "reset", reason: "joined", characters: 0 } as const;

/** A step of which something was said. */
export interface SaidStep {
  readonly stepId: StepId;
  /** Infinity: it has only begun. */
  readonly startedAtMs: number;
  readonly source: () => PieceSource;
  readonly bodies: () => readonly PieceBody[];
}

/**
 * What an agent has said in its present execution, step by step: what its state has, and what has come since. Of a reply that was thrown away,
 * or never came, nothing: a reader that had a part of it drops that.
 */
export function* saidSteps(
  agent: AgentRuntime,
  underWay: SaidReply | undefined,
): Generator<SaidStep, void> {
  const { log, step } = agent.currentState;
  for (const record of log.steps) yield recordedStep(agent, record);
  const last = log.steps.at(-1)?.stepId;
  const open = unrecordedStep(agent, step);
  if (open !== undefined && open.stepId !== last && open.stepId !== underWay?.source.stepId)
    yield open;
  if (underWay === undefined || underWay.source.stepId === last) return;
  const { source } = underWay;
  const { stepId } = source;
  const bodies = piecesOf(underWay); // At once: more of it is emitted meanwhile.
  yield { stepId, startedAtMs: Infinity, source: () => source, bodies: () => bodies };
}

function recordedStep(agent: AgentRuntime, record: StepRecord): SaidStep {
  const { stepId, number: stepNumber, io, tools, telemetry } = record;
  const source = (): PieceSource => agent.pieceSource({ stepId, stepNumber });
  const bodies = (): readonly PieceBody[] => {
    const { text, refusal } = io;
    const { calls: toolCalls, executions } = tools;
    const message = { role: "assistant", text, toolCalls, ...defined({ refusal }) } as const;
    const finishReason = FinishReasonSchema.catch("unknown").parse(io.finishReason);
    return [...wholeReply(source(), { message, finishReason }), ...executions.map(resultBody)];
  };
  return { stepId, startedAtMs: telemetry.startedAtMs, source, bodies };
}

/** The step of an agent that is not completed. Results that have come since its state was noted are among it. */
function unrecordedStep(agent: AgentRuntime, step: OpenStep | undefined): SaidStep | undefined {
  if (step?.reply === undefined) return undefined;
  const { stepId, number: stepNumber, startedAtMs, reply } = step;
  const results = [...step.executions, ...(agent.endedCalls ?? [])].map(resultBody);
  const source = (): PieceSource => agent.pieceSource({ stepId, stepNumber });
  const bodies = (): readonly PieceBody[] => [...wholeReply(source(), reply), ...results];
  return { stepId, startedAtMs, source, bodies };
}

/** Of one that says nothing: nothing. */
function wholeReply(source: PieceSource, reply: StepReply): readonly PieceBody[] {
  if (isUseless(reply)) return [];
  const { message, finishReason } = reply;
  return [...piecesOf(cameAs(source, message)), { type: "end", finishReason }];
}
