// A store in one schema of a PostgreSQL database. Owns how connections are borrowed. Whatever changes a run is one statement that locks
// its row, or one transaction that locks it first, so that of two who want it one comes after the other (D4).
//
// A connection that breaks leaves open whether the last statement was done. All of them may be tried again: a batch is taken once (D5),
// a token owns a run once, and a run is given up once.

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
  checkExpectedVersion,
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
import { migrate } from "./migrations.ts";
import { isConnectionSound, postgresFailed } from "./postgres-faults.ts";
import type { PostgresClient, PostgresPool } from "./postgres-pool.ts";
import { RunTable } from "./postgres-run-table.ts";
import { SessionTable } from "./postgres-session-table.ts";

export interface DatabaseStoreOptions {
  readonly schema: string;
  readonly open: () => Promise<PostgresPool>;
  /** Undefined: the pool is not ours to end. */
  readonly end: (() => Promise<void>) | undefined;
  readonly isProcessGone: (processId: number) => boolean;
}

export class DatabaseStore implements Store {
  readonly #options: DatabaseStoreOptions;
  readonly #runs: RunTable;
  readonly #sessions: SessionTable;
  /** Whose errors we listen to. */
  #pool: PostgresPool | undefined;
  /** Undefined: not done yet, or in vain. */
  #migration: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: DatabaseStoreOptions) {
    this.#options = options;
    this.#runs = new RunTable(options.schema);
    this.#sessions = new SessionTable(options.schema);
  }

  async create(runId: RunId, title: string, owner: RunOwner): Promise<Ownership> {
    this.#check("runId", runId);
    const run = { runId, title: storedTitle(title), owner: checkedOwner(owner) };
    return await this.#borrow((client) => this.#runs.create(client, run));
  }

  async claim(runId: RunId, options: ClaimOptions): Promise<Ownership> {
    this.#check("runId", runId);
    const { staleAfterMs, takeOver = false } = options;
    const owner = checkedOwner(options.owner);
    checkStaleAfterMs(staleAfterMs);
    const { isProcessGone } = this.#options;
    const claimant = { runId, hostname: owner.hostname, staleAfterMs, isProcessGone };
    const claim = { runId, owner, claimant: takeOver ? undefined : claimant };
    return await this.#transact((client) => this.#runs.claim(client, claim));
  }

  async append(ownership: Ownership, given: JournalBatch): Promise<void> {
    this.#check("runId", ownership.runId);
    const batch = checkedBatch(given);
    const isTaken = await this.#borrow((client) => this.#runs.append(client, ownership, batch));
    if (isTaken) return;
    await this.#transact((client) => this.#runs.checkTaken(client, ownership, batch));
  }

  async beat(ownership: Ownership): Promise<void> {
    this.#check("runId", ownership.runId);
    await this.#transact((client) => this.#runs.beat(client, ownership));
  }

  async release(ownership: Ownership, status: "paused" | "ended"): Promise<void> {
    this.#check("runId", ownership.runId);
    await this.#transact((client) => this.#runs.release(client, ownership, status));
  }

  async *read(runId: RunId, from?: number): AsyncIterable<string> {
    this.#check("runId", runId);
    for (let first = firstToRead(from); ;) {
      const page = await this.#borrow((client) => this.#runs.readPage(client, runId, first));
      if (page.length === 0) return;
      yield* page;
      first += page.length;
    }
  }

  async find(runId: RunId): Promise<StoredRun | undefined> {
    this.#check("runId", runId);
    return await this.#borrow((client) => this.#runs.find(client, runId));
  }

  async list(
    filter: { readonly status?: StoredStatus; readonly limit?: number } = {},
  ): Promise<readonly StoredRun[]> {
    this.#checkOpen();
    checkFilter(filter);
    const query = { status: filter.status, limit: listLimit(filter.limit) };
    return await this.#borrow((client) => this.#runs.list(client, query));
  }

  async remove(runId: RunId, staleAfterMs: number): Promise<boolean> {
    this.#check("runId", runId);
    checkStaleAfterMs(staleAfterMs);
    const { isProcessGone } = this.#options;
    const claimant = { runId, hostname: thisHostname(), staleAfterMs, isProcessGone };
    return await this.#transact((client) => this.#runs.remove(client, claimant));
  }

  async readSession(sessionId: SessionId): Promise<StoredSession | undefined> {
    this.#check("sessionId", sessionId);
    return await this.#borrow((client) => this.#sessions.find(client, sessionId));
  }

  async writeSession(sessionId: SessionId, expectedVersion: number, body: string): Promise<number> {
    this.#check("sessionId", sessionId);
    checkExpectedVersion(expectedVersion);
    checkStoredText("body", body);
    const write = { sessionId, version: expectedVersion + 1, body };
    return await this.#borrow((client) => this.#sessions.put(client, write));
  }

  async listSessions(options: { readonly limit?: number } = {}): Promise<readonly SessionId[]> {
    this.#checkOpen();
    const limit = listLimit(options.limit);
    return await this.#borrow((client) => this.#sessions.list(client, limit));
  }

  async removeSession(sessionId: SessionId): Promise<boolean> {
    this.#check("sessionId", sessionId);
    return await this.#borrow((client) => this.#sessions.remove(client, sessionId));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#pool?.off("error", ignore);
    try {
      await this.#options.end?.();
    } catch (cause) {
      throw postgresFailed(cause);
    }
  }

  #check(field: string, id: string): void {
    this.#checkOpen();
    checkId(field, id);
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw storeClosed();
  }

  /** Lends a connection for one statement, or several that need not belong together. */
  async #borrow<T>(work: (client: PostgresClient) => Promise<T>): Promise<T> {
    try {
      return await lend(await this.#opened(), async (client) => {
        await this.#migrated(client);
        return await work(client);
      });
    } catch (cause) {
      throw postgresFailed(cause);
    }
  }

  #transact<T>(work: (client: PostgresClient) => Promise<T>): Promise<T> {
    return this.#borrow(async (client) => {
      await client.query("begin");
      try {
        const value = await work(client);
        await client.query("commit");
        return value;
      } catch (cause) {
        // If that fails as well, the connection is gone, and its transaction with it.
        if (isConnectionSound(cause)) await client.query("rollback");
        throw cause;
      }
    });
  }

  async #opened(): Promise<PostgresPool> {
    const pool = await this.#options.open();
    this.#checkOpen();
    // A pool without a listener ends the process when an idle connection breaks.
    if (this.#pool === undefined) pool.on("error", ignore);
    this.#pool = pool;
    return pool;
  }

  async #migrated(client: PostgresClient): Promise<void> {
    this.#migration ??= migrate(client, this.#options.schema);
    try {
      await this.#migration;
    } catch (cause) {
      this.#migration = undefined;
      throw cause;
    }
  }
}

async function lend<T>(
  pool: PostgresPool,
  work: (client: PostgresClient) => Promise<T>,
): Promise<T> {
  const client = await pool.connect();
  // While it is lent out, the pool does not listen.
  client.on("error", ignore);
  let isBroken = true;
  try {
    const value = await work(client);
    isBroken = false;
    return value;
  } catch (cause) {
    isBroken = !isConnectionSound(cause);
    throw cause;
  } finally {
    client.off("error", ignore);
    client.release(isBroken);
  }
}

/** The end of a connection in use is an error of its query; that of an idle one needs no handling. */
function ignore(): void {}
