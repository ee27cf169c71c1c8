// The state of a run as a reader of its feed has it: a snapshot with the patches applied.

import type { AgentRow, RunPatch, RunSnapshot } from "../../../src/read-model/viewer-data.ts";

/** Returns the common content of both, without the time of the request. */
export type AppliedRun = Pick<
  RunSnapshot,
  "record" | "agents" | "spans" | "questions" | "causes" | "refusals"
> & { readonly status: string };

export const NOTHING_YET: AppliedRun = {
  record: 0,
  status: "",
  agents: [],
  spans: [],
  questions: [],
  causes: [],
  refusals: [],
};

export function appliedTo(before: AppliedRun, patch: RunPatch): AppliedRun {
  const agents: AgentRow[] = [...before.agents];
  const spans = [...before.spans];
  for (const [index, row] of patch.agents) {
    if (index > agents.length)
      throw new Error(`Agent ${index} came before one that stands before it.`);
    agents[index] = row;
    spans[index] ??= [];
  }
  for (const [index, from, numbers] of patch.spans) {
    const known = spans[index] ?? [];
    if (from > known.length) throw new Error(`Spans of agent ${index} are missing.`);
    spans[index] = [...known.slice(0, from), ...numbers];
  }
  return {
    record: patch.record,
    status: patch.run.status,
    agents,
    spans,
    questions: patch.questions ?? before.questions,
    causes: patch.causes ?? before.causes,
    refusals: [...before.refusals, ...(patch.refusals ?? [])],
  };
}

export function appliedOf(snapshot: RunSnapshot): AppliedRun {
  const { record, agents, spans, questions, causes, refusals, run } = snapshot;
  return { record, agents, spans, questions, causes, refusals, status: run.status };
}
