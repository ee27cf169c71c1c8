// RunReading: a run as it is kept, folded as far as it has come. Owns how far it was read. Writes nothing.

import { hostname } from "node:os";

import { EspalierError, type EspalierEvent } from "espalier";
import type { Store, StoredRun } from "espalier/extend";
import { plainText } from "espalier/terminal";
import {
  RunFold,
  RunRecord,
  runHead,
  runListing,
  type Onlooker,
  type RunHead,
  type RunListing,
} from "espalier/view";

export class RunReading {
  readonly fold: RunFold;
  readonly record: RunRecord;
  readonly #store: Store;
  #stored: StoredRun;

  constructor(store: Store, stored: StoredRun) {
    this.#store = store;
    this.#stored = stored;
    this.fold = new RunFold(stored.runId);
    this.record = new RunRecord(store, stored.runId);
  }

  /** What the store said of it before it was last read. */
  get stored(): StoredRun {
    return this.#stored;
  }

  /** Reads what was recorded since; `take` is called with each event. Rejects with what reading rejects with. */
  async advance(take: (event: EspalierEvent) => void = () => undefined): Promise<void> {
    this.#stored = (await this.#store.find(this.#stored.runId)) ?? this.#stored;
    await this.record.advance((event, line) => {
      this.fold.take(event, line);
      take(event);
    });
  }

  /** What stands above its tree, once its beginning was read. */
  head(nowMs: number): RunHead {
    return runHead(this.#stored, this.fold.snapshot().run, onlooker(nowMs));
  }

  /** What is known of it without reading. */
  listing(nowMs: number): RunListing {
    return runListing(this.#stored, undefined, onlooker(nowMs));
  }
}

const OF_ONE_RUN: ReadonlySet<string> = new Set([
  "invalid_journal",
  "unsupported_version",
  "unknown_run",
]);

/** Whether an error of reading is about one run, and not about its store. */
export function isOfOneRun(cause: unknown): cause is EspalierError {
  return EspalierError.is(cause) && OF_ONE_RUN.has(cause.code);
}

/** What is said of a run that cannot be read where others are listed. */
export function unreadableText({ runId }: StoredRun, { message, code }: EspalierError): string {
  return plainText(`${runId} cannot be read: ${message} [${code}]`);
}

function onlooker(nowMs: number): Onlooker {
  return { nowMs, hostname: hostname(), processId: process.pid };
}
