// How a segment of a recording begins: from the start of the run, or from its persisted agents.

import { withDelta } from "../../kernel/json-delta.ts";
import type { IdSource } from "../../kernel/id-source.ts";
import { stateFromPersisted } from "../../agent/agent-snapshot.ts";
import { foldRecords } from "../../orchestrator/durability/fold-journal.ts";
import type { JournalRecord, RecordOf } from "../../orchestrator/durability/journal-record.ts";
import { parsePausedRun } from "../../orchestrator/durability/paused-run.ts";
import { restoredFrom, type RestoredRun } from "../../orchestrator/durability/restored-run.ts";
import { EVENT_SCHEMAS } from "../../protocol/event-schemas.ts";
import { isGrant, type AgentPosition } from "./action.ts";
import type { Segment } from "./recording.ts";

/** How a process comes by a run. */
export type SegmentBegin = "started" | "forked" | "resumed" | "recovered";

export type Beginning = NonNullable<ReturnType<typeof beginningOf>>;

/** A run that begins: its root as it was created, and that agent's first state. */
export type Start = Extract<Beginning, { type: "started" }>;

/** A run that continues with answers and grants. `folded` is the run as its journal has it. */
export type ContinuedStart = Extract<Beginning, { type: "resumed" | "recovered" }>;

/**
 * Returns `undefined` if the recording breaks off before anything can be replayed.
 * Throws `invalid_journal` or `invalid_paused_run`.
 */
export function beginningOf({ runId, records, before }: Segment) {
  const [head, restored] = records;
  const first = records.find((record) => record.type === "event");
  const state = records.find((record) => record.type === "state");
  if (head?.type === "run" && restored?.type !== "restored") {
    const root = records.find((record) => record.type === "agent");
    if (root === undefined || state === undefined) return undefined;
    const { agent, account } = root;
    const opening = withDelta(undefined, state.delta);
    const atMs = agent.startedAtMs;
    return { type: "started" as const, atMs, head, root: agent, account, opening };
  }
  if (first === undefined) return undefined;
  const { type, atMs } = first.event;
  const at = records.findIndex((one) => one === first || one.type === "execution");
  const given = records.slice(0, at).filter((one) => one.type === "answers" || isGrant(one));
  if (restored?.type !== "restored") {
    const folded = foldRecords(runId, before);
    return { type: "recovered" as const, atMs, folded, run: folded.run, given };
  }
  const run = restoredFrom(parsePausedRun(restored.run));
  if (type === "run.started") return state && forkOf(run, first, state);
  return { type: "resumed" as const, atMs, folded: undefined, run, given };
}

/** In the journal the root has an execution already: the fork begins that one. */
function forkOf(
  { agents: [root, ...others], ...run }: RestoredRun,
  { event }: RecordOf<"event">,
  { delta }: RecordOf<"state">,
) {
  const schema = EVENT_SCHEMAS["run.started"].forkedFrom;
  const forkedFrom = schema.safeParse(event["forkedFrom"]).data;
  if (root === undefined || forkedFrom === undefined) return undefined;
  const { messages } = stateFromPersisted(withDelta(root.state, delta)).conversation;
  const last = messages.at(-1);
  const isNew = messages.length > root.state.conversation.messages.length;
  const message = isNew && last?.role === "user" ? last : undefined;
  const agents = [{ ...root, execution: root.execution - 1 }, ...others];
  return {
    type: "forked" as const,
    atMs: event.atMs,
    run: { ...run, agents },
    message,
    forkedFrom,
  };
}

/** Returns the root as it is when the segment begins. */
export function rootOf(beginning: Beginning) {
  return beginning.type === "started" ? beginning.root : beginning.run.agents[0];
}

/** Returns where agents are when the segment begins. */
export function positionsOf(beginning: Beginning): ReadonlyMap<string, AgentPosition> {
  if (beginning.type === "started") return new Map();
  return new Map(
    beginning.run.agents.map(({ agentId, agentPath, state }) => {
      const stepNumber = state.step?.number ?? state.log.steps.at(-1)?.number ?? 0;
      return [agentId, { agentPath, stepNumber, count: 0 }];
    }),
  );
}

/** Returns the ids of the recording by what they are for, and new ones for anything else. */
export function idsOf(records: readonly JournalRecord[], beginning: Beginning): IdSource {
  const ids = new Map<string, string>();
  const paths = new Map([...positionsOf(beginning)].map(([id, { agentPath }]) => [id, agentPath]));
  for (const record of records) {
    if (record.type === "run") ids.set("run", record.runId);
    if (record.type === "agent") {
      const { agentId, agentPath, executionId } = record.agent;
      paths.set(agentId, agentPath);
      ids.set(`agent ${agentPath}`, agentId).set(`execution ${agentPath} 1`, executionId);
    }
    if (record.type === "execution")
      ids.set(`execution ${paths.get(record.agentId)} ${record.execution}`, record.executionId);
  }
  let count = 0;
  return {
    next: (kind, place) => {
      count += 1;
      return ids.get([kind, place].join(" ").trim()) ?? `${kind}_replayed_${count}`;
    },
  };
}
