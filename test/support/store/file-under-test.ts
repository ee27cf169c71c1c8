// A store in a file whose driver tests can inspect and disturb. The driver itself is the real one.

import { systemClock, type Clock } from "../../../src/kernel/clock.ts";
import { isProcessGone } from "../../../src/store/ownership-rules.ts";
import { SqlStore } from "../../../src/store/sql-store.ts";
import { FileDriver } from "../../../src/store/sqlite/file-driver.ts";
import {
  getOpener,
  type SqliteDatabase,
  type SqliteDriver,
} from "../../../src/store/sqlite/sqlite-driver.ts";

export interface Interference {
  readonly driver?: SqliteDriver;
  readonly durability?: "full" | "process";
  readonly clock?: Clock;
  readonly busyTimeoutMs?: number;
  /** Called for each opened file, before anything else. */
  readonly opened?: (database: SqliteDatabase) => void;
  /** Replaces each statement without a result; `run` executes the statement. */
  readonly exec?: (sql: string, run: () => void) => void;
}

export function fileStore(path: string, interference: Interference = {}): SqlStore {
  const { driver = "node", durability = "full", clock = systemClock } = interference;
  const file = new FileDriver({
    path,
    open: async (path, access) => {
      const database = await getOpener(driver)(path, access);
      interference.opened?.(database);
      const { exec } = interference;
      return {
        exec: (sql) => (exec ?? runIt)(sql, () => database.exec(sql)),
        script: (sql) => database.script(sql),
        prepare: (sql) => database.prepare(sql),
        get isInTransaction() {
          return database.isInTransaction;
        },
        close: () => database.close(),
      };
    },
    durability,
    busyTimeoutMs: interference.busyTimeoutMs ?? 5_000,
    clock,
  });
  return new SqlStore(file, isProcessGone);
}

function runIt(_sql: string, run: () => void): void {
  run();
}

/** Resolves once the condition holds, however many turns of the event loop that takes. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => void setImmediate(resolve));
}
