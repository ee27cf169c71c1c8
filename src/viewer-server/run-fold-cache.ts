// CachedRun: a run, folded up to the last journal record that was read. RunFoldCache: an LRU cache
// with at most eight runs or 256 MB.
//
// The journal is the only source. The owner of the run may wake the reader, but supplies no data.
// While a run is watched, its journal is polled every 100 ms, otherwise on request.

import type { Clock } from "../kernel/clock.ts";
import { EspalierError, type ErrorCode } from "../kernel/error.ts";
import { RunRecord } from "../orchestrator/durability/run-record.ts";
import { parseMail } from "../orchestrator/run/run-mail.ts";
import type { QuestionId, RunId } from "../protocol/ids.ts";
import type { StoredRun } from "../store/run-store.ts";
import { createUnknownRunError } from "../store/store-errors.ts";
import type { Store } from "../store/store.ts";
import { RunFold } from "../read-model/run-fold.ts";
import { findRefusal } from "../read-model/run-row.ts";
import type { RunSummary, RejectedAnswer } from "../read-model/viewer-data.ts";
import type { ShownContent } from "./shown-content.ts";

/** Dependencies of readers of runs. */
export interface ReaderDependencies {
  readonly store: Store;
  readonly clock: Clock;
  readonly content: ShownContent;
}

/** Contents of a run's mailbox that matter for its open questions, or for its pause. */
interface MailState {
  /** Questions with an answer that the owner process has not handled yet. */
  readonly answered: ReadonlySet<QuestionId>;
  /** Latest rejected answer of each question. */
  readonly rejected: ReadonlyMap<QuestionId, RejectedAnswer>;
  /** Why no process could continue the run. Absent if a process can. */
  readonly refusal?: RunSummary["reason"];
}

/** Poll interval of a watched run, and minimum interval of notifications. */
const LOOK_MS = 100;
/** Delay after which an event of this process is usually in the journal. */
const KEPT_MS = 20;
/** Estimated heap bytes of the fold and the reader, for each record and each agent. */
const HEAP_PER_RECORD = 100;
const HEAP_PER_AGENT = 8_000;

export class CachedRun {
  readonly runId: RunId;
  readonly fold: RunFold;
  mailed: MailState = NONE;
  /** Reader of the journal, with the content of steps. */
  readonly recorded: RunRecord;
  readonly #dependencies: ReaderDependencies;
  readonly #watchers = new Set<() => void>();
  #stored: StoredRun | undefined;
  #looking: Promise<void> | undefined;
  /** Times of the last new record and of the next poll. */
  #newsMs = -Infinity;
  #dueMs = -Infinity;
  #stopTimer: (() => void) | undefined;
  #failure: unknown;

  constructor(dependencies: ReaderDependencies, runId: RunId) {
    this.#dependencies = dependencies;
    this.runId = runId;
    this.fold = new RunFold(runId);
    this.recorded = new RunRecord(dependencies.store, runId);
  }

  get content(): ShownContent {
    return this.#dependencies.content;
  }

  /** Number of the last record in the fold. */
  get record(): number {
    return this.recorded.lineCount;
  }

  /** Estimated heap bytes of the run. */
  get heapBytes(): number {
    return this.record * HEAP_PER_RECORD + this.fold.agents.length * HEAP_PER_AGENT;
  }

  /** Facts of the store at the last read. Throws before the first read. */
  get stored(): StoredRun {
    if (this.#stored === undefined) throw new Error("The run was not read.");
    return this.#stored;
  }

  get isWatched(): boolean {
    return this.#watchers.size > 0;
  }

  /** True if the journal cannot be read. The run must be dropped from the cache. */
  get isBroken(): boolean {
    return this.#failure !== undefined;
  }

  /**
   * Folds the new records of the journal. Rejects with `unknown_run`, `invalid_journal`,
   * `unsupported_version` or `store_failed`.
   */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  /** Polls the journal and calls `hear` after each read. Returns a function that ends the watch. */
  watch(hear: () => void): () => void {
    this.#watchers.add(hear);
    this.#stopTimer ??= this.#lookLater();
    return () => {
      this.#watchers.delete(hear);
      if (this.#watchers.size > 0) return;
      this.#stopTimer?.();
      this.#stopTimer = undefined;
    };
  }

  /**
   * Brings the next poll forward, because the run changed in this process. Only for a watched run.
   */
  wake(): void {
    if (this.#stopTimer === undefined) return;
    const nowMs = this.#dependencies.clock.monotonicMs();
    const delayMs = Math.max(KEPT_MS, this.#newsMs + LOOK_MS - nowMs);
    if (nowMs + delayMs >= this.#dueMs) return;
    this.#stopTimer();
    this.#stopTimer = this.#lookLater(delayMs);
  }

  #lookLater(delayMs = LOOK_MS): () => void {
    const { clock } = this.#dependencies;
    this.#dueMs = clock.monotonicMs() + delayMs;
    return clock.setTimer(delayMs, () => void this.#lookAndTell());
  }

  async #lookAndTell(): Promise<void> {
    // Polling continues after a store failure. Watchers see an unreadable journal by `isBroken`.
    await this.look().catch(() => undefined);
    for (const hear of this.#watchers) hear();
    if (this.#stopTimer !== undefined) this.#stopTimer = this.#lookLater();
  }

  async #look(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    const { store, clock } = this.#dependencies;
    const stored = await store.find(this.runId);
    if (stored === undefined) throw createUnknownRunError(this.runId);
    if (stored.recordCount > this.record) {
      this.#newsMs = clock.monotonicMs();
      await this.#readOn();
    }
    const hasMail = this.fold.questions.length > 0 || stored.status === "paused";
    this.mailed = hasMail ? await this.#readMail(stored) : NONE;
    this.#stored = stored;
  }

  async #readOn(): Promise<void> {
    const { content } = this.#dependencies;
    try {
      await this.recorded.advance((event, line) => this.fold.apply(content.showEvent(event), line));
    } catch (cause) {
      if (EspalierError.is(cause) && FOR_GOOD.has(cause.code)) this.#failure = cause;
      throw cause;
    }
  }

  async #readMail({ status }: StoredRun): Promise<MailState> {
    const { store, content } = this.#dependencies;
    const handled = new Set(this.recorded.handledMail);
    const answered = new Set<QuestionId>();
    const rejected = new Map<QuestionId, RejectedAnswer>();
    const posts = await store.readMail(this.runId);
    for (const post of posts) {
      const mail = parseMail(post)?.mail;
      if (mail?.type !== "answer") continue;
      const { questionId } = mail.answer;
      const problem = this.recorded.rejectedAnswers.get(post.number);
      if (!handled.has(post.number)) answered.add(questionId);
      else if (problem !== undefined)
        rejected.set(questionId, { number: post.number, problem: content.showText(problem) });
    }
    const refusal = status === "paused" ? findRefusal(posts, this.recorded.handledMail) : undefined;
    return {
      answered,
      rejected,
      ...(refusal && { refusal: { ...refusal, message: content.showText(refusal.message) } }),
    };
  }
}

const FOR_GOOD: ReadonlySet<ErrorCode> = new Set(["invalid_journal", "unsupported_version"]);
const NONE: MailState = { answered: new Set(), rejected: new Map() };

const MAX_RUNS = 8;
const MAX_BYTES = 256_000_000;

export class RunFoldCache {
  readonly #dependencies: ReaderDependencies;
  /** Least recently used first. */
  readonly #runs = new Map<RunId, CachedRun>();

  constructor(dependencies: ReaderDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Returns the run, folded up to the present end of its journal. Rejects like `CachedRun.look`.
   */
  async look(runId: RunId): Promise<CachedRun> {
    const run = this.#runs.get(runId) ?? new CachedRun(this.#dependencies, runId);
    this.#runs.delete(runId);
    this.#runs.set(runId, run);
    try {
      await run.look();
    } catch (cause) {
      if (run.isBroken || run.record === 0) this.#drop(run);
      throw cause;
    } finally {
      this.#makeRoom(run);
    }
    return run;
  }

  /** Returns the run, if it is in the cache. */
  find(runId: RunId): CachedRun | undefined {
    return this.#runs.get(runId);
  }

  /** True if one more run fits without an eviction. */
  get hasRoom(): boolean {
    return this.#runs.size < MAX_RUNS && this.#bytes < MAX_BYTES;
  }

  /** Returns true if one more run can be watched. */
  canWatch(run: CachedRun): boolean {
    return (
      run.isWatched || [...this.#runs.values()].filter((other) => other.isWatched).length < MAX_RUNS
    );
  }

  get #bytes(): number {
    return [...this.#runs.values()].reduce((sum, { heapBytes }) => sum + heapBytes, 0);
  }

  #drop(run: CachedRun): void {
    if (this.#runs.get(run.runId) === run) this.#runs.delete(run.runId);
  }

  /** Evicts runs, except watched ones and the latest one. */
  #makeRoom(latest: CachedRun): void {
    let bytes = this.#bytes;
    for (const run of this.#runs.values()) {
      if (this.#runs.size <= MAX_RUNS && bytes <= MAX_BYTES) return;
      if (run === latest || run.isWatched) continue;
      this.#runs.delete(run.runId);
      bytes -= run.heapBytes;
    }
  }
}
