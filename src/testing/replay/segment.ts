// Segments of a recording: what one process did of a run. A run that was paused, or whose process died, continues in a further one. Each
// begins from what was persisted, so that each is replayed by itself. Owns how a recording is cut.

import { withDelta } from "../../kernel/json-delta.ts";
import { EspalierError } from "../../kernel/error.ts";
import { stateFromPersisted } from "../../agent/agent-snapshot.ts";
import { foldRecords, type FoldedRun } from "../../orchestrator/durability/fold-journal.ts";
import type { JournalRecord, RecordOf } from "../../orchestrator/durability/journal-record.ts";
import { parsePausedRun } from "../../orchestrator/durability/paused-run.ts";
import type { ResumeGrant } from "../../orchestrator/run/run-options.ts";
import { restoredFrom, type RestoredRun } from "../../orchestrator/durability/restored-run.ts";
import type { EventBody } from "../../protocol/event.ts";
import { EVENT_SCHEMAS } from "../../protocol/event-schemas.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { UserMessage } from "../../protocol/message.ts";
import type { Answer } from "../../protocol/question.ts";
import { eventIn, isLedger, type AgentPositions } from "./actions.ts";

/** How a process comes by a run. */
export type SegmentBegin = "started" | "forked" | "resumed" | "recovered";

/** What one process did of a run. */
export interface Segment {
  readonly runId: RunId;
  /** `resumed`: or forked. */
  readonly begin: Exclude<SegmentBegin, "forked">;
  readonly records: readonly JournalRecord[];
  /** Those before it since the journal was opened last. */
  readonly before: readonly JournalRecord[];
}

/** A record of a recording. */
export interface ReadRecord {
  readonly record: JournalRecord;
  /** Of its line, from 1. */
  readonly number: number;
}

/** Cuts a recording. Throws `invalid_journal`, naming the line, for one that does not begin with a run. */
export function segmentsIn(records: readonly ReadRecord[]): readonly Segment[] {
  const cutter = new Cutter();
  for (const record of records) cutter.take(record);
  return cutter.segments;
}

class Cutter {
  readonly segments: Segment[] = [];
  #records: JournalRecord[] = [];
  /** Since the journal was opened last. */
  #sinceOpening: JournalRecord[] = [];
  #runId: RunId | undefined;

  take({ record, number }: ReadRecord): void {
    const isFirst = this.segments.length === 0;
    if (isFirst && record.type !== "run") throw headless(number);
    if (record.type === "run") {
      this.#runId = record.runId;
      this.#begin("started");
    } else if (record.type === "recovered") this.#begin("recovered");
    else if (record.type === "restored") this.#restore(number);
    else if (this.#isHead && this.segments.length > 1) throw headless(number);
    this.#records.push(record);
    this.#sinceOpening.push(record);
  }

  /** The segment has nothing but how its journal was opened. One that is opened once more says next from what. */
  get #isHead(): boolean {
    return this.#records.length > 0 && this.#records.every(({ type }) => type === "run");
  }

  #begin(begin: Segment["begin"]): void {
    const before = begin === "recovered" ? this.#sinceOpening : [];
    this.#records = [];
    this.#sinceOpening = [...before];
    const [runId, records] = [this.#runId, this.#records];
    if (runId === undefined) throw headless(1);
    this.segments.push({ runId, begin, before, records });
  }

  #restore(number: number): void {
    if (!this.#isHead) throw headless(number);
    const opened = this.segments.pop();
    if (opened !== undefined) this.segments.push({ ...opened, begin: "resumed" });
  }
}

export function headless(number: number): EspalierError {
  return new EspalierError({
    code: "invalid_journal",
    message: `Expected the recording of a run from its start, got one of which line ${number} is not what stands there. Record a run that was started with a store.`,
    data: { record: number },
  });
}

/** A run that begins: its root as it was created, and the first state of that, as it was persisted. */
export interface Start {
  readonly type: "started";
  readonly head: RecordOf<"run">;
  readonly rootRecord: RecordOf<"agent">;
  readonly opening: unknown;
}

/** A run that continues. */
export interface ContinuedStart {
  readonly type: "resumed" | "recovered";
  readonly run: RestoredRun;
  /** As the journal has it, where it was recovered. */
  readonly folded: FoldedRun | undefined;
  readonly answers: readonly Answer[];
  readonly grants: readonly ResumeGrant[];
  /** The records of these grants. */
  readonly granted: ReadonlySet<JournalRecord>;
}

/** A run that another one was forked to. */
export interface ForkStart {
  readonly type: "forked";
  readonly run: RestoredRun;
  /** For its root. */
  readonly message: UserMessage | undefined;
  readonly forkedFrom: EventBody<"run.started">["forkedFrom"];
}

/** From what a segment begins. */
export type Beginning = Start | ForkStart | ContinuedStart;

/** Undefined: there is nothing to replay, since it breaks off before. Rejects with `invalid_journal` or `invalid_paused_run`. */
export async function beginningOf(segment: Segment): Promise<Beginning | undefined> {
  const { begin, records, before, runId } = segment;
  const head = records.find((record) => record.type === "run");
  const hasBegun = records.some(({ type }) => type === "event");
  if (!hasBegun && begin !== "started") return undefined;
  if (begin === "recovered") {
    const folded = foldRecords(runId, before);
    return { type: begin, folded, run: folded.run, ...continuationOf(records, folded.run) };
  }
  if (begin === "resumed") {
    const restored = records.find((record) => record.type === "restored");
    const run = restoredFrom(parsePausedRun(restored?.run));
    const first = records.find((record) => record.type === "event");
    if (first?.event.type === "run.started") return forkOf(records, first, run);
    return { type: begin, folded: undefined, run, ...continuationOf(records, run) };
  }
  const rootRecord = records.find((record) => record.type === "agent");
  const first = records.find((record) => record.type === "state");
  if (head === undefined || rootRecord === undefined || first === undefined) return undefined;
  return {
    type: "started",
    head,
    rootRecord,
    opening: "set" in first.delta ? first.delta.set : undefined,
  };
}

/** In the journal its root has an execution already: it is the one that it begins with. */
function forkOf(
  records: readonly JournalRecord[],
  { event }: RecordOf<"event">,
  { agents: [root, ...others], ...run }: RestoredRun,
): ForkStart {
  const given = EVENT_SCHEMAS["run.started"].forkedFrom.safeParse(event["forkedFrom"]);
  const began = records.find((record) => record.type === "state");
  const forkedFrom = given.data;
  if (root === undefined || began === undefined)
    return { type: "forked", run: { ...run, agents: others }, message: undefined, forkedFrom };
  const { messages } = stateFromPersisted(withDelta(root.state, began.delta)).conversation;
  const isLonger = messages.length > root.state.conversation.messages.length;
  const last = isLonger ? messages.at(-1) : undefined;
  const message = last?.role === "user" ? last : undefined;
  const agents = [{ ...root, execution: root.execution - 1 }, ...others];
  return { type: "forked", run: { ...run, agents }, message, forkedFrom };
}

/** What the run was given to continue: recorded before the event by which it continues. */
function continuationOf(
  records: readonly JournalRecord[],
  { agents }: RestoredRun,
): Pick<ContinuedStart, "answers" | "grants" | "granted"> {
  const at = records.findIndex(
    (record) => eventIn(record, "run.resumed") !== undefined || record.type === "execution",
  );
  const opening = at === -1 ? records : records.slice(0, at);
  const granted = opening.filter((record) => isLedger(record, "grant"));
  return {
    answers: opening.flatMap((record) => (record.type === "answers" ? record.answers : [])),
    grants: granted.map(({ done: { agentId, grant } }) => {
      const agentPath = agents.find((agent) => agent.agentId === agentId)?.agentPath;
      const { budget, by } = grant;
      return { budget, by, ...(agentPath === undefined ? {} : { agentPath }) };
    }),
    granted: new Set(granted),
  };
}

/** The root, when the segment begins. */
export function rootOf(
  beginning: Beginning,
): Pick<RestoredRun["agents"][number], "agentId" | "agentPath" | "role"> | undefined {
  return beginning.type === "started" ? beginning.rootRecord.agent : beginning.run.agents[0];
}

/** Where agents are when the segment begins. */
export function positionsOf(beginning: Beginning): AgentPositions {
  if (beginning.type === "started") return new Map();
  return new Map(
    beginning.run.agents.map(({ agentId, agentPath, state }) => {
      const stepNumber = state.step?.number ?? state.log.steps.at(-1)?.number ?? 0;
      return [agentId, { agentPath, stepNumber }];
    }),
  );
}

/** The time when the segment begins. */
export function beginsAtMs(beginning: Beginning, { records }: Pick<Segment, "records">): number {
  if (beginning.type === "started") return beginning.rootRecord.agent.startedAtMs;
  const first = records.find((record) => record.type === "event");
  return first?.event.atMs ?? beginning.run.pausedAtMs;
}
