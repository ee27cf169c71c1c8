// HeldRun: one run as its journal has it so far, folded. Owns how far the journal was read, and who wants to be told of what is new.
//
// V2. The journal is the one source. What leads the run may wake the reader; nothing of the run is taken from there.
// V3. While somebody watches, the journal is looked at every 100 ms, else when somebody asks.

import type { Clock } from "../kernel/clock.ts";
import { isRecord } from "../kernel/json.ts";
import { endOfTurn } from "../kernel/throttle.ts";
import { invalidJournal } from "../orchestrator/durability/fold-journal.ts";
import { JournalReader } from "../orchestrator/durability/journal-reader.ts";
import { keptEvent } from "../orchestrator/durability/open-spans.ts";
import { mailIn } from "../orchestrator/run/run-mail.ts";
import { EspalierError } from "../kernel/error.ts";
import type { QuestionId, RunId } from "../protocol/ids.ts";
import type { StoredRun } from "../store/run-store.ts";
import { unknownRun } from "../store/store-errors.ts";
import type { Store } from "../store/store.ts";
import { RunFold } from "../view/run-fold.ts";
import type { ShownContent } from "./shown-content.ts";

/** What runs are read with. */
export interface ReadingMeans {
  readonly store: Store;
  readonly clock: Clock;
  readonly content: ShownContent;
}

/** How often a run is looked at that somebody watches, and how often it is told of at most. */
const LOOK_MS = 100;
/** What has happened in this process is in its journal soon after, if something waits for that. */
const KEPT_MS = 20;
/** So many records are read in one turn of the event loop, so that other work of the process continues meanwhile. */
const RECORDS_PER_TURN = 200;
/** Bytes of the heap for each byte of a journal: what the fold and the reader keep of it. Measured; the upper end. */
const HEAP_PER_BYTE = 0.5;

export class HeldRun {
  readonly runId: RunId;
  readonly fold: RunFold;
  readonly #means: ReadingMeans;
  readonly #reader = new JournalReader();
  readonly #watchers = new Set<() => void>();
  /** Lines that were read. */
  #read = 0;
  #bytes = 0;
  #heeded = new Set<number>();
  #answered: ReadonlySet<QuestionId> = new Set();
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
  }

  get content(): ShownContent {
    return this.#means.content;
  }

  /** The number of the last record that is in the fold. */
  get record(): number {
    return this.#read;
  }

  /** What it takes of the heap, roughly. */
  get heapBytes(): number {
    return this.#bytes * HEAP_PER_BYTE;
  }

  /** What the store said of it last. Throws before it was looked at. */
  get stored(): StoredRun {
    if (this.#stored === undefined) throw new Error("The run was not looked at.");
    return this.#stored;
  }

  /** Questions that have an answer in the mailbox, which whoever leads the run has not taken yet. */
  get answered(): ReadonlySet<QuestionId> {
    return this.#answered;
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

  /** Something has happened in it: it is looked at as soon as that may be kept, if somebody watches and was not told of something just now. */
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
    await this.look().catch(() => undefined); // A store that fails is asked again; a journal that cannot be read is told of.
    for (const hear of this.#watchers) hear();
    if (this.#stopTimer !== undefined) this.#stopTimer = this.#lookLater();
  }

  async #look(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    const { store, clock } = this.#means;
    const stored = await store.find(this.runId);
    if (stored === undefined) throw unknownRun(this.runId);
    if (stored.recordCount > this.#read) {
      this.#newsMs = clock.monotonicMs();
      await this.#readOn();
    }
    this.#answered = this.fold.questions.length === 0 ? NONE : await this.#answeredByMail();
    this.#stored = stored;
  }

  async #readOn(): Promise<void> {
    let records = 0;
    for await (const line of this.#means.store.read(this.runId, this.#read + 1)) {
      records += this.#take(line);
      if (records < RECORDS_PER_TURN) continue;
      await endOfTurn();
      records = 0;
    }
  }

  /** Gives how many records there were in the line. */
  #take(line: string): number {
    this.#read += 1;
    this.#bytes += line.length;
    try {
      const values = this.#reader.values(line);
      for (const value of values) this.#takeRecord(value);
      return values.length;
    } catch (cause) {
      const isNewer = EspalierError.is(cause) && cause.code === "unsupported_version";
      this.#failure = isNewer ? cause : invalidJournal(this.runId, this.#read, cause);
      throw this.#failure;
    }
  }

  #takeRecord(record: unknown): void {
    if (!isRecord(record)) return;
    if (record["type"] === "post") this.#heeded.add(Number(record["number"]));
    const event = record["type"] === "event" ? keptEvent(record["event"]) : undefined;
    if (event !== undefined) this.fold.take(this.#means.content.event(event), this.#read);
  }

  async #answeredByMail(): Promise<ReadonlySet<QuestionId>> {
    const posts = await this.#means.store.posts(this.runId);
    return new Set(
      posts.flatMap((post) => {
        const mail = this.#heeded.has(post.number) ? undefined : mailIn(post)?.mail;
        return mail?.type === "answer" ? [mail.answer.questionId] : [];
      }),
    );
  }
}

const NONE: ReadonlySet<QuestionId> = new Set();
