// HeldRun: one run, folded as far as its journal was read. HeldRuns: an LRU cache of them, of eight runs
// or 256 MB at most.
//
// V2. The journal is the one source. What leads the run may wake the reader; nothing of the run is taken from there.
// V3. With a watcher, the journal is looked at every 100 ms, else on request.

import type { Clock } from "../kernel/clock.ts";
import { EspalierError, type ErrorCode } from "../kernel/error.ts";
import { RunRecord } from "../orchestrator/durability/run-record.ts";
import { parseMail } from "../orchestrator/run/run-mail.ts";
import type { QuestionId, RunId } from "../protocol/ids.ts";
import type { StoredRun } from "../store/run-store.ts";
import { unknownRun } from "../store/store-errors.ts";
import type { Store } from "../store/store.ts";
import { RunFold } from "../view/run-fold.ts";
import { findRefusal } from "../view/run-row.ts";
import type { RunSummary, VainPost } from "../view/viewer-data.ts";
import type { ShownContent } from "./shown-content.ts";

/** What runs are read with. */
export interface ReadingMeans {
  readonly store: Store;
  readonly clock: Clock;
  readonly content: ShownContent;
}

/** What its mailbox has of the open questions of a run, and of a run that rests. */
interface HeldMail {
  /** Those with an answer that the process that leads the run has not taken yet. */
  readonly answered: ReadonlySet<QuestionId>;
  /** The last answers that were taken and came to nothing. */
  readonly vain: ReadonlyMap<QuestionId, VainPost>;
  /** Why no process could lead the run, if it rests for that. */
  readonly refusal?: RunSummary["reason"];
}

/** How often a run with a watcher is looked at, and at most how often its watchers are notified. */
const LOOK_MS = 100;
/** What has happened in this process is in its journal soon after, if something waits for that. */
const KEPT_MS = 20;
/** Bytes of the heap, roughly: what the fold and the reader keep for each record, and for each agent. */
const HEAP_PER_RECORD = 100;
const HEAP_PER_AGENT = 8_000;

export class HeldRun {
  readonly runId: RunId;
  readonly fold: RunFold;
  mailed: HeldMail = NONE;
  /** What its agents did, with its content. */
  readonly recorded: RunRecord;
  readonly #means: ReadingMeans;
  readonly #watchers = new Set<() => void>();
  #stored: StoredRun | undefined;
  #looking: Promise<void> | undefined;
  /** When something new was found last, and when it is looked for next. */
  #newsMs = -Infinity;
  #dueMs = -Infinity;
  #stopTimer: (() => void) | undefined;
  #failure: unknown;

  constructor(means: ReadingMeans, runId: RunId) {
    this.#means = means;
    this.runId = runId;
    this.fold = new RunFold(runId);
    this.recorded = new RunRecord(means.store, runId);
  }

  get content(): ShownContent {
    return this.#means.content;
  }

  /** The number of the last record that is in the fold. */
  get record(): number {
    return this.recorded.lineCount;
  }

  /** What it takes of the heap, roughly. */
  get heapBytes(): number {
    return this.record * HEAP_PER_RECORD + this.fold.agents.length * HEAP_PER_AGENT;
  }

  /** What the store said of it last. Throws before it was looked at. */
  get stored(): StoredRun {
    if (this.#stored === undefined) throw new Error("The run was not read.");
    return this.#stored;
  }

  get isWatched(): boolean {
    return this.#watchers.size > 0;
  }

  /** True if it cannot be read: it has to be read anew. */
  get isBroken(): boolean {
    return this.#failure !== undefined;
  }

  /** Takes in what the journal has by now. Rejects with `unknown_run`, `invalid_journal`, `unsupported_version` or `store_failed`. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  /** Calls `hear` after each look from now on, until the result is called. Looks by itself meanwhile. */
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

  /** Something has happened in it: with a watcher that was not notified just now, look as soon as that may be kept. */
  wake(): void {
    if (this.#stopTimer === undefined) return;
    const nowMs = this.#means.clock.monotonicMs();
    const delayMs = Math.max(KEPT_MS, this.#newsMs + LOOK_MS - nowMs);
    if (nowMs + delayMs >= this.#dueMs) return;
    this.#stopTimer();
    this.#stopTimer = this.#lookLater(delayMs);
  }

  #lookLater(delayMs = LOOK_MS): () => void {
    const { clock } = this.#means;
    this.#dueMs = clock.monotonicMs() + delayMs;
    return clock.setTimer(delayMs, () => void this.#lookAndTell());
  }

  async #lookAndTell(): Promise<void> {
    await this.look().catch(() => undefined); // A store that fails is asked again; of a journal that cannot be read the watchers are notified.
    for (const hear of this.#watchers) hear();
    if (this.#stopTimer !== undefined) this.#stopTimer = this.#lookLater();
  }

  async #look(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    const { store, clock } = this.#means;
    const stored = await store.find(this.runId);
    if (stored === undefined) throw unknownRun(this.runId);
    if (stored.recordCount > this.record) {
      this.#newsMs = clock.monotonicMs();
      await this.#readOn();
    }
    const hasMail = this.fold.questions.length > 0 || stored.status === "paused";
    this.mailed = hasMail ? await this.#readMail(stored) : NONE;
    this.#stored = stored;
  }

  async #readOn(): Promise<void> {
    const { content } = this.#means;
    try {
      await this.recorded.advance((event, line) => this.fold.take(content.event(event), line));
    } catch (cause) {
      if (EspalierError.is(cause) && FOR_GOOD.has(cause.code)) this.#failure = cause;
      throw cause;
    }
  }

  async #readMail({ status }: StoredRun): Promise<HeldMail> {
    const { store, content } = this.#means;
    const handled = new Set(this.recorded.handledPosts);
    const answered = new Set<QuestionId>();
    const vain = new Map<QuestionId, VainPost>();
    const posts = await store.posts(this.runId);
    for (const one of posts) {
      const mail = parseMail(one)?.mail;
      if (mail?.type !== "answer") continue;
      const { questionId } = mail.answer;
      const problem = this.recorded.vainPosts.get(one.number);
      if (!handled.has(one.number)) answered.add(questionId);
      else if (problem !== undefined)
        vain.set(questionId, { number: one.number, problem: content.text(problem) });
    }
    const refusal =
      status === "paused" ? findRefusal(posts, this.recorded.handledPosts) : undefined;
    return {
      answered,
      vain,
      ...(refusal && { refusal: { ...refusal, message: content.text(refusal.message) } }),
    };
  }
}

const FOR_GOOD: ReadonlySet<ErrorCode> = new Set(["invalid_journal", "unsupported_version"]);
const NONE: HeldMail = { answered: new Set(), vain: new Map() };

const MOST_RUNS = 8;
const MOST_BYTES = 256_000_000;

export class HeldRuns {
  readonly #means: ReadingMeans;
  /** Least recently asked for first. */
  readonly #runs = new Map<RunId, HeldRun>();

  constructor(means: ReadingMeans) {
    this.#means = means;
  }

  /** The run, as its journal is now. Rejects like `HeldRun.look`. */
  async look(runId: RunId): Promise<HeldRun> {
    const run = this.#runs.get(runId) ?? new HeldRun(this.#means, runId);
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

  /** The run, if it is held. */
  find(runId: RunId): HeldRun | undefined {
    return this.#runs.get(runId);
  }

  /** True if one more can be held, and none has to go for it. */
  get hasRoom(): boolean {
    return this.#runs.size < MOST_RUNS && this.#bytes < MOST_BYTES;
  }

  /** Whether one more can be watched. */
  canWatch(run: HeldRun): boolean {
    return (
      run.isWatched || [...this.#runs.values()].filter((one) => one.isWatched).length < MOST_RUNS
    );
  }

  get #bytes(): number {
    return [...this.#runs.values()].reduce((sum, { heapBytes }) => sum + heapBytes, 0);
  }

  #drop(run: HeldRun): void {
    if (this.#runs.get(run.runId) === run) this.#runs.delete(run.runId);
  }

  /** One that is watched stays, and so does the one that is asked for now. */
  #makeRoom(latest: HeldRun): void {
    let bytes = this.#bytes;
    for (const run of this.#runs.values()) {
      if (this.#runs.size <= MOST_RUNS && bytes <= MOST_BYTES) return;
      if (run === latest || run.isWatched) continue;
      this.#runs.delete(run.runId);
      bytes -= run.heapBytes;
    }
  }
}
