// Folds a journal into the run as it was when its process crashed, or when it ended or was paused.
// Pure: the same records produce the same run.

import { isRecord } from "../../kernel/json.ts";
import { Turns } from "../../kernel/throttle.ts";
import { findAskedQuestions } from "../../agent/agent-state.ts";
import { formatContent } from "../../protocol/message-content.ts";
import { lazySchema, z } from "../../protocol/lazy-schema.ts";
import {
  AgentIdSchema,
  type AgentId,
  type LeaseId,
  type QuestionId,
  type RunId,
} from "../../protocol/ids.ts";
import type { Answer } from "../../protocol/question.ts";
import { StopSignalSchema, type StopSignal } from "../../protocol/stop.ts";
import { BudgetLedger } from "../../budget/ledger.ts";
import type { PersistedHold } from "../../budget/ledger-operation.ts";
import { replayOperation } from "../../budget/replay-operation.ts";
import { collectFailedAgents, parsePausedRun } from "./paused-run.ts";
import type { RestoredAgent, RestoredRun } from "./restored-run.ts";
import { OpenSpans } from "./open-spans.ts";
import { FoldedAgent } from "./folded-agent.ts";
import { parseRecord, type JournalRecord, type RecordOf } from "./journal-record.ts";
import {
  createEmptyJournalError,
  createInvalidJournalError,
  readJournalLine,
} from "./journal-errors.ts";
import { RECORDS_PER_TURN, RecordCodec } from "./record-codec.ts";

/** State of a run according to its journal. */
export interface FoldedRun {
  readonly run: RestoredRun;
  /** `open` if its process crashed, otherwise how it settled. */
  readonly status: "open" | "paused" | "ended";
  readonly recordCount: number;
  /** Leases of model calls with an unknown outcome whose requests may have been sent. */
  readonly lost: readonly PersistedHold[];
  /** Leases of model calls whose requests were never sent. */
  readonly unsent: readonly PersistedHold[];
  /** Agents that were cancelled and have not ended. */
  readonly cancelled: readonly { readonly agentId: AgentId; readonly message: string }[];
  /** Agents whose time limit was reached and that have not ended. */
  readonly overdue: readonly { readonly agentId: AgentId; readonly deadlineAtMs: number }[];
  /** Requests to stop the whole tree, in order. */
  readonly stops: readonly StopSignal[];
  /** Answers with which the run last continued. */
  readonly answers: readonly Answer[];
  /** Numbers of the handled mail. */
  readonly posts: readonly number[];
  /** The part of its result that no other record contains. `undefined` if it has not settled. */
  readonly resultRecord: RecordOf<"result"> | undefined;
  /** Background subagents whose calls have ended without a report to their parents. */
  readonly unknownIds: readonly AgentId[];
  /** Open spans. Empty if the run had settled. */
  readonly spans: OpenSpans;
  /** Span of its caller and origin of a fork, if no persisted event has them. */
  readonly origin: Pick<RecordOf<"run">, "traceparent" | "forkedFrom">;
}

/** State of a run that can continue. */
export interface FoldedJournal extends FoldedRun {
  readonly codec: RecordCodec;
}

/** Agents that are restored or written in one turn of the event loop. */
export const AGENTS_PER_TURN = 5;

/**
 * Folds a journal. Rejects with `unsupported_version` or `invalid_journal`, naming the line, and
 * with the errors of the lines.
 */
export async function foldJournal(
  runId: RunId,
  lines: AsyncIterable<string> | Iterable<string>,
): Promise<FoldedJournal> {
  const codec = new RecordCodec();
  const fold = new JournalFold(runId);
  const reading = new Turns(RECORDS_PER_TURN);
  for await (const line of lines)
    await reading.did(fold.takeLine(() => codec.read(line).map(parseRecord)));
  return { ...(await fold.end()), codec };
}

/** Folds parsed records. Rejects like `foldJournal`. */
export async function foldRecords(
  runId: RunId,
  records: readonly JournalRecord[],
): Promise<FoldedRun> {
  const fold = new JournalFold(runId);
  for (const record of records) fold.takeLine(() => [record]);
  return await fold.end();
}

class JournalFold {
  readonly #runId: RunId;
  readonly #agents = new Map<AgentId, FoldedAgent>();
  #refusals: Record<string, number> = {};
  #definitions: Record<string, string> = {};
  #stops: readonly StopSignal[] = [];
  readonly #failed = new Set<AgentId>();
  #ledger = this.#createLedger();
  /** Agent of each lease, in the order of the leases. */
  readonly #holders = new Map<LeaseId, AgentId>();
  readonly #spans = new OpenSpans();
  #count = 0;
  #head: RecordOf<"run"> | undefined;
  #status: FoldedRun["status"] = "open";
  #pauses = 0;
  #eventCount = 0;
  /** Time of the latest event in whole milliseconds. */
  #lastAtMs = 0;
  /**
   * Clock operations that a process recorded before its first event. `undefined` after that event.
   * They are dropped if the process crashed before it had an event, because the next process
   * excludes the whole time since the last event.
   */
  #heldOperations: RecordOf<"ledger">["done"][] | undefined = [];
  #trace: RunTrace = { traceId: "" };
  #prices: RestoredRun["prices"] = [];
  #answered: readonly QuestionId[] = [];
  #answers: readonly Answer[] = [];
  readonly #posts: number[] = [];
  #cancelled: FoldedRun["cancelled"] = [];
  #overdue: FoldedRun["overdue"] = [];
  #resultRecord: RecordOf<"result"> | undefined;

  constructor(runId: RunId) {
    this.#runId = runId;
  }

  /** Takes the records of the next line. Returns how many there are. */
  takeLine(read: () => readonly JournalRecord[]): number {
    this.#count += 1;
    return readJournalLine(this.#runId, this.#count, () => {
      const records = read();
      for (const record of records) this.#do(record);
      return records.length;
    });
  }

  /**
   * Returns the run after the last record. Rejects with `invalid_journal` if records are missing.
   */
  async end(): Promise<FoldedRun> {
    const head = this.#head;
    if (head === undefined) throw createEmptyJournalError(this.#runId);
    try {
      return await this.#buildRun(head);
    } catch (cause) {
      throw createInvalidJournalError(this.#runId, this.#count, cause);
    }
  }

  async #buildRun(head: RecordOf<"run">): Promise<FoldedRun> {
    const leases = [...this.#holders].flatMap(
      ([leaseId, agentId]) => this.#ledger.getAccount(agentId).getLease(leaseId) ?? [],
    );
    const isEnded = ({ agentId, lease }: PersistedHold): boolean =>
      this.#getAgent(agentId).hasEnded(lease.leaseId);
    const isUnsent = ({ agentId, lease }: PersistedHold): boolean =>
      !this.#getAgent(agentId).hasSent(lease.leaseId);
    const openLeases = new Set(leases.map(({ lease }) => lease.leaseId));
    const isLiving = (agentId: AgentId): boolean => this.#getAgent(agentId).isLiving;
    const agents: RestoredAgent[] = [];
    const turns = new Turns(AGENTS_PER_TURN);
    for (const agent of this.#agents.values()) {
      agents.push(agent.toRestored({ openLeases, isLiving }));
      await turns.did();
    }
    const questions = agents.flatMap(({ state }) => findAskedQuestions(state));
    const open = new Set(questions.map(({ questionId }) => questionId));
    return {
      run: {
        runId: head.runId,
        pauseCount: this.#pauses,
        pausedAtMs: this.#lastAtMs,
        ...this.#trace,
        eventCount: this.#eventCount,
        leaseCount: this.#ledger.leaseCount,
        limits: head.limits,
        ...(head.session === undefined ? {} : { session: head.session }),
        refusalsByCode: this.#refusals,
        questions,
        answered: this.#answered.filter((questionId) => !open.has(questionId)),
        agents,
        definitions: this.#definitions,
        prices: this.#prices,
        accounts: this.#ledger.snapshot(),
        failedIds: [...this.#failed],
        leases,
      },
      status: this.#status,
      recordCount: this.#count,
      lost: leases.filter((lease) => !isEnded(lease) && !isUnsent(lease)),
      unsent: leases.filter((lease) => !isEnded(lease) && isUnsent(lease)),
      cancelled: this.#cancelled,
      overdue: this.#overdue,
      stops: this.#stops,
      answers: this.#answers,
      posts: this.#posts,
      resultRecord: this.#resultRecord,
      unknownIds: [...this.#agents.values()].flatMap((agent) => agent.startedAgentIds),
      spans: this.#spans,
      origin: this.#eventCount === 0 ? head : {},
    };
  }

  #do(record: JournalRecord): void {
    switch (record.type) {
      case "run":
        if (record.runId !== this.#runId)
          throw new TypeError(`it is the journal of ${record.runId}`);
        this.#head = record;
        return;
      case "restored":
        this.#restore(record);
        return;
      case "result":
        this.#resultRecord = record;
        return;
      case "post":
        this.#posts.push(record.number);
        return;
      case "definition":
        this.#definitions[record.hash] = record.text;
        return;
      case "stop":
        this.#stops = [...this.#stops, record.signal];
        return;
      case "recovered":
        this.#heldOperations = [];
        return;
      case "pause":
      case "skip":
        return;
      case "agent":
        this.#addCreated(record);
        return;
      case "execution": {
        const agent = this.#getAgent(record.agentId);
        agent.continueExecution(record);
        this.#failed.delete(record.agentId);
        this.#cancelled = this.#cancelled.filter(({ agentId }) => agentId !== record.agentId);
        this.#overdue = this.#overdue.filter(({ agentId }) => agentId !== record.agentId);
        this.#findParent(agent)?.noteChild(agent, { isNew: false, nth: record.nth });
        return;
      }
      case "ledger":
        this.#redo(record.done);
        return;
      case "event":
        this.#takeEvent(record.event);
        return;
      case "answers":
        this.#answer(record.answers);
        return;
      case "cancel":
        this.#cancelled = [...this.#cancelled, record];
        this.#noteOperation(record);
        return;
      case "deadline":
        this.#overdue = [...this.#overdue, record];
        return;
      case "letter":
        this.#getAgent(record.agentId).take(record);
        this.#noteOperation(record);
        return;
      default:
        this.#getAgent(record.agentId).take(record);
    }
  }

  /**
   * Applies answers. A question whose answer was not recorded before a crash is answered again, and
   * moves to the end.
   */
  #answer(answers: readonly Answer[]): void {
    this.#answers = answers;
    const answeredIds = answers.map(({ questionId }) => questionId);
    const before = this.#answered.filter((questionId) => !answeredIds.includes(questionId));
    this.#answered = [...before, ...new Set(answeredIds)];
  }

  #redo(done: RecordOf<"ledger">["done"]): void {
    const isOfClock = done.operation === "pauseClock" || done.operation === "resumeClock";
    if (isOfClock && this.#heldOperations !== undefined) {
      this.#heldOperations.push(done);
      return;
    }
    if (done.operation === "lease") {
      const { leaseId } = done.lease;
      if (this.#holders.has(leaseId)) throw new TypeError(`${leaseId} was already granted`);
      this.#holders.set(leaseId, done.agentId);
      this.#getAgent(done.agentId).addHold(done);
    }
    const agentId = "agentId" in done ? done.agentId : this.#holders.get(done.leaseId);
    if (agentId === undefined) throw new TypeError("its lease was never granted");
    replayOperation(this.#ledger.getAccount(agentId), done);
    if (done.operation === "toolCall") this.#getAgent(done.agentId).charge();
  }

  #noteOperation({ agentId: childId, by, ...record }: RecordOf<"letter" | "cancel">): void {
    if (by === undefined) return;
    const text = record.type === "letter" ? { text: formatContent(record.text) } : {};
    this.#getAgent(by.agentId).noteOperation({ callId: by.callId, childId, ...text });
  }

  #restore({ run: stored }: RecordOf<"restored">): void {
    const run = parsePausedRun(stored);
    this.#agents.clear();
    for (const agent of run.agents) this.#agents.set(agent.agentId, FoldedAgent.restore(agent));
    this.#ledger = this.#createLedger();
    this.#ledger.restore(run.accounts, run.leaseCount);
    this.#holders.clear();
    this.#pauses = run.pauseCount;
    this.#eventCount = run.eventCount;
    this.#prices = run.prices;
    this.#answered = run.answered;
    this.#answers = [];
    this.#cancelled = [];
    this.#overdue = [];
    this.#resultRecord = undefined;
    this.#stops = [];
    this.#failed.clear();
    for (const agentId of collectFailedAgents(run)) this.#failed.add(agentId);
    this.#status = "open";
    this.#lastAtMs = run.pausedAtMs;
    this.#heldOperations = [];
    this.#trace = readTrace(run);
    this.#refusals = { ...run.refusalsByCode };
    this.#definitions = { ...run.definitions };
  }

  #addCreated({ agent: created, nth, account }: RecordOf<"agent">): void {
    const agent = new FoldedAgent(created);
    this.#agents.set(created.agentId, agent);
    this.#ledger.adopt(account);
    if (this.#eventCount === 0) this.#lastAtMs = Math.ceil(account.openedAtMs);
    this.#findParent(agent)?.noteChild(agent, { isNew: true, nth });
  }

  #takeEvent(event: RecordOf<"event">["event"]): void {
    this.#eventCount = event.seq;
    this.#spans.take(event);
    this.#lastAtMs = Math.ceil(event.atMs);
    const operations = this.#heldOperations ?? [];
    this.#heldOperations = undefined;
    for (const done of operations) this.#redo(done);
    const agent = event["executionId"] === null ? undefined : this.#findAgent(event["agentId"]);
    agent?.takeEvent(event, this.#ledger.getAccount(agent.agentId));
    switch (event.type) {
      case "run.paused":
        this.#pauses += 1;
        this.#status = "paused";
        return;
      case "run.started":
        this.#trace = readTrace(event);
        return;
      case "run.resumed":
        this.#trace = readTrace(event);
        this.#status = "open";
        return;
      case "run.ended":
        this.#status = "ended";
        // Earlier requests are done, because a grant lets the agent continue.
        this.#stops = [];
        this.#cancelled = [];
        this.#overdue = [];
        return;
      case "subagent.detached":
        this.#findAgent(event["childId"])?.detach();
        return;
      case "subagent.refused": {
        const { error } = event;
        const code = isRecord(error) ? String(error["code"]) : "";
        this.#refusals[code] = (this.#refusals[code] ?? 0) + 1;
        return;
      }
      case "signal.raised": {
        const failed = this.#findAgent(event["agentId"]);
        const raised = StopSignalSchema().safeParse(event["signal"]);
        if (failed !== undefined && raised.data?.reason.code === "error")
          this.#failed.add(failed.agentId);
      }
    }
  }

  /** Returns the ledger. A paused clock is read at the time of the last event. */
  #createLedger(): BudgetLedger {
    return new BudgetLedger({ nowMs: () => this.#lastAtMs });
  }

  #findAgent(agentId: unknown): FoldedAgent | undefined {
    const id = AgentIdSchema().safeParse(agentId);
    return id.success ? this.#agents.get(id.data) : undefined;
  }

  #findParent({ parentAgentId }: FoldedAgent): FoldedAgent | undefined {
    return parentAgentId === null ? undefined : this.#getAgent(parentAgentId);
  }

  #getAgent(agentId: AgentId): FoldedAgent {
    const agent = this.#agents.get(agentId);
    if (agent === undefined) throw new TypeError(`${agentId} was not created`);
    return agent;
  }
}

/** Returns the trace and the run's span from a record or an event that has both. */
function readTrace(value: object): RunTrace {
  return TraceSchema().parse(value);
}

type RunTrace = Pick<RestoredRun, "traceId" | "spanId" | "isSampled">;

const TraceSchema = lazySchema(() =>
  z.object({
    traceId: z.string(),
    spanId: z.string().exactOptional(),
    isSampled: z.boolean().exactOptional(),
  }),
);
