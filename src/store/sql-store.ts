// The store in a SQL database: checks what it is handed, and asks its driver for the rest. Owns whether it is open.
//
// The acknowledgement of a driver may be lost. So everything may be asked for again: a batch and a post are taken once (D5), a token
// owns a run once, and a run is given up once.

import type { RunId, SessionId } from "../protocol/ids.ts";
import { thisHostname } from "./holding.ts";
import type {
  ClaimOptions,
  JournalBatch,
  Ownership,
  Post,
  RunFilter,
  RunOwner,
  StoredRun,
  StoredStatus,
} from "./run-store.ts";
import type { StoredSession } from "./session-store.ts";
import type { SqlDriver, SqlWork } from "./sql-driver.ts";
import { postsOf, postTo } from "./sql-posts.ts";
import {
  beatRun,
  checkTaken,
  claimRun,
  createRun,
  findRun,
  listRuns,
  recordsOf,
  releaseRun,
  removeRun,
} from "./sql-runs.ts";
import { deleteSession, findSession, listSessionIds, putSession } from "./sql-sessions.ts";
import {
  checkedBatch,
  checkExpectedVersion,
  checkFilter,
  checkId,
  checkedOwner,
  checkedPost,
  checkStaleAfterMs,
  checkStoredText,
  firstToRead,
  lastPostSeen,
  listLimit,
  readLimit,
  storedTitle,
} from "./store-arguments.ts";
import { storeClosed } from "./store-errors.ts";
import type { Store } from "./store.ts";

export class SqlStore implements Store {
  readonly #driver: SqlDriver;
  readonly #isProcessGone: (processId: number) => boolean;
  #closing: Promise<void> | undefined;

  constructor(driver: SqlDriver, isProcessGone: (processId: number) => boolean) {
    this.#driver = driver;
    this.#isProcessGone = isProcessGone;
  }

  async create(runId: RunId, givenTitle: string, givenOwner: RunOwner): Promise<Ownership> {
    this.#check("runId", runId);
    const title = storedTitle(givenTitle);
    const owner = checkedOwner(givenOwner);
    return await this.#write(() => createRun(runId, title, owner));
  }

  async claim(runId: RunId, options: ClaimOptions): Promise<Ownership> {
    this.#check("runId", runId);
    const { staleAfterMs, takeOver = false, isOwnerLost = false } = options;
    const owner = checkedOwner(options.owner);
    checkStaleAfterMs(staleAfterMs);
    const isProcessGone = this.#isProcessGone;
    const claimant = { runId, hostname: owner.hostname, staleAfterMs, isProcessGone };
    const claim = { claimant, takeOver, isOwnerLost };
    return await this.#write(() => claimRun(runId, owner, claim));
  }

  async append(ownership: Ownership, given: JournalBatch): Promise<void> {
    this.#check("runId", ownership.runId);
    const batch = checkedBatch(given);
    await this.#mapped(this.#driver.append(ownership, batch, () => checkTaken(ownership, batch)));
  }

  async beat(ownership: Ownership): Promise<void> {
    this.#check("runId", ownership.runId);
    await this.#write(() => beatRun(ownership));
  }

  async release(ownership: Ownership, status: StoredStatus, lastPost?: number): Promise<void> {
    this.#check("runId", ownership.runId);
    const seen = lastPostSeen(lastPost);
    await this.#write(() => releaseRun(ownership, status, seen));
  }

  async *read(runId: RunId, from?: number, limit?: number): AsyncIterable<string> {
    this.#check("runId", runId);
    let first = firstToRead(from);
    const end = first + readLimit(limit);
    while (first < end) {
      const page = await this.#mapped(this.#driver.page(runId, first, end - first));
      const records = recordsOf(page, runId, first);
      if (records.length === 0) return;
      yield* records;
      first += records.length;
    }
  }

  async post(runId: RunId, given: Pick<Post, "key" | "body">): Promise<number> {
    this.#check("runId", runId);
    const post = checkedPost(given);
    return await this.#write(() => postTo(runId, post));
  }

  async posts(runId: RunId, from?: number): Promise<readonly Post[]> {
    this.#check("runId", runId);
    const first = firstToRead(from);
    return await this.#read(() => postsOf(runId, first));
  }

  async find(runId: RunId): Promise<StoredRun | undefined> {
    this.#check("runId", runId);
    return await this.#read(() => findRun(runId));
  }

  async list(filter: RunFilter = {}): Promise<readonly StoredRun[]> {
    this.#checkOpen();
    checkFilter(filter);
    const { status, before } = filter;
    const limit = listLimit(filter.limit);
    return await this.#read(() => listRuns(status, limit, before));
  }

  async remove(runId: RunId, staleAfterMs: number): Promise<boolean> {
    this.#check("runId", runId);
    checkStaleAfterMs(staleAfterMs);
    const isProcessGone = this.#isProcessGone;
    const claimant = { runId, hostname: thisHostname(), staleAfterMs, isProcessGone };
    return await this.#write(() => removeRun(claimant));
  }

  async readSession(sessionId: SessionId): Promise<StoredSession | undefined> {
    this.#check("sessionId", sessionId);
    return await this.#read(() => findSession(sessionId));
  }

  async writeSession(sessionId: SessionId, expectedVersion: number, body: string): Promise<number> {
    this.#check("sessionId", sessionId);
    checkExpectedVersion(expectedVersion);
    checkStoredText("body", body);
    const session = { version: expectedVersion + 1, body };
    return await this.#write(() => putSession(sessionId, session));
  }

  async listSessions(options: { readonly limit?: number } = {}): Promise<readonly SessionId[]> {
    this.#checkOpen();
    const limit = listLimit(options.limit);
    return await this.#read(() => listSessionIds(limit));
  }

  async removeSession(sessionId: SessionId): Promise<boolean> {
    this.#check("sessionId", sessionId);
    return await this.#write(() => deleteSession(sessionId));
  }

  close(): Promise<void> {
    this.#closing ??= this.#mapped(this.#driver.close());
    return this.#closing;
  }

  #check(field: string, id: string): void {
    this.#checkOpen();
    checkId(field, id);
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw storeClosed();
  }

  #read<T>(begin: () => SqlWork<T>): Promise<T> {
    return this.#mapped(this.#driver.read(begin));
  }

  #write<T>(begin: () => SqlWork<T>): Promise<T> {
    return this.#mapped(this.#driver.write(begin));
  }

  /** What went wrong, as an error of ours. */
  async #mapped<T>(outcome: Promise<T>): Promise<T> {
    try {
      return await outcome;
    } catch (cause) {
      throw this.#driver.failed(cause);
    }
  }
}
