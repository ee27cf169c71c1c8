// Driver for a store in an SQLite file that is only read. The file is opened and closed for each
// read, since an open connection would keep the writer from removing `-wal` and `-shm` when it
// closes.
//
// Without a `-wal`, no process has the file open. SQLite would create both files and leave them
// behind, so the file is opened as immutable, and a read counts only if the file did not change
// meanwhile.

import { existsSync, realpathSync, statSync } from "node:fs";

import type { EspalierError } from "../../kernel/error.ts";
import type { SqlDriver, SqlPage, SqlWork } from "../sql-driver.ts";
import { createStoreMissingError, createReadOnlyError } from "../store-errors.ts";
import type { FileDriverOptions } from "./file-driver.ts";
import {
  readInSnapshot,
  LONGEST_BLOCK_MS,
  readPage,
  executeOnFile,
  type OpenFile,
} from "./file-queries.ts";
import { retryWhileLocked } from "./group-commit.ts";
import { checkFile } from "./sqlite-schema.ts";
import { convertSqliteError } from "./sqlite-faults.ts";

export class ReadOnlyFileDriver implements SqlDriver {
  readonly #options: Omit<FileDriverOptions, "durability">;

  constructor(options: Omit<FileDriverOptions, "durability">) {
    this.#options = options;
  }

  read<T>(begin: () => SqlWork<T>): Promise<T> {
    return this.#see((file) => executeOnFile(file, begin()));
  }

  page(runId: string, first: number, limit: number): Promise<SqlPage | undefined> {
    return this.#see(({ database }) => readPage(database, runId, first, limit));
  }

  async write(): Promise<never> {
    throw createReadOnlyError();
  }

  async append(): Promise<never> {
    throw createReadOnlyError();
  }

  failed(cause: unknown): EspalierError {
    return convertSqliteError(this.#options.path, cause);
  }

  async close(): Promise<void> {}

  #see<T>(look: (file: OpenFile) => T): Promise<T> {
    return retryWhileLocked(this.#options, async () => {
      for (;;) {
        const file = findFile(this.#options.path);
        const seen = await this.#readUnchanged(file, look);
        const isSame = file.stamp === undefined || file.stamp === findFile(file.path).stamp;
        if (isSame) return seen();
      }
    });
  }

  /** Returns or throws the outcome of a read, if the file did not change meanwhile. */
  async #readUnchanged<T>(
    { path, stamp }: FoundFile,
    look: (file: OpenFile) => T,
  ): Promise<() => T> {
    const database = await this.#options.open(path, stamp === undefined ? "read" : "still");
    try {
      database.exec(`pragma busy_timeout = ${LONGEST_BLOCK_MS}`);
      const value = readInSnapshot(database, () => {
        checkFile(database, path);
        return look({ database, nowMs: Math.floor(this.#options.clock.nowMs()) });
      });
      return () => value;
    } catch (cause) {
      return () => {
        throw cause;
      };
    } finally {
      database.close();
    }
  }
}

interface FoundFile {
  /** Path of the file itself, with links resolved: `-wal` is beside it. */
  readonly path: string;
  /** Changes with the file. `undefined` if another process may have the file open. */
  readonly stamp: string | undefined;
}

/** Returns the file with its stamp. Throws `store_failed` if it does not exist. */
function findFile(name: string): FoundFile {
  const status = statSync(name, { bigint: true, throwIfNoEntry: false });
  if (status === undefined)
    throw createStoreMissingError(`the file ${JSON.stringify(name)}`, "no such file");
  const path = realpathSync(name);
  const isOpen = ["-wal", "-journal"].some((end) => existsSync(`${path}${end}`));
  return { path, stamp: isOpen ? undefined : `${status.ino} ${status.size} ${status.mtimeNs}` };
}
