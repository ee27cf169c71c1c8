// Journal: persists the records of a run in order. Owns the records that are not written yet, the
// waits for them, and the right to write.
//
// D1. Code that acts on a record first waits for `whenPersisted`. The records of a turn of the
// event loop are written as one batch. At the end of the turn every agent waits, so each batch ends
// in a state that can be continued. Events alone do not cause a write, except questions: they are
// written with the next record, or after a short delay.
// D6. Transient failures of the store are retried. After a lasting failure the journal is broken:
// it accepts no records, no wait for a record resolves, and the run stops as after a crash, so that
// it can be recovered.
// D7. A released run begins nothing further. From then on no wait for a record resolves, except of
// calls whose begin is recorded. Results of work in progress are persisted until the journal is
// handed over. Then the journal accepts no records and the run emits no events; the next owner
// continues the event numbers after the last persisted one.

import type { Clock } from "../../kernel/clock.ts";
import { waitForTurnEnd } from "../../kernel/throttle.ts";
import { sleep } from "../../kernel/cancel-signal.ts";
import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { runOutsideScopes } from "../../protocol/correlation.ts";
import type { Ownership, Mail, RunStore, StoredStatus } from "../../store/run-store.ts";
import { createStoreError } from "../../store/store-errors.ts";
import type { JournalRecord } from "./journal-record.ts";
import { RecordCodec } from "./record-codec.ts";

export const DEFAULT_STALE_AFTER_MS = 30_000;
export const DEFAULT_HEARTBEAT_MS = 5_000;
export const DEFAULT_MAX_CRASHES = 5;
/** Delay of events that nothing waits for and nothing follows. */
const EVENT_DELAY_MS = 100;
/** Delays between attempts at a store that may recover. */
const RETRY_DELAYS_MS = [20, 100, 500, 2_000, 5_000] as const;

/** Store of runs, with its clock and intervals. */
export interface RunStorage {
  readonly store: RunStore;
  readonly clock: Clock;
  /** Interval of the owner's heartbeats. */
  readonly heartbeatIntervalMs: number;
  /** Time without a heartbeat after which another process may take the run over. */
  readonly staleAfterMs: number;
}

export interface JournalOptions extends RunStorage {
  /** Creates or claims the journal in the store. */
  readonly open: () => Promise<OpenJournal>;
  /** True if this process already owns the run. Default `false`. */
  readonly isClaimed?: boolean;
  /** Codec that has read the journal, if it continues. Default: a new one. */
  readonly codec?: RecordCodec;
}

/** Right to write a journal. */
export interface OpenJournal {
  readonly ownership: Ownership;
  /** Number of lines so far. */
  readonly recordCount: number;
  /** Numbers of mail that was handled before. */
  readonly posts: readonly number[];
}

/**
 * Why a caller waits for persistence: to begin something, to end something in progress, or at the
 * end of the run.
 */
type Purpose = "begin" | "underWay" | "end";

interface RecordWaiter {
  readonly number: number;
  readonly purpose: Purpose;
  readonly resolve: () => void;
}

export class Journal {
  /** Rejects when the store has failed for good. Never resolves. */
  readonly broken: Promise<never>;
  readonly #options: JournalOptions;
  readonly #codec: RecordCodec;
  readonly #break: (cause: unknown) => void;
  readonly #waiters: RecordWaiter[] = [];
  /** Numbers of records that were added and that are persisted. */
  #last = 0;
  #persisted = 0;
  /** Number of the last event that was added. */
  #lastSeq = 0;
  #onPersisted: (seq: number) => void = () => undefined;
  /** Number of persisted lines. */
  #lineCount = 0;
  #opened: OpenJournal | undefined;
  /** Handled mail: all numbers up to one, and some later ones. */
  readonly #handled = { upTo: 0, later: new Set<number>() };
  readonly #claim = Promise.withResolvers<void>();
  /** Number of records to be written without a delay. */
  #due = 0;
  /** True while the run waits for a slot, so that the loss of its owner is not a crash. */
  isQueued = false;
  /** Work was completed since the last batch. */
  #hasProgress = false;
  #isWriting = false;
  #isBroken = false;
  /** Waits that would begin something do not resolve (D7). */
  #isSuspended = false;
  /** The last write is in progress, because the run settled or is released. */
  #isClosing = false;
  /** The run was released. */
  #isGivenUp = false;
  #stopBeating: () => void = () => undefined;
  #stopDelay: (() => void) | undefined;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#codec = options.codec ?? new RecordCodec();
    const { promise, reject } = Promise.withResolvers<never>();
    this.broken = promise;
    this.broken.catch(() => undefined);
    this.#break = reject;
  }

  /** Adds a record, which is written a little later. */
  append(record: JournalRecord): void {
    if (this.hasGivenUp) return;
    this.#codec.add(record);
    if (record.type === "post") this.#noteHandled(record.number);
    this.#last += 1;
    if (record.type !== "event") return this.#writeSoon();
    this.#lastSeq = record.event.seq;
    // A reader of the question may answer it at once, through the store.
    if (record.event.type === "question.asked") this.#writeSoon();
    else this.#writeLater();
  }

  /** Records that a step or a tool call is complete, which resets the crash count in the store. */
  noteProgress(): void {
    this.#hasProgress = true;
  }

  /**
   * Reports the number of the last persisted event: 0 at once, and later numbers before
   * `whenPersisted` resolves.
   */
  onPersisted(onKept: (seq: number) => void): void {
    this.#onPersisted = onKept;
    onKept(0);
  }

  /** Resolves once all records so far are persisted. Never resolves if the journal is broken. */
  whenPersisted(): Promise<void> {
    return this.#isSuspended ? this.#wait("begin") : this.#whenWritten("begin");
  }

  /**
   * Like `whenPersisted`, for a call whose begin is recorded: it may continue while a release waits
   * for calls in progress.
   */
  whenBeginPersisted(): Promise<void> {
    return this.#whenWritten("underWay");
  }

  /** True if nothing is recorded any more, because the run was released or its store failed. */
  get hasGivenUp(): boolean {
    return this.#isBroken || this.#isGivenUp;
  }

  /** True if nothing further may begin. */
  get isSuspended(): boolean {
    return this.#isSuspended;
  }

  #whenWritten(purpose: Purpose): Promise<void> {
    if (this.#persisted === this.#last && !this.#isBroken) return Promise.resolve();
    return this.#wait(purpose);
  }

  #wait(purpose: Purpose): Promise<void> {
    this.#writeSoon();
    const number = this.#last;
    return new Promise((resolve) => this.#waiters.push({ number, purpose, resolve }));
  }

  #mayLearn(purpose: Purpose): boolean {
    return purpose === "end" || !(purpose === "begin" ? this.#isSuspended : this.#isClosing);
  }

  /**
   * Prevents anything further from beginning. Returns `false` if the run is over or its journal is
   * broken.
   */
  suspend(): boolean {
    if (this.#isBroken || this.#isClosing) return false;
    this.#isSuspended = true;
    return true;
  }

  /** Undoes `suspend`, so that waits resolve again. Returns `false` if it is too late. */
  resume(): boolean {
    if (this.#isBroken || this.#isClosing) return false;
    this.#isSuspended = false;
    void this.#resolve();
    return true;
  }

  /**
   * Persists the remaining records, and releases the run. Breaks the journal with this error.
   * Returns `false` if the journal is broken for another reason, or the run is over.
   */
  async releaseRun(why: EspalierError): Promise<boolean> {
    await waitForTurnEnd(); // The last batch also ends with a turn (D1).
    if (!this.#isSuspended || this.#isBroken || this.#isClosing) return false;
    this.#isClosing = true;
    this.#isGivenUp = true;
    await Promise.race([this.#whenWritten("end"), this.broken]).catch(() => undefined);
    if (this.#isBroken) return false;
    this.abandon(); // Before the release, since later records would be rejected.
    await this.#release("open");
    this.#break(why);
    return true;
  }

  /** Returns the mail of the run that was not handled yet, in order. Rejects like the store. */
  async readUnreadMail(): Promise<readonly Mail[]> {
    if (this.#opened === undefined || this.#isBroken) return [];
    const { runId } = this.#opened.ownership;
    const posts = await this.#options.store.readMail(runId, this.#handled.upTo + 1);
    return posts.filter(({ number }) => !this.#hasHandled(number));
  }

  #hasHandled(number: number): boolean {
    return number <= this.#handled.upTo || this.#handled.later.has(number);
  }

  #noteHandled(number: number): void {
    const handled = this.#handled;
    handled.later.add(number);
    while (handled.later.delete(handled.upTo + 1)) handled.upTo += 1;
  }

  /**
   * Resolves once the store has granted the ownership. Never resolves if the store refuses.
   * `undefined` if this process already owns the run.
   */
  whenClaimed(): Promise<void> | undefined {
    const { isClaimed = false } = this.#options;
    return isClaimed || this.#opened !== undefined ? undefined : this.#claim.promise;
  }

  /**
   * Persists the rest and releases the run. Rejects if the journal is broken. Ignores a failing
   * release, because everything is persisted, and the ownership ends without heartbeats.
   */
  async close(status: "paused" | "ended"): Promise<void> {
    this.#isClosing = true;
    await Promise.race([this.#whenWritten("end"), this.broken]);
    this.#stopTimers();
    await this.#release(status);
  }

  async #release(status: StoredStatus): Promise<void> {
    const { store, clock } = this.#options;
    const opened = this.#opened;
    if (opened === undefined) return;
    // Unread mail is for the next owner of the run, so the run stays open.
    const { upTo } = this.#handled;
    await retry(clock, () => store.release(opened.ownership, status, upTo)).catch(() => undefined);
  }

  /** Stops writing and sending heartbeats, so that the next process can take the run over. */
  abandon(): void {
    this.#isBroken = true;
    this.#stopTimers();
  }

  #stopTimers(): void {
    this.#stopBeating();
    this.#stopDelay?.();
  }

  /** Writes at the end of this turn. */
  #writeSoon(): void {
    if (this.#isBroken) return;
    this.#due = this.#last;
    if (this.#isWriting) return;
    this.#isWriting = true;
    runOutsideScopes(() => setImmediate(() => void this.#write()));
  }

  #writeLater(): void {
    if (this.#isWriting || this.#stopDelay !== undefined) return;
    const write = (): void => {
      this.#stopDelay = undefined;
      if (this.#last > this.#persisted) this.#writeSoon();
    };
    this.#stopDelay = runOutsideScopes(() => this.#options.clock.setTimer(EVENT_DELAY_MS, write));
  }

  async #write(): Promise<void> {
    if (this.#isBroken) return;
    const { store, clock } = this.#options;
    try {
      const { ownership, recordCount } = this.#opened ?? (await this.#open());
      while (this.#due > this.#persisted && !this.#isBroken) {
        const last = this.#last;
        const seq = this.#lastSeq;
        const records = this.#codec.take();
        const firstNumber = recordCount + this.#lineCount + 1;
        const { isQueued } = this;
        const batch = { firstNumber, records, hasProgress: this.#hasProgress, isQueued };
        this.#hasProgress = false;
        await retry(clock, () => store.append(ownership, batch));
        this.#lineCount += records.length;
        this.#persisted = last;
        if (seq > 0) this.#onPersisted(seq);
        await this.#resolve();
      }
      this.#isWriting = false;
      if (this.#last > this.#persisted && !this.#isBroken) this.#writeLater();
    } catch (cause) {
      this.#fail(cause);
    }
  }

  async #open(): Promise<OpenJournal> {
    this.#opened = await this.#options.open();
    for (const number of this.#opened.posts) this.#noteHandled(number);
    this.#beatLater();
    await waitForTurnEnd();
    this.#claim.resolve();
    return this.#opened;
  }

  /**
   * Resolves one wait in each turn of the event loop: its continuation runs before the next one, so
   * that a replay has the same order, and a run that is released in between begins nothing further
   * (D7).
   */
  async #resolve(): Promise<void> {
    let index = 0;
    let waiter = this.#waiters[index];
    while (waiter !== undefined) {
      if (waiter.number > this.#persisted || !this.#mayLearn(waiter.purpose)) index += 1;
      else {
        this.#waiters.splice(index, 1);
        waiter.resolve();
        await waitForTurnEnd();
      }
      waiter = this.#waiters[index];
    }
    await waitForTurnEnd();
  }

  #beatLater(): void {
    const { clock, heartbeatIntervalMs } = this.#options;
    this.#stopBeating = clock.setTimer(heartbeatIntervalMs, () => void this.#beat());
  }

  async #beat(): Promise<void> {
    if (this.#opened === undefined || this.#isBroken) return;
    this.#beatLater();
    try {
      await this.#options.store.heartbeat(this.#opened.ownership);
    } catch (cause) {
      // A heartbeat that arrives after the last write is rejected. That is not a failure: the last
      // write reports its own.
      if (!isTransient(cause) && !this.#isClosing) this.#fail(cause);
    }
  }

  #fail(cause: unknown): void {
    if (this.#isBroken) return;
    this.abandon();
    const message = `Cannot persist the run: the store failed with: ${getErrorMessage(cause)}. The run stopped at its last record. Resume it once the store works.`;
    this.#break(EspalierError.is(cause) ? cause : createStoreError("other", message, cause));
  }
}

/**
 * Sends a request to a store, and retries transient failures. A failed request may have been
 * executed: requests to a store are idempotent.
 */
export async function retry<Answer>(clock: Clock, ask: () => Promise<Answer>): Promise<Answer> {
  for (const delayMs of RETRY_DELAYS_MS) {
    try {
      return await ask();
    } catch (cause) {
      if (!isTransient(cause)) throw cause;
      await sleep(clock, delayMs);
    }
  }
  return await ask();
}

function isTransient(cause: unknown): boolean {
  return EspalierError.is(cause) && cause.data["isTransient"] === true;
}

/** Public members of a journal. */
export type JournalWriter = Pick<Journal, keyof Journal>;
