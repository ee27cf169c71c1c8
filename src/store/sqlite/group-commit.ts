// Writes that come in the same turn of the event loop are committed together: a commit waits for the disk, and a tree of agents writes
// many small batches. Owns the line of writes and the transaction around them.
//
// - A write settles only after the commit of its group, also if it is refused: the reason may be an earlier write of the group.
// - Writes are done in the order of their requests.
// - A write that fails harms no other. Each has a savepoint, and if a whole group fails, its writes are tried one by one.
// - While another process has the file locked, only writes wait.

import type { Clock } from "../../kernel/clock.ts";
import { endOfTurn } from "../../kernel/throttle.ts";
import type { SqliteDatabase } from "./sqlite-driver.ts";
import { isBusy } from "./sqlite-faults.ts";

export interface GroupCommitOptions {
  /** Gives the open file; called for each group. */
  readonly open: () => Promise<SqliteDatabase>;
  readonly clock: Clock;
  /** How long to wait for other processes that have the file locked. */
  readonly busyTimeoutMs: number;
}

/** How long to wait before a file that is locked is tried again. */
const RETRY_AFTER_MS = 10;

interface Write {
  /** Does it, within a transaction; gives what resolves the write, to be called once that is committed. */
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

  /** Resolves with what `work` gives once that is committed. `work` runs within a transaction, perhaps more than once. */
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

  /** Reads, or whatever else may find the file locked. */
  patiently<T>(work: (database: SqliteDatabase) => T): Promise<T> {
    return patiently(this.#options, async () => work(await this.#options.open()));
  }

  /** Resolves when nothing is left in the line. Never rejects. */
  async settled(): Promise<void> {
    await this.#draining;
  }

  async #drain(): Promise<void> {
    while (this.#line.length > 0) {
      await endOfTurn();
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

  /** After a group has failed as a whole. One alone has had its try. */
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

/** Tries what may find the file locked, until that has lasted for too long. */
export async function patiently<T>(
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

/** Does what there is to do in one transaction. Takes it only when the file is ours to write. */
function commit(database: SqliteDatabase, take: () => readonly Write[]): readonly Settle[] {
  return inTransaction(database, () => {
    const group = take();
    const only = group.length === 1 ? group[0] : undefined;
    return only === undefined
      ? group.map((write) => saved(database, write))
      : [only.attempt(database)];
  });
}

/** Locks the file, and does all of it or nothing. */
export function inTransaction<T>(database: SqliteDatabase, work: () => T): T {
  database.exec("begin immediate");
  try {
    const value = work();
    database.exec("commit");
    return value;
  } catch (cause) {
    undo(database);
    throw cause;
  }
}

/** One write of several: if it fails, the others remain. Throws if the whole transaction has gone with it. */
function saved(database: SqliteDatabase, write: Write): Settle {
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

function undo(database: SqliteDatabase): void {
  try {
    if (database.isInTransaction) database.exec("rollback");
  } catch {
    // What failed before is the error that counts.
  }
}
