// Folds recorded events.

import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { RunFold } from "../../../src/read-model/run-fold.ts";
import type { RunOverview, RunPatch, RunSnapshot } from "../../../src/read-model/viewer-data.ts";

/** The number of a record is that of its event. */
export function foldOf(events: readonly EspalierEvent[]): RunFold {
  const [first] = events;
  if (first === undefined) throw new Error("Expected events of a run.");
  const fold = new RunFold(first.runId);
  for (const event of events) fold.apply(event, event.seq);
  return fold;
}

/** Applies a patch to a snapshot. */
export function patched(
  before: RunSnapshot<RunOverview>,
  patch: RunPatch<RunOverview>,
): RunSnapshot<RunOverview> {
  const agents = [...before.agents];
  for (const [index, row] of patch.agents) agents[index] = row;
  const spans = agents.map((_agent, index) => before.spans[index] ?? []);
  for (const [index, from, numbers] of patch.spans)
    spans[index] = [...(spans[index] ?? []).slice(0, from), ...numbers];
  return {
    record: patch.record,
    run: patch.run,
    agents,
    spans,
    questions: patch.questions ?? before.questions,
    causes: patch.causes ?? before.causes,
    refusals: [...before.refusals, ...(patch.refusals ?? [])],
  };
}
