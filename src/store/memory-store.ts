// Store in the memory of the process, and the reference implementation. Its data ends with the
// process. Owns runs with their journals and mailboxes, and sessions.

import { checkKeys } from "../kernel/argument-checks.ts";
import { systemClock, type Clock } from "../kernel/clock.ts";
import type { RunId, SessionId } from "../protocol/ids.ts";
import {
  checkFree,
  checkHeld,
  countsAsCrash,
  hasAlready,
  hasReleased,
  isProcessGone,
  classifyBatchPosition,
  getHostname,
  type Holding,
} from "./ownership-rules.ts";
import type {
  ClaimOptions,
  JournalBatch,
  Ownership,
  Mail,
  RunFilter,
  RunOwner,
  StoredRun,
  StoredStatus,
} from "./run-store.ts";
import type { StoredSession } from "./session-store.ts";
import {
  copyBatch,
  checkExpectedVersion,
  checkFilter,
  checkId,
  copyOwner,
  copyMail,
  checkStaleAfterMs,
  checkStoredText,
  resolveFirstNumber,
  resolveLastMail,
  resolveListLimit,
  readLimit,
  sanitizeTitle,
} from "./store-arguments.ts";
import {
  conflictError,
  createRunEndedError,
  createRunExistsError,
  createSessionConflictError,
  createStoreClosedError,
  createUnknownRunError,
} from "./store-errors.ts";
import type { Store } from "./store.ts";

/** Options of `memoryStore`. */
export interface MemoryStoreOptions {
  /**
   * Clock for time stamps and heartbeats.
   *
   * @default the system clock
   */
  readonly clock?: Clock;
}

/**
 * Creates a store in memory, for tests and for runs that need not survive the process.
 *
 * @throws EspalierError `invalid_argument` if an option is unknown.
 *
 * @example
 * ```ts
 * const orchestrator = new Orchestrator({ store: memoryStore() });
 * ```
 */
export function memoryStore(options: MemoryStoreOptions = {}): Store {
  checkKeys("memoryStore", options, ["clock"]);
  return new MemoryStore(options.clock ?? systemClock);
}

/** Eviction options of a memory store. */
export interface Forgetting {
  readonly clock: Clock;
  /** Approximate limit. Runs that have not ended, and the run that ended last, may exceed it. */
  readonly mostBytes: number;
  readonly onForgotten: (runId: RunId) => void;
}

/**
 * Creates a memory store that evicts ended runs, oldest first, once all runs exceed the limit.
 * Sessions are not evicted.
 */
export function createEvictingStore({ clock, ...forgetting }: Forgetting): Store {
  return new MemoryStore(clock, forgetting);
}

interface Entry {
  run: StoredRun;
  /** Size of the run's records. */
  bytes: number;
  /** Token of the last owner. */
  token: string;
  /** Time of the owner's last heartbeat, by the monotonic clock. */
  beatMs: number;
  /** Grows in place. */
  readonly records: string[];
  /** Mail by key, in order. Grows in place. */
  readonly posts: Map<string, Mail>;
}

class MemoryStore implements Store {
  readonly #clock: Clock;
  /** In order of creation. */
  readonly #runs = new Map<RunId, Entry>();
  /** In order of writing. */
  readonly #sessions = new Map<SessionId, StoredSession>();
  readonly #forgetting: Omit<Forgetting, "clock"> | undefined;
  /** Size of all records. */
  #bytes = 0;
  #endedLast: RunId | undefined;
  #isClosed = false;

  constructor(clock: Clock, forgetting?: Omit<Forgetting, "clock">) {
    this.#clock = clock;
    this.#forgetting = forgetting;
  }

  async create(runId: RunId, title: string, claimant: RunOwner): Promise<Ownership> {
    this.#check("runId", runId);
    const owner = copyOwner(claimant);
    const entry = this.#runs.get(runId);
    const ownership = { runId, token: owner.token, epoch: 1 };
    if (entry !== undefined) {
      const { epoch, recordCount } = entry.run;
      const isFresh = epoch === 1 && recordCount === 0;
      if (isFresh && hasAlready(this.#createHolding(entry), owner)) return ownership;
      throw createRunExistsError(runId);
    }
    const nowMs = this.#clock.nowMs();
    const run: StoredRun = {
      runId,
      status: "open",
      title: sanitizeTitle(title),
      epoch: 1,
      recordCount: 0,
      owner,
      createdAtMs: nowMs,
      updatedAtMs: nowMs,
      heartbeatAtMs: nowMs,
      crashCount: 0,
      lastCrashAtMs: null,
      isQueued: false,
    };
    const beatMs = this.#clock.monotonicMs();
    const { token } = owner;
    this.#runs.set(runId, { run, bytes: 0, token, beatMs, records: [], posts: new Map() });
    return ownership;
  }

  async claim(runId: RunId, options: ClaimOptions): Promise<Ownership> {
    this.#check("runId", runId);
    const { staleAfterMs, takeOver = false, ownerLost = false } = options;
    const owner = copyOwner(options.owner);
    checkStaleAfterMs(staleAfterMs);
    const entry = this.#find(runId);
    const holding = this.#createHolding(entry);
    if (hasAlready(holding, owner)) return { runId, token: owner.token, epoch: holding.epoch };
    const claimant = { runId, hostname: owner.hostname, staleAfterMs, isProcessGone };
    const isCrash = countsAsCrash(holding, { claimant, takeOver, ownerLost });
    const nowMs = this.#clock.nowMs();
    const crash = isCrash ? { crashCount: entry.run.crashCount + 1, lastCrashAtMs: nowMs } : {};
    const epoch = entry.run.epoch + 1;
    entry.token = owner.token;
    const isQueued = false;
    this.#beat(entry, { epoch, status: "open", owner, updatedAtMs: nowMs, isQueued, ...crash });
    return { runId, token: owner.token, epoch };
  }

  async append(ownership: Ownership, submitted: JournalBatch): Promise<void> {
    this.#check("runId", ownership.runId);
    const batch = copyBatch(submitted);
    const entry = this.#getHeld(ownership);
    const { records, run } = entry;
    const { firstNumber, isQueued = false } = batch;
    const place = classifyBatchPosition(batch, records.length);
    const isSame =
      place === "taken" &&
      batch.records.every((record, index) => records[firstNumber - 1 + index] === record);
    if (place !== "next" && !isSame) throw conflictError(run.runId, firstNumber, records.length);
    if (place !== "next") return this.#beat(entry);
    for (const record of batch.records) records.push(record);
    const bytes = batch.records.reduce((sum, { length }) => sum + length, 0);
    entry.bytes += bytes;
    this.#bytes += bytes;
    const progress = batch.hasProgress === true ? { crashCount: 0 } : {};
    const updatedAtMs = this.#clock.nowMs();
    this.#beat(entry, { recordCount: records.length, updatedAtMs, isQueued, ...progress });
    this.#makeRoom();
  }

  async heartbeat(ownership: Ownership): Promise<void> {
    this.#check("runId", ownership.runId);
    this.#beat(this.#getHeld(ownership));
  }

  async release(ownership: Ownership, requested: StoredStatus, lastMail?: number): Promise<void> {
    this.#check("runId", ownership.runId);
    const seen = resolveLastMail(lastMail);
    const entry = this.#find(ownership.runId);
    const holding = this.#createHolding(entry);
    if (hasReleased(ownership, holding, requested, entry.run.status)) return;
    checkHeld(ownership, holding);
    const status = requested === "paused" && entry.posts.size > seen ? "open" : requested;
    const none = { owner: null, heartbeatAtMs: null, isQueued: false };
    const change = { status, ...none, updatedAtMs: this.#clock.nowMs() };
    entry.run = { ...entry.run, ...change, ...(requested === "open" ? {} : { crashCount: 0 }) };
    if (status === "ended") this.#endedLast = ownership.runId;
    this.#makeRoom();
  }

  async *read(runId: RunId, from?: number, limit?: number): AsyncIterable<string> {
    this.#check("runId", runId);
    const first = resolveFirstNumber(from);
    const end = first + readLimit(limit);
    for (let number = first; number < end; number += 1) {
      this.#check("runId", runId);
      const record = this.#find(runId).records[number - 1];
      if (record === undefined) return;
      yield record;
    }
  }

  async sendMail(runId: RunId, submitted: Pick<Mail, "key" | "body">): Promise<number> {
    this.#check("runId", runId);
    const { key, body } = copyMail(submitted);
    const entry = this.#find(runId);
    const { run, posts } = entry;
    const known = posts.get(key);
    if (known !== undefined) return known.number;
    if (run.status === "ended") throw createRunEndedError(runId);
    const number = posts.size + 1;
    const atMs = this.#clock.nowMs();
    posts.set(key, { number, key, body, atMs });
    entry.run = { ...run, status: "open", updatedAtMs: atMs };
    return number;
  }

  async readMail(runId: RunId, from?: number): Promise<readonly Mail[]> {
    this.#check("runId", runId);
    const first = resolveFirstNumber(from);
    return [...this.#find(runId).posts.values()].slice(first - 1);
  }

  async find(runId: RunId): Promise<StoredRun | undefined> {
    this.#check("runId", runId);
    return this.#runs.get(runId)?.run;
  }

  async list(filter: RunFilter = {}): Promise<readonly StoredRun[]> {
    this.#checkOpen();
    checkFilter(filter);
    const { status, before } = filter;
    const limit = resolveListLimit(filter.limit);
    const all = [...this.#runs.values()].map(({ run }) => run);
    const end = before === undefined ? all.length : all.indexOf(this.#find(before).run);
    const runs = all.slice(0, end).toReversed();
    return runs.filter((run) => status === undefined || run.status === status).slice(0, limit);
  }

  async remove(runId: RunId, staleAfterMs: number): Promise<boolean> {
    this.#check("runId", runId);
    checkStaleAfterMs(staleAfterMs);
    const entry = this.#runs.get(runId);
    if (entry === undefined) return false;
    const claimant = { runId, hostname: getHostname(), staleAfterMs, isProcessGone };
    checkFree(this.#createHolding(entry), claimant);
    this.#drop(runId, entry);
    return true;
  }

  async readSession(sessionId: SessionId): Promise<StoredSession | undefined> {
    this.#check("sessionId", sessionId);
    return this.#sessions.get(sessionId);
  }

  async writeSession(sessionId: SessionId, expectedVersion: number, body: string): Promise<number> {
    this.#check("sessionId", sessionId);
    checkExpectedVersion(expectedVersion);
    checkStoredText("body", body);
    const version = this.#sessions.get(sessionId)?.version ?? 0;
    if (version !== expectedVersion)
      throw createSessionConflictError(sessionId, expectedVersion, version);
    this.#sessions.delete(sessionId);
    this.#sessions.set(sessionId, { version: version + 1, body });
    return version + 1;
  }

  async listSessions(options: { readonly limit?: number } = {}): Promise<readonly SessionId[]> {
    this.#checkOpen();
    return [...this.#sessions.keys()].toReversed().slice(0, resolveListLimit(options.limit));
  }

  async removeSession(sessionId: SessionId): Promise<boolean> {
    this.#check("sessionId", sessionId);
    return this.#sessions.delete(sessionId);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#runs.clear();
    this.#sessions.clear();
  }

  #makeRoom(): void {
    const { mostBytes = Infinity, onForgotten } = this.#forgetting ?? {};
    if (this.#bytes <= mostBytes) return;
    for (const [runId, entry] of this.#runs) {
      if (entry.run.status !== "ended" || runId === this.#endedLast) continue;
      this.#drop(runId, entry);
      onForgotten?.(runId);
      if (this.#bytes <= mostBytes) return;
    }
  }

  #drop(runId: RunId, { bytes }: Entry): void {
    this.#runs.delete(runId);
    this.#bytes -= bytes;
  }

  /** Records a heartbeat of the owner, together with a change of the run. */
  #beat(entry: Entry, change: Partial<StoredRun> = {}): void {
    entry.run = { ...entry.run, ...change, heartbeatAtMs: this.#clock.nowMs() };
    entry.beatMs = this.#clock.monotonicMs();
  }

  #check(field: string, id: string): void {
    this.#checkOpen();
    checkId(field, id);
  }

  #checkOpen(): void {
    if (this.#isClosed) throw createStoreClosedError();
  }

  #find(runId: RunId): Entry {
    const entry = this.#runs.get(runId);
    if (entry === undefined) throw createUnknownRunError(runId);
    return entry;
  }

  #getHeld(ownership: Ownership): Entry {
    const entry = this.#find(ownership.runId);
    checkHeld(ownership, this.#createHolding(entry));
    return entry;
  }

  #createHolding({ run, token, beatMs }: Entry): Holding {
    const silentMs = Math.floor(this.#clock.monotonicMs() - beatMs);
    return { epoch: run.epoch, token, owner: run.owner, silentMs, isQueued: run.isQueued };
  }
}
