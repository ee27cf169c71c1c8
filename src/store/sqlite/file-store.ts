// A store in one SQLite file. Owns the connection; what is asked of it goes through the line of group-commit.ts.

import { checkExpectedVersion } from "../store-arguments.ts";
import type { Clock } from "../../kernel/clock.ts";
import type { RunId, SessionId } from "../../protocol/ids.ts";
import { thisHostname } from "../holding.ts";
import type {
  ClaimOptions,
  JournalBatch,
  Ownership,
  RunOwner,
  StoredRun,
  StoredStatus,
} from "../run-store.ts";
import type { StoredSession } from "../session-store.ts";
import {
  checkedBatch,
  checkFilter,
  checkId,
  checkedOwner,
  checkStaleAfterMs,
  checkStoredText,
  firstToRead,
  listLimit,
  storedTitle,
} from "../store-arguments.ts";
import { storeClosed } from "../store-errors.ts";
import type { Store } from "../store.ts";
import { GroupCommit } from "./group-commit.ts";
import {
  appendRecords,
  beatRun,
  claimRun,
  createRun,
  findRun,
  listRuns,
  readPage,
  releaseRun,
  removeRun,
} from "./sqlite-run-table.ts";
import { prepareSchema } from "./schema.ts";
import { deleteSession, findSession, listSessionIds, putSession } from "./sqlite-session-table.ts";
import type { OpenSqlite, SqliteDatabase } from "./sqlite-driver.ts";
import { sqliteFailed } from "./sqlite-faults.ts";

export interface FileStoreOptions {
  readonly path: string;
  readonly open: OpenSqlite;
  readonly durability: "full" | "process";
  readonly busyTimeoutMs: number;
  readonly clock: Clock;
  readonly isProcessGone: (processId: number) => boolean;
}

/** Blocks the event loop for so long at most; more patience is had without blocking. */
const LONGEST_BLOCK_MS = 20;

export class FileStore implements Store {
  readonly #options: FileStoreOptions;
  readonly #commits: GroupCommit;
  /** Undefined: not opened yet, or in vain. */
  #database: Promise<SqliteDatabase> | undefined;
  #closing: Promise<void> | undefined;
  #isClosed = false;

  constructor(options: FileStoreOptions) {
    this.#options = options;
    const { clock, busyTimeoutMs } = options;
    this.#commits = new GroupCommit({ open: () => this.#open(), clock, busyTimeoutMs });
  }

  async create(runId: RunId, title: string, owner: RunOwner): Promise<Ownership> {
    this.#check("runId", runId);
    const run = { runId, title: storedTitle(title), owner: checkedOwner(owner) };
    return await this.#write((database, nowMs) => createRun(database, run, nowMs));
  }

  async claim(runId: RunId, options: ClaimOptions): Promise<Ownership> {
    this.#check("runId", runId);
    const { staleAfterMs, takeOver = false } = options;
    const owner = checkedOwner(options.owner);
    checkStaleAfterMs(staleAfterMs);
    const { isProcessGone } = this.#options;
    const claimant = { runId, hostname: owner.hostname, staleAfterMs, isProcessGone };
    const claim = { runId, owner, claimant: takeOver ? undefined : claimant };
    return await this.#write((database, nowMs) => claimRun(database, claim, nowMs));
  }

  async append(ownership: Ownership, given: JournalBatch): Promise<void> {
    this.#check("runId", ownership.runId);
    const batch = checkedBatch(given);
    await this.#write((database, nowMs) => appendRecords(database, { ownership, batch }, nowMs));
  }

  async beat(ownership: Ownership): Promise<void> {
    this.#check("runId", ownership.runId);
    await this.#write((database, nowMs) => beatRun(database, ownership, nowMs));
  }

  async release(ownership: Ownership, status: "paused" | "ended"): Promise<void> {
    this.#check("runId", ownership.runId);
    await this.#write((database, nowMs) => releaseRun(database, { ownership, status }, nowMs));
  }

  async *read(runId: RunId, from?: number): AsyncIterable<string> {
    this.#check("runId", runId);
    for (let first = firstToRead(from); ;) {
      const page = await this.#read((database) => readPage(database, runId, first));
      if (page.length === 0) return;
      yield* page;
      first += page.length;
    }
  }

  async find(runId: RunId): Promise<StoredRun | undefined> {
    this.#check("runId", runId);
    return await this.#read((database) => findRun(database, runId));
  }

  async list(
    filter: { readonly status?: StoredStatus; readonly limit?: number } = {},
  ): Promise<readonly StoredRun[]> {
    this.#checkOpen();
    checkFilter(filter);
    const query = { status: filter.status, limit: listLimit(filter.limit) };
    return await this.#read((database) => listRuns(database, query));
  }

  async remove(runId: RunId, staleAfterMs: number): Promise<boolean> {
    this.#check("runId", runId);
    checkStaleAfterMs(staleAfterMs);
    const { isProcessGone } = this.#options;
    const claimant = { runId, hostname: thisHostname(), staleAfterMs, isProcessGone };
    return await this.#write((database, nowMs) => removeRun(database, claimant, nowMs));
  }

  async readSession(sessionId: SessionId): Promise<StoredSession | undefined> {
    this.#check("sessionId", sessionId);
    return await this.#read((database) => findSession(database, sessionId));
  }

  async writeSession(sessionId: SessionId, expectedVersion: number, body: string): Promise<number> {
    this.#check("sessionId", sessionId);
    checkExpectedVersion(expectedVersion);
    checkStoredText("body", body);
    const write = { sessionId, version: expectedVersion + 1, body };
    return await this.#write((database, nowMs) => putSession(database, write, nowMs));
  }

  async listSessions(options: { readonly limit?: number } = {}): Promise<readonly SessionId[]> {
    this.#checkOpen();
    const limit = listLimit(options.limit);
    return await this.#read((database) => listSessionIds(database, limit));
  }

  async removeSession(sessionId: SessionId): Promise<boolean> {
    this.#check("sessionId", sessionId);
    return await this.#write((database) => deleteSession(database, sessionId));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** What was asked for before is done first. */
  async #close(): Promise<void> {
    await this.#commits.settled();
    this.#isClosed = true;
    const opening = this.#database;
    if (opening === undefined) return;
    try {
      const database = await opening;
      database.close();
    } catch (cause) {
      throw sqliteFailed(this.#options.path, cause);
    }
  }

  #check(field: string, id: string): void {
    this.#checkOpen();
    checkId(field, id);
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw storeClosed();
  }

  async #write<T>(work: (database: SqliteDatabase, nowMs: number) => T): Promise<T> {
    const { path, clock } = this.#options;
    try {
      return await this.#commits.write((database) => work(database, Math.floor(clock.nowMs())));
    } catch (cause) {
      throw sqliteFailed(path, cause);
    }
  }

  async #read<T>(work: (database: SqliteDatabase) => T): Promise<T> {
    try {
      return await this.#commits.patiently((database) => inSnapshot(database, work));
    } catch (cause) {
      throw sqliteFailed(this.#options.path, cause);
    }
  }

  async #open(): Promise<SqliteDatabase> {
    if (this.#isClosed) throw storeClosed();
    this.#database ??= opened(this.#options);
    try {
      return await this.#database;
    } catch (cause) {
      this.#database = undefined;
      throw cause;
    }
  }
}

async function opened(options: FileStoreOptions): Promise<SqliteDatabase> {
  const { path, durability } = options;
  const database = await options.open(path);
  try {
    database.exec(`pragma busy_timeout = ${LONGEST_BLOCK_MS}`);
    // First, so that the file of another program is left as it is.
    prepareSchema(database, path);
    database.exec("pragma journal_mode = wal");
    database.exec(`pragma synchronous = ${durability === "full" ? "full" : "normal"}`);
    return database;
  } catch (cause) {
    database.close();
    throw cause;
  }
}

/** Several statements that see the same. */
function inSnapshot<T>(database: SqliteDatabase, work: (database: SqliteDatabase) => T): T {
  database.exec("begin");
  try {
    return work(database);
  } finally {
    if (database.isInTransaction) database.exec("rollback");
  }
}
