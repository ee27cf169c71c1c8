// The last thing that a run does: it says how it ended, or that it is paused, and leaves its result.

import { deepFreeze } from "../../kernel/json.ts";
import { pausedChildrenOf } from "../../agent/agent-state.ts";
import type { EventBody } from "../../protocol/event.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { resultRecord } from "./persisted-result.ts";
import { pausedRunOf, type PauseFacts } from "./pause-run.ts";
import { runResult, type RunResult } from "./run-result.ts";
import type { RunTree } from "../tree/run-tree.ts";
import type { RunRuntime } from "../tree/run-runtime.ts";

/**
 * Paused agents that have something to do which nobody outside has to allow, since others were still at work when they paused: they were
 * told to end, or a subagent that they wait for has ended. That comes before the run rests.
 */
export function lateEnds(tree: RunTree): readonly AgentRuntime[] {
  const hasEnded = (childId: AgentId): boolean => tree.find(childId)?.hasEnded === true;
  return tree.nodes.filter(({ rested, startSignal }) => {
    if (rested?.status !== "paused") return false;
    return startSignal.aborted || pausedChildrenOf(rested).some(hasEnded);
  });
}

/** The result of a run whose root has ended while detached agents live on; they are not in it yet. */
export function resultOf(
  { tree, ledger, clock, definitions, session }: RunRuntime,
  traceId: string,
): RunResult {
  const atMs = clock.nowMs();
  const parts = { traceId, atMs, definitions: definitions.toJSON(), pausedRun: undefined };
  return runResult(tree, ledger, { ...parts, session: session?.outcome });
}

/** Records the last event and gives the result. `facts.pauses`: how often the run had been paused before. */
export function concluded(run: RunRuntime, root: AgentRuntime, facts: PauseFacts): RunResult {
  const { tree, ledger, recorder, clock } = run;
  const place = { ...root.identity, executionId: null, stepId: null, callId: null };
  const { traceId } = facts;
  if (root.hasEnded) {
    const result = resultOf(run, traceId);
    run.journal?.append(resultRecord(result, clock.nowMs()));
    recorder.record(place, runEnded(result));
    return result;
  }
  for (const node of tree.nodes) node.close();
  const { pauses } = facts;
  const draft = pausedRunOf(run, { ...facts, pauses: pauses + 1 });
  const { definitions, pausedAtMs: atMs } = draft;
  const session = run.session?.outcome;
  const result = runResult(tree, ledger, {
    traceId,
    atMs,
    definitions,
    pausedRun: draft,
    session,
  });
  const { reason, questions, durationMs } = result;
  const { own, descendants, total } = result.usage;
  run.journal?.append(resultRecord(result, atMs));
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
  const { status, reason, signals, subagentsByDepth, refusalsByCode, durationMs } = result;
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
    signals,
    usage,
    subagentsByDepth,
    refusalsByCode,
    durationMs,
  };
}
