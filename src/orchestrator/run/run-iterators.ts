// RunIterators: async iterators over the events and stream parts of a run. Owns the active readers,
// across the run's pauses. A Feed is a queue of values for one reader: a Backlog of events or
// stream parts, a Stepper of phases.

import { createUnknownAgentError } from "../../agent/agent-identity.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { isUseless, type StepReply } from "../../agent/agent-state.ts";
import type { PhaseReport } from "../../agent/phase-report.ts";
import { checkCount, checkKeys, mismatch } from "../../kernel/argument-checks.ts";
import { EspalierError } from "../../kernel/error.ts";
import { deepFreeze, omitUndefined } from "../../kernel/json.ts";
import type { EspalierEvent } from "../../protocol/event.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { StepRecord } from "../../protocol/step-record.ts";
import {
  type StreamPartBody,
  type StreamPartSource,
  createResultBody,
  type StreamPart,
} from "../../protocol/stream-part.ts";
import { JOINED, diffReply, type PartEmitter, asReply } from "../../run-services/part-emitter.ts";
import type { RunStore } from "../../store/run-store.ts";
import { readJournalLine } from "../durability/journal-errors.ts";
import { parseRecord } from "../durability/journal-record.ts";
import { parseKnownEvent } from "../durability/open-spans.ts";
import { RecordCodec } from "../durability/record-codec.ts";
import type { RunRuntime } from "../tree/run-runtime.ts";
import type { EventsOptions, StreamOptions } from "./run.ts";

const DEFAULT_MAX_BACKLOG = 10_000;

const NONE: readonly never[] = Object.freeze([]);

interface RunReader {
  /** Reads from this runtime from now on. */
  readonly follow: (run: RunRuntime) => void;
  readonly end: (failure: FeedFailure | undefined) => void;
}

export class RunIterators {
  #run: RunRuntime;
  #readers: readonly RunReader[] = NONE;
  /** Set once the run has settled or failed. */
  #end: { readonly failure: FeedFailure | undefined } | undefined;

  /** Creates the readers. `end` is the end of a run that has settled or failed. */
  constructor(run: RunRuntime, end?: { readonly failure: FeedFailure | undefined }) {
    this.#run = run;
    this.#end = end;
  }

  get areThere(): boolean {
    return this.#readers.length > 0;
  }

  events(options: EventsOptions): AsyncIterableIterator<EspalierEvent, undefined> {
    checkKeys("events options", options, ["from", "maxBacklog", "agentId"]);
    const to = this.#run.recorder.eventCount;
    const { from = to + 1, agentId } = options;
    if (!Number.isSafeInteger(from) || from < 1)
      throw mismatch(
        "from",
        "the number of an event, from 1",
        from,
        "Leave it out for future events only.",
      );
    const past =
      from <= to
        ? readPastEvents(this.#run, { from, to, ...omitUndefined({ agentId }) })
        : undefined;
    const backlog = this.#read<EspalierEvent>(options, ({ recorder }, live) =>
      recorder.subscribe({ emit: (event) => event.seq >= from && live.take(event) }),
    );
    return past === undefined ? backlog : joinReaders(past, backlog);
  }

  pieces(options: StreamOptions): AsyncIterableIterator<StreamPart, undefined> {
    checkKeys("stream options", options, ["maxBacklog", "agentId"]);
    const { agentId } = options;
    const live = this.#read<StreamPart>(options, (followed, backlog) =>
      followed.openPieces().subscribe((piece) => backlog.take(piece)),
    );
    const run = this.#run;
    const agents = agentId === undefined ? run.tree.nodes : [findNode(run, agentId)];
    const past = readPastPieces(run.openPieces(), agents);
    return past === undefined ? live : joinReaders(past, live);
  }

  /** Returns a live reader, which ends when its caller leaves or the run settles. */
  #read<T extends { readonly agentId: AgentId }>(
    { maxBacklog = DEFAULT_MAX_BACKLOG, agentId }: StreamOptions,
    subscribe: (run: RunRuntime, backlog: Backlog<T>) => () => void,
  ): Backlog<T> {
    checkCount("maxBacklog", maxBacklog);
    if (agentId !== undefined) findNode(this.#run, agentId);
    let unsubscribe: (() => void) | undefined;
    const onClose = (): void => {
      unsubscribe?.();
      this.#readers = this.#readers.filter((candidate) => candidate !== reader);
    };
    const backlog = new Backlog<T>({ maxBacklog, agentId, onClose });
    const reader: RunReader = {
      follow: (run) => {
        unsubscribe?.();
        unsubscribe = subscribe(run, backlog);
      },
      end: (failure) => backlog.end(failure),
    };
    this.#readers = [...this.#readers, reader];
    reader.follow(this.#run);
    if (this.#end !== undefined) backlog.end(this.#end.failure);
    return backlog;
  }

  /** Follows a run that continues after a pause: its readers keep reading. */
  follow(run: RunRuntime): void {
    const { pieces } = this.#run;
    if (pieces !== undefined) run.openPieces().follow(pieces);
    this.#run = run;
    for (const reader of this.#readers) reader.follow(run);
  }

  /** Ends all readers. `failure` is the error that they receive. */
  end(failure: FeedFailure | undefined): void {
    this.#end = { failure };
    for (const reader of this.#readers) reader.end(failure);
  }
}

/** Yields past values, then the buffered and live ones. */
function joinReaders<T extends { readonly agentId: AgentId }>(
  past: AsyncGenerator<T, undefined>,
  live: Backlog<T>,
): AsyncIterableIterator<T, undefined> {
  async function* readBoth(): AsyncGenerator<T, undefined> {
    try {
      yield* past;
      yield* live;
      return undefined;
    } finally {
      await live.return();
    }
  }
  return createLeavableIterator(readBoth(), () => {
    past.return(undefined).catch(() => undefined); // Ends once its pending read has resolved.
    return live.return();
  });
}

/** Returns an agent of the run. Throws `unknown_agent`. */
export function findNode({ tree }: RunRuntime, agentId: AgentId): AgentRuntime {
  const node = tree.find(agentId);
  if (node !== undefined) return node;
  throw createUnknownAgentError(agentId);
}

/** Returns the agent at a path of the tree, by default the root. Throws `unknown_agent`. */
export function findNodeAt({ tree: { nodes } }: RunRuntime, agentPath?: string): AgentRuntime {
  const node =
    agentPath === undefined
      ? nodes[0]
      : nodes.find(({ identity }) => identity.agentPath === agentPath);
  if (node !== undefined) return node;
  const paths = nodes.map(({ identity }) => identity.agentPath).join(", ");
  throw new EspalierError({
    code: "unknown_agent",
    message: `Expected an agent of the run (${paths}), got ${JSON.stringify(agentPath)}. Take the path from an event of the run.`,
    data: { agentPath: String(agentPath) },
  });
}

interface PastRange extends Pick<StreamOptions, "agentId"> {
  /** Numbers of the first and the last event. */
  readonly from: number;
  readonly to: number;
}

/**
 * Returns the events of a range, in order. Throws `events_not_persisted` at once if the run has no
 * store. The iteration rejects with it if the journal of the run begins later, and with
 * `store_failed`.
 */
function readPastEvents(
  { journal, runId, settings: { storage } }: RunRuntime,
  { from, to, agentId }: PastRange,
): AsyncGenerator<EspalierEvent, undefined> {
  if (journal === undefined || storage === undefined) throw createNotKeptError(from, undefined);
  const { writer } = journal;
  return read(storage.store);

  async function* read(store: RunStore): AsyncGenerator<EspalierEvent, undefined> {
    await Promise.race([writer.whenPersisted(), writer.broken]);
    const codec = new RecordCodec();
    let due = from;
    let number = 0;
    for await (const line of store.read(runId)) {
      number += 1;
      const decode = () => codec.read(line).map(parseRecord);
      for (const record of readJournalLine(runId, number, decode)) {
        if (record.type !== "event" || record.event.seq < due) continue;
        const { seq } = record.event;
        if (seq !== due) throw createNotKeptError(due, seq);
        const event = parseKnownEvent(record.event);
        const isWanted = agentId === undefined || event?.agentId === agentId;
        if (event !== undefined && isWanted) yield deepFreeze(event);
        if (due === to) return undefined;
        due += 1;
      }
    }
    throw createNotKeptError(due, undefined);
  }
}

function createNotKeptError(from: number, keptFrom: number | undefined): EspalierError {
  const got =
    keptFrom === undefined
      ? "it is past, and the run has no store. Leave from out to read from the next event, or give the orchestrator a store."
      : `the stored events begin with event ${keptFrom}. The run had no store before.`;
  return new EspalierError({
    code: "events_not_persisted",
    message: `Cannot read event ${from} of the run: ${got}`,
    data: { from, ...(keptFrom === undefined ? {} : { keptFrom }) },
  });
}

/** Cause of an early end. */
export interface FeedFailure {
  readonly cause: unknown;
}

interface Demand<T> {
  readonly resolve: (result: IteratorResult<T, undefined>) => void;
  readonly reject: (cause: unknown) => void;
}

const DONE: IteratorResult<never, undefined> = { done: true, value: undefined };

export class Feed<T extends object> {
  /**
   * Values to read next, in reverse: removing the first value of a long array would move all
   * others.
   */
  #unread: T[] = [];
  /** Later values, in the order of arrival. */
  #arrived: T[] = [];
  readonly #demands: Demand<T>[] = [];
  /** `undefined` until the feed has ended. */
  #end: { readonly failure: FeedFailure | undefined } | undefined;

  get unreadCount(): number {
    return this.#unread.length + this.#arrived.length;
  }

  /** True while a reader waits for a value. */
  get isAwaited(): boolean {
    return this.#demands.length > 0;
  }

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  /** Passes a value to the first waiting read, or buffers it for the next. */
  add(value: T): void {
    const demand = this.#demands.shift();
    if (demand === undefined) this.#arrived.push(value);
    else demand.resolve({ done: false, value });
  }

  next(): Promise<IteratorResult<T, undefined>> {
    if (this.#unread.length === 0) [this.#unread, this.#arrived] = [this.#arrived.toReversed(), []];
    const value = this.#unread.pop();
    if (value !== undefined) return Promise.resolve({ done: false, value });
    return new Promise((resolve, reject) => {
      if (this.#end === undefined) this.#demands.push({ resolve, reject });
      else answerDemand({ resolve, reject }, this.#end.failure);
    });
  }

  /** Ends the feed. With `failure`, every read after the unread values rejects with its cause. */
  end(failure?: FeedFailure): void {
    if (this.isOver) return;
    this.#end = { failure };
    for (const demand of this.#demands.splice(0)) answerDemand(demand, failure);
  }

  /** Discards unread values. */
  clear(): void {
    this.#unread = [];
    this.#arrived = [];
  }

  /** Ends the feed, and discards unread values and any failure. */
  leave(): typeof DONE {
    this.clear();
    this.end();
    this.#end = { failure: undefined };
    return DONE;
  }
}

/**
 * Returns the reads of a generator that can be left while it waits. `leave` ends the wait of the
 * generator, since a waiting generator cannot be left by itself.
 */
export function createLeavableIterator<T>(
  reads: AsyncGenerator<T, undefined>,
  leave: () => Promise<unknown>,
): AsyncIterableIterator<T, undefined> {
  return {
    next: () => reads.next(),
    return: async () => {
      await leave();
      reads.return(undefined).catch(() => undefined);
      return DONE;
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

function answerDemand<T>({ resolve, reject }: Demand<T>, failure: FeedFailure | undefined): void {
  if (failure === undefined) resolve(DONE);
  else reject(failure.cause);
}

/** Options of a backlog. */
interface BacklogOptions {
  readonly maxBacklog: number;
  /** Only values of this agent. The end of the run ends the reader in any case. */
  readonly agentId?: AgentId | undefined;
  readonly onClose: () => void;
}

export class Backlog<T extends { readonly agentId: AgentId }>
  extends Feed<T>
  implements AsyncIterableIterator<T, undefined>
{
  readonly #options: BacklogOptions;

  constructor(options: BacklogOptions) {
    super();
    this.#options = options;
  }

  take(value: T): void {
    const { agentId, maxBacklog } = this.#options;
    if (agentId !== undefined && value.agentId !== agentId) return;
    if (this.isAwaited || this.unreadCount < maxBacklog) this.add(value);
    else this.end({ cause: createOverflowError(maxBacklog) });
  }

  /**
   * Ends the reader, once the run has settled and everything is persisted. `failure` is the error
   * that the reader receives.
   */
  override end(failure?: FeedFailure): void {
    if (this.isOver) return;
    super.end(failure);
    this.#options.onClose();
  }

  return(): Promise<typeof DONE> {
    return Promise.resolve(this.leave());
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

function createOverflowError(maxBacklog: number): EspalierError {
  return new EspalierError({
    code: "backlog_overflow",
    message: `Cannot buffer more than ${maxBacklog} unread items: this reader is too slow. Read faster, or raise maxBacklog.`,
    data: { maxBacklog },
  });
}

export class Stepper
  extends Feed<PhaseReport>
  implements AsyncIterableIterator<PhaseReport, undefined>
{
  readonly #abandon: () => Promise<unknown>;
  /** True once the loop no longer waits. */
  #isOpen = false;
  #wakeLoop: (() => void) | undefined;

  /** Creates a stepper. `abandon` cancels the run when the caller leaves early. */
  constructor(abandon: () => Promise<unknown>) {
    super();
    this.#abandon = abandon;
  }

  /**
   * Lets the loop run freely: an ending agent must not wait for a caller that requests no phase.
   */
  open(): void {
    this.#isOpen = true;
    this.#wakeLoop?.();
  }

  /** Resolves when the loop may run the next phase. */
  pass(): Promise<void> {
    if (this.#isOpen || this.isAwaited) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wakeLoop = resolve;
    });
  }

  /** Passes a phase to the waiting caller, or buffers it. Resolves when the loop may continue. */
  step(report: PhaseReport): Promise<void> {
    this.add(deepFreeze(report));
    return this.pass();
  }

  override next(): Promise<IteratorResult<PhaseReport, undefined>> {
    const next = super.next();
    if (this.isAwaited) this.#wakeLoop?.();
    return next;
  }

  async return(): Promise<typeof DONE> {
    this.clear();
    if (!this.isOver) await this.#abandon();
    return this.leave();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** Step with streamed output. */
interface SaidStep {
  readonly source: StreamPartSource;
  /** `Infinity` if it has just begun. */
  readonly startedAtMs: number;
  /** Creates the stream parts of the step on demand. */
  readonly bodies: () => readonly StreamPartBody[];
}

/**
 * Returns a reader of the output of these agents in their present executions: each step once, by
 * start time. `undefined` without output.
 */
function readPastPieces(
  pieces: PartEmitter,
  agents: readonly AgentRuntime[],
): AsyncGenerator<StreamPart, undefined> | undefined {
  const { seq } = pieces;
  const steps = agents.flatMap((agent) => [...listSaidSteps(agent, pieces)]);
  if (steps.length === 0) return undefined;
  const ordered = steps.toSorted((left, right) => left.startedAtMs - right.startedAtMs);
  return makePieces();

  async function* makePieces(): AsyncGenerator<StreamPart, undefined> {
    for (const { source, bodies } of ordered)
      for (const body of [JOINED, ...bodies()]) yield Object.freeze({ ...source, seq, ...body });
    return undefined;
  }
}

/**
 * Yields the steps of an agent's present execution that have output, from its state and the live
 * reply. Omits a dropped reply; a reader that had a part of it receives a reset.
 */
function* listSaidSteps(agent: AgentRuntime, pieces: PartEmitter): Generator<SaidStep, void> {
  const { log, step } = agent.currentState;
  const underWay = pieces.findReply(agent.identity.agentId);
  for (const record of log.steps) {
    const { stepId, number: stepNumber, telemetry } = record;
    yield {
      source: agent.toPartSource({ stepId, stepNumber }),
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
    // Includes results since the state was recorded.
    const results = [...step.executions, ...(agent.endedCalls ?? [])].map(createResultBody);
    const createBodies = (): readonly StreamPartBody[] => [...listReplyPieces(reply), ...results];
    yield { source: agent.toPartSource({ stepId, stepNumber }), startedAtMs, bodies: createBodies };
  }
  if (underWay === undefined || underWay.source.stepId === last) return;
  const bodies = diffReply(underWay); // Copied at once, because more is emitted meanwhile.
  yield { source: underWay.source, startedAtMs: Infinity, bodies: () => bodies };
}

function listRecordedPieces({ io, tools }: StepRecord): readonly StreamPartBody[] {
  const { text, refusal } = io;
  const { calls: toolCalls, executions } = tools;
  const message = { role: "assistant", text, toolCalls, ...omitUndefined({ refusal }) } as const;
  return [
    ...listReplyPieces({ message, finishReason: io.finishReason }),
    ...executions.map(createResultBody),
  ];
}

/** Returns the stream parts of a whole reply. Empty for a reply without content. */
function listReplyPieces(reply: StepReply): readonly StreamPartBody[] {
  if (isUseless(reply)) return [];
  const { message, finishReason } = reply;
  return [...diffReply(asReply(message)), { type: "end", finishReason }];
}
