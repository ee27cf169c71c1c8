// The last thing that a run does: it says how it ended, or that it is paused, and leaves its result.

import { deepFreeze } from "../kernel/json.ts";
import type { EventBody } from "../protocol/event.ts";
import type { AgentNode } from "./agent-node.ts";
import { pausedRunOf, type PauseFacts } from "./pause-run.ts";
import { runResult, type RunResult } from "./run-result.ts";
import type { RunTree } from "./run-tree.ts";
import type { RunShared } from "./run-shared.ts";

/** How many paused agents were told to end while others were still at work: they have to end before the run rests. */
export function lateEnds({ nodes }: RunTree): number {
  const late = nodes.filter((node) => node.rested?.status === "paused" && node.startSignal.aborted);
  return late.length;
}

/** Records the last event and gives the result. `facts.pauses`: how often the run had been paused before. */
export function concluded(scope: RunShared, root: AgentNode, facts: PauseFacts): RunResult {
  const { tree, ledger, recorder, clock } = scope;
  const place = { ...root.identity, executionId: null, stepId: null, callId: null };
  const { traceId } = facts;
  const atMs = clock.nowMs();
  if (root.hasEnded) {
    const result = runResult(tree, ledger, { traceId, atMs, pausedRun: undefined });
    recorder.record(place, runEnded(result));
    return result;
  }
  for (const node of tree.nodes) node.close();
  const { pauses } = facts;
  const draft = pausedRunOf(scope, { ...facts, pauses: pauses + 1 });
  const result = runResult(tree, ledger, { traceId, atMs, pausedRun: draft });
  const { reason, questions, durationMs } = result;
  const { own, descendants, total } = result.usage;
  recorder.record(place, {
    type: "run.paused",
    reason,
    questions,
    usage: { own, descendants, total },
    durationMs,
  });
  return { ...result, pausedRun: deepFreeze({ ...draft, eventCount: recorder.eventCount }) };
}

function runEnded(result: RunResult): EventBody<"run.ended"> {
  const { status, reason, subagentsByDepth, refusalsByCode, durationMs } = result;
  if (status === "paused") throw new Error("A paused run has not ended.");
  const { own, descendants, total } = result.usage;
  const error = status === "failed" ? result.agents[0]?.errors.at(-1) : undefined;
  const usage = { own, descendants, total };
  const failure = error === undefined ? {} : { error };
  return {
    type: "run.ended",
    status,
    reason,
    ...failure,
    usage,
    subagentsByDepth,
    refusalsByCode,
    durationMs,
  };
}
