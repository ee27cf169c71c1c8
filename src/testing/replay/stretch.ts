// Stretches of a recording: what one process did of a run. A run that was paused, or whose process died, goes on in a further one. Each
// begins from what is kept, so that each is replayed by itself. Owns how a recording is cut.

import { z } from "zod";

import { withDelta } from "../../kernel/json-delta.ts";
import { EspalierError } from "../../kernel/error.ts";
import { keptState, stateFromKept } from "../../agent/kept-state.ts";
import { foldJournal, type FoldedRun } from "../../orchestrator/durability/fold-journal.ts";
import type { JournalRecord, RecordOf } from "../../orchestrator/durability/journal-record.ts";
import { parsePausedRun } from "../../orchestrator/durability/paused-run.ts";
import type { ResumeGrant } from "../../orchestrator/run/run-options.ts";
import { standing, type RestoredRun } from "../../orchestrator/durability/restored-run.ts";
import type { EventBody } from "../../protocol/event.ts";
import { RunIdSchema, type RunId } from "../../protocol/ids.ts";
import type { UserMessage } from "../../protocol/message.ts";
import type { Answer } from "../../protocol/question.ts";
import type { AgentPlaces } from "./deeds.ts";

/** How a process comes by a run. */
export type StretchBegin = "started" | "forked" | "resumed" | "recovered";

/** What one process did of a run. */
export interface Stretch {
  readonly runId: RunId;
  /** `resumed`: or forked. */
  readonly begin: Exclude<StretchBegin, "forked">;
  readonly records: readonly JournalRecord[];
  /** The lines before it since the journal was opened last. */
  readonly before: readonly string[];
  /** False: the journal does not say where it begins, since an early release wrote it. */
  readonly isMarked: boolean;
}

/** A line of a recording, read. */
export interface ReadLine {
  readonly line: string;
  readonly record: JournalRecord;
  /** From 1. */
  readonly number: number;
}

/** Cuts a recording. Throws `invalid_journal`, naming the line, for one that does not begin with a run. */
export function stretchesIn(lines: readonly ReadLine[]): readonly Stretch[] {
  const cutter = new Cutter();
  for (const line of lines) cutter.take(line);
  return cutter.stretches;
}

class Cutter {
  readonly stretches: Stretch[] = [];
  #records: JournalRecord[] = [];
  /** Since the journal was opened last. */
  #lines: string[] = [];
  /** The event with which a run begins, or goes on, stands in the stretch. */
  #isOpen = false;
  #runId: RunId | undefined;

  take({ line, record, number }: ReadLine): void {
    const isFirst = this.stretches.length === 0;
    if (isFirst && record.type !== "run") throw headless(number);
    if (record.type === "run") {
      this.#runId = record.runId;
      this.#begin({ begin: "started", isMarked: true });
    } else if (record.type === "recovered") this.#begin({ begin: "recovered", isMarked: true });
    else if (record.type === "restored") this.#restore(number);
    else if (isResumption(record) || isStart(record)) this.#open();
    else if (record.type !== "text" && this.#isHead && this.stretches.length > 1)
      throw headless(number);
    this.#records.push(record);
    this.#lines.push(line);
  }

  /** Nothing stands in the stretch but how its journal was opened. One that is opened once more says next from what. */
  get #isHead(): boolean {
    return (
      this.#records[0]?.type === "run" &&
      this.#records.every(({ type }) => type === "run" || type === "text")
    );
  }

  #begin({ begin, isMarked }: Pick<Stretch, "begin" | "isMarked">): void {
    const before = begin === "recovered" ? this.#lines : [];
    this.#records = [];
    this.#lines = [...before];
    this.#isOpen = false;
    const [runId, records] = [this.#runId, this.#records];
    if (runId === undefined) throw headless(1);
    this.stretches.push({ runId, begin, isMarked, before, records });
  }

  #restore(number: number): void {
    if (!this.#isHead) throw headless(number);
    const opened = this.stretches.pop();
    if (opened !== undefined) this.stretches.push({ ...opened, begin: "resumed" });
  }

  #open(): void {
    if (this.#isOpen) this.#begin({ begin: "recovered", isMarked: false });
    this.#isOpen = true;
  }
}

function isStart(record: JournalRecord): boolean {
  return record.type === "event" && record.event.type === "run.started";
}

function isResumption(record: JournalRecord): boolean {
  return record.type === "event" && record.event.type === "run.resumed";
}

export function headless(number: number): EspalierError {
  return new EspalierError({
    code: "invalid_journal",
    message: `Expected the recording of a run from its start, got one of which line ${number} is not what stands there. Record a run that was started with a store.`,
    data: { record: number },
  });
}

/** A run that begins: its root as it was born, and what that began with, as it is kept. */
export interface Start {
  readonly type: "started";
  readonly head: RecordOf<"run">;
  readonly birth: RecordOf<"agent">;
  readonly opening: unknown;
}

/** A run that goes on. */
export interface GoingOn {
  readonly type: "resumed" | "recovered";
  readonly run: RestoredRun;
  /** How the journal tells of it, where it was recovered. */
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
  /** What its root is told. */
  readonly message: UserMessage | undefined;
  readonly forkedFrom: EventBody<"run.started">["forkedFrom"];
}

/** From what a stretch begins. */
export type Beginning = Start | ForkStart | GoingOn;

/** Undefined: there is nothing to replay, since it breaks off before. Rejects with `invalid_journal` or `invalid_paused_run`. */
export async function beginningOf(stretch: Stretch): Promise<Beginning | undefined> {
  const { begin, records, before, runId } = stretch;
  const head = records.find((record) => record.type === "run");
  const hasBegun = records.some(({ type }) => type === "event");
  if (!hasBegun && begin !== "started") return undefined;
  if (begin === "recovered") {
    const folded = await foldJournal(runId, before);
    return { type: begin, folded, run: folded.run, ...goingOnOf(records, folded.run) };
  }
  if (begin === "resumed") {
    const restored = records.find((record) => record.type === "restored");
    const run = standing(parsePausedRun(restored?.run));
    const first = records.find((record) => record.type === "event");
    if (first?.event.type === "run.started") return forkOf(records, first, run);
    return { type: begin, folded: undefined, run, ...goingOnOf(records, run) };
  }
  const birth = records.find((record) => record.type === "agent");
  const first = records.find((record) => record.type === "state");
  if (head === undefined || birth === undefined || first === undefined) return undefined;
  return {
    type: "started",
    head,
    birth,
    opening: "set" in first.delta ? first.delta.set : undefined,
  };
}

/** In the journal its root has an execution already: it is the one that it begins with. */
function forkOf(
  records: readonly JournalRecord[],
  { event }: RecordOf<"event">,
  { agents: [root, ...others], ...run }: RestoredRun,
): ForkStart {
  const given = ForkedFromSchema.safeParse(event["forkedFrom"]);
  const began = records.find((record) => record.type === "state");
  const forkedFrom = given.data;
  if (root === undefined || began === undefined)
    return { type: "forked", run: { ...run, agents: others }, message: undefined, forkedFrom };
  const told = stateFromKept(withDelta(keptState(root.state), began.delta)).conversation.messages;
  const last = told.length > root.state.conversation.messages.length ? told.at(-1) : undefined;
  const message = last?.role === "user" ? last : undefined;
  const agents = [{ ...root, execution: root.execution - 1 }, ...others];
  return { type: "forked", run: { ...run, agents }, message, forkedFrom };
}

const ForkedFromSchema = z.object({
  runId: RunIdSchema,
  stepNumber: z.int(),
  traceId: z.string(),
  spanId: z.string().optional(),
});

/** What whoever went on with the run gave it: that stands before the event by which it goes on. */
function goingOnOf(
  records: readonly JournalRecord[],
  { agents }: RestoredRun,
): Pick<GoingOn, "answers" | "grants" | "granted"> {
  const at = records.findIndex((record) => isResumption(record) || record.type === "execution");
  const opening = at === -1 ? records : records.slice(0, at);
  const granted = opening.filter(isGrant);
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

type GrantRecord = RecordOf<"ledger"> & {
  readonly done: Extract<RecordOf<"ledger">["done"], { operation: "grant" }>;
};

function isGrant(record: JournalRecord): record is GrantRecord {
  return record.type === "ledger" && record.done.operation === "grant";
}

/** The root, when the stretch begins. */
export function rootOf(
  beginning: Beginning,
): Pick<RestoredRun["agents"][number], "agentId" | "agentPath" | "role"> | undefined {
  return beginning.type === "started" ? beginning.birth.agent : beginning.run.agents[0];
}

/** Where agents stand when the stretch begins. */
export function placesOf(beginning: Beginning): AgentPlaces {
  if (beginning.type === "started") return new Map();
  return new Map(
    beginning.run.agents.map(({ agentId, agentPath, state }) => {
      const stepNumber = state.step?.number ?? state.log.steps.at(-1)?.number ?? 0;
      return [agentId, { agentPath, stepNumber }];
    }),
  );
}

/** The time when the stretch begins. */
export function beginsAtMs(beginning: Beginning, { records }: Pick<Stretch, "records">): number {
  if (beginning.type === "started") return beginning.birth.agent.startedAtMs;
  const first = records.find((record) => record.type === "event");
  return first?.event.atMs ?? beginning.run.pausedAtMs;
}
