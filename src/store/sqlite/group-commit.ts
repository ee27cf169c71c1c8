// Writes of the same turn of the event loop are committed together: a commit waits for the disk,
// and a tree of agents writes many small batches. Owns the queue of writes and the transaction
// around them.
//
// - A write settles only after the commit of its group, also if it is rejected: an earlier write of
//   the group may be the cause.
// - Writes are executed in the order of their requests.
// - A write that fails does not affect others. Each has a savepoint; if a whole group fails, its
//   writes are retried one by one.
// - While another process has the file locked, only writes wait.

import type { Clock } from "../../kernel/clock.ts";
import { waitForTurnEnd } from "../../kernel/throttle.ts";
import type { SqliteDatabase } from "./sqlite-driver.ts";
import { isBusy } from "./sqlite-faults.ts";

export interface GroupCommitOptions {
  /** Returns the open file. Called for each group. */
  readonly open: () => Promise<SqliteDatabase>;
  readonly clock: Clock;
  /** Time in milliseconds to wait for a lock of another process. */
  readonly busyTimeoutMs: number;
}

/** Time in milliseconds before a locked file is tried again. */
const RETRY_AFTER_MS = 10;

interface Write {
  /**
   * Does the write within a transaction. Returns a function that resolves the write, to be called
   * after the commit.
   */
  attempt(database: SqliteDatabase): () => void;
  refuse(cause: unknown): void;
}

type Settle = () => void;

export class GroupCommit {
  readonly #options: GroupCommitOptions;
  readonly #line: Write[] = [];
  #draining: Promise<void> | undefined;

  constructor(options: GroupCommitOptions) {
    this.#options = options;
  }

  /**
   * Resolves with the result of `work` once it is committed. `work` runs within a transaction,
   * perhaps more than once.
   */
  write<T>(work: (database: SqliteDatabase) => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#line.push({
        attempt: (database) => {
          const value = work(database);
          return () => resolve(value);
        },
        refuse: reject,
      });
      this.#draining ??= this.#drain();
    });
  }

  /** Reads, or does other work that may find the file locked, and retries while it is locked. */
  patiently<T>(work: (database: SqliteDatabase) => T): Promise<T> {
    return retryWhileLocked(this.#options, async () => work(await this.#options.open()));
  }

  /** Resolves when the queue is empty. Never rejects. */
  async settled(): Promise<void> {
    await this.#draining;
  }

  async #drain(): Promise<void> {
    while (this.#line.length > 0) {
      await waitForTurnEnd();
      await this.#commitLine();
    }
    this.#draining = undefined;
  }

  async #commitLine(): Promise<void> {
    const group: Write[] = [];
    const take = (): readonly Write[] => {
      group.push(...this.#line.splice(0));
      return group;
    };
    try {
      const settles = await this.patiently((database) => commit(database, take));
      for (const settle of settles) settle();
    } catch (cause) {
      await this.#commitEach(group.length === 0 ? take() : group, cause);
    }
  }

  /**
   * Commits the writes of a failed group separately. A group with a single write is not retried.
   */
  async #commitEach(group: readonly Write[], cause: unknown): Promise<void> {
    const [first] = group;
    if (first !== undefined && (group.length === 1 || isBusy(cause))) {
      for (const write of group) write.refuse(cause);
      return;
    }
    for (const write of group) {
      try {
        const settles = await this.patiently((database) => commit(database, () => [write]));
        for (const settle of settles) settle();
      } catch (cause) {
        write.refuse(cause);
      }
    }
  }
}

/** Retries work that finds the file locked, until the timeout. */
export async function retryWhileLocked<T>(
  { clock, busyTimeoutMs }: Pick<GroupCommitOptions, "clock" | "busyTimeoutMs">,
  attempt: () => Promise<T>,
): Promise<T> {
  const untilMs = clock.monotonicMs() + busyTimeoutMs;
  for (;;) {
    try {
      return await attempt();
    } catch (cause) {
      if (!isBusy(cause) || clock.monotonicMs() >= untilMs) throw cause;
    }
    await new Promise<void>((resolve) => void clock.setTimer(RETRY_AFTER_MS, resolve));
  }
}

/**
 * Executes the queued writes in one transaction. Takes them from the queue only once the file is
 * locked.
 */
function commit(database: SqliteDatabase, take: () => readonly Write[]): readonly Settle[] {
  return runInTransaction(database, () => {
    const group = take();
    const only = group.length === 1 ? group[0] : undefined;
    return only === undefined
      ? group.map((write) => executeWrite(database, write))
      : [only.attempt(database)];
  });
}

/** Locks the file, and executes the work completely or not at all. */
export function runInTransaction<T>(database: SqliteDatabase, work: () => T): T {
  database.exec("begin immediate");
  try {
    const value = work();
    database.exec("commit");
    return value;
  } catch (cause) {
    revertTransaction(database);
    throw cause;
  }
}

/**
 * Executes one write within a savepoint: if it fails, the others remain. Throws if the whole
 * transaction was rolled back.
 */
function executeWrite(database: SqliteDatabase, write: Write): Settle {
  database.exec("savepoint espalier");
  try {
    const settle = write.attempt(database);
    database.exec("release espalier");
    return settle;
  } catch (cause) {
    if (!database.isInTransaction) throw cause;
    database.exec("rollback to espalier");
    database.exec("release espalier");
    return () => write.refuse(cause);
  }
}

function revertTransaction(database: SqliteDatabase): void {
  try {
    if (database.isInTransaction) database.exec("rollback");
  } catch {
    // The earlier failure is the relevant error.
  }
}
