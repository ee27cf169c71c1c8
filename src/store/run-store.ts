// The port for stores of runs. Each run has one journal, which one owner at a time writes, and one
// mailbox, to which any process may send. A store does not interpret records and mail. It stores
// texts in order, and each batch completely or not at all.
//
// A batch whose `append` has resolved survives a crash of the process and of the machine, unless
// the store documents otherwise.
//
// D4. A run has one owner. A takeover increments its epoch. From then on the former owner is
// rejected with `run_fenced`.
// D5. A batch or mail whose acknowledgement was lost may be submitted again, and is persisted once.

import type { RunId } from "../protocol/ids.ts";

/**
 * Process that owns a run and may write its journal.
 *
 * @example
 * ```ts
 * import { hostname } from "node:os";
 *
 * const owner: RunOwner = {
 *   token: crypto.randomUUID(),
 *   hostname: hostname(),
 *   processId: process.pid,
 * };
 * ```
 */
export interface RunOwner {
  /** Unique text for each attempt to own a run. */
  readonly token: string;
  /** Name of the machine. */
  readonly hostname: string;
  /** Process id. On the same machine, the store detects at once that this process has ended. */
  readonly processId: number;
}

/**
 * Right to write the journal of a run. `create` and `claim` return it.
 *
 * @example
 * ```ts
 * const owner = { token: crypto.randomUUID(), hostname: "web-1", processId: process.pid };
 * const ownership = await store.create(toRunId("order-4711"), "buyer: Buy a pear tree.", owner);
 * await store.release(ownership, "open");
 * ```
 */
export interface Ownership {
  /** Run that the process owns. */
  readonly runId: RunId;
  /** Token of the owner. */
  readonly token: string;
  /** Fencing number: 1 at first, and one more with each `claim`. */
  readonly epoch: number;
}

/**
 * Status of a stored run.
 *
 * - `open`: the run executes, or waits for a process that executes it.
 * - `paused`: the run waits for answers or for `resume`.
 * - `ended`: the run has ended for good.
 *
 * @example
 * ```ts
 * const count = async (status: StoredStatus) => (await store.list({ status, limit: 1_000 })).length;
 * console.log(await count("open"), await count("paused"), await count("ended"));
 * ```
 */
export type StoredStatus = "open" | "paused" | "ended";

/**
 * State of a run that a store knows without reading its journal.
 *
 * @example
 * ```ts
 * for (const { runId, status, title, updatedAtMs } of await store.list({ status: "paused" }))
 *   console.log(runId, status, title, new Date(updatedAtMs).toISOString());
 * ```
 */
export interface StoredRun {
  readonly runId: RunId;
  /** Status of the run. A run that another process executes is `open`, too: see `owner`. */
  readonly status: StoredStatus;
  /** Role and beginning of the task, for lists of runs. */
  readonly title: string;
  /** Number of times that the run was created or claimed. */
  readonly epoch: number;
  /** Number of records in the journal. */
  readonly recordCount: number;
  /** Creation time in milliseconds since the epoch. */
  readonly createdAtMs: number;
  /** Time of the last change in milliseconds since the epoch. Heartbeats are not changes. */
  readonly updatedAtMs: number;
  /** Process that owns the run. `null` if no process does. */
  readonly owner: RunOwner | null;
  /**
   * Time of the owner's last heartbeat in milliseconds since the epoch. `null` if no process owns
   * the run.
   */
  readonly heartbeatAtMs: number | null;
  /**
   * Number of crashed owners in a row. A batch with `hasProgress` resets it. See `RunStore.claim`.
   */
  readonly crashCount: number;
  /**
   * Time of the last counted crash in milliseconds since the epoch. `null` if the run never
   * crashed.
   */
  readonly lastCrashAtMs: number | null;
  /**
   * True while the owner only waits for a slot to execute the run. The loss of such an owner does
   * not count as a crash.
   */
  readonly isQueued: boolean;
}

/**
 * Options of `RunStore.claim`: the new owner, and from whom it may take the run.
 *
 * @example
 * ```ts
 * const owner = { token: crypto.randomUUID(), hostname: "web-1", processId: process.pid };
 * await store.claim(toRunId("order-4711"), { owner, staleAfterMs: 30_000 });
 * ```
 */
export interface ClaimOptions {
  /** New owner of the run. */
  readonly owner: RunOwner;
  /** Time in milliseconds without a heartbeat after which the present owner counts as crashed. */
  readonly staleAfterMs: number;
  /**
   * Takes the run even from a live owner.
   *
   * @default false
   */
  readonly takeOver?: boolean;
  /**
   * Takes the run because the supervisor of the present owner has given that owner up. Counts as a
   * crash, even if the owner seems alive.
   *
   * @default false
   */
  readonly ownerLost?: boolean;
}

/**
 * Records that are appended to a journal, all or none.
 *
 * @example
 * ```ts
 * const batch: JournalBatch = {
 *   firstNumber: 12,
 *   records: [JSON.stringify({ type: "note", text: "Bought." })],
 *   hasProgress: true,
 * };
 * ```
 */
export interface JournalBatch {
  /** Number of the first record, from 1. The journal must end with the record before it. */
  readonly firstNumber: number;
  /** Records, at least one. Each is the text of one JSON value without line breaks. */
  readonly records: readonly string[];
  /**
   * Marks a batch that completes work, such as a step or tool call. Resets `StoredRun.crashCount`
   * to 0.
   *
   * @default false
   */
  readonly hasProgress?: boolean;
  /**
   * Sets `StoredRun.isQueued`: the owner only waits for a slot to execute the run.
   *
   * @default false
   */
  readonly isQueued?: boolean;
}

/** Message in the mailbox of a run, which any process may send and the owner of the run reads. */
export interface Mail {
  /** Number within the mailbox of the run, from 1 and without gaps. */
  readonly number: number;
  /** Idempotency key within the run, up to 512 characters. */
  readonly key: string;
  /** Text of one JSON value without line breaks. */
  readonly body: string;
  /**
   * Time at which the store accepted the mail, in milliseconds since the epoch by the clock of the
   * store.
   */
  readonly atMs: number;
}

/**
 * Filter for `RunStore.list`.
 *
 * @example
 * ```ts
 * const page = await store.list({ status: "ended", limit: 20 });
 * const last = page.at(-1);
 * const next = last && (await store.list({ status: "ended", limit: 20, before: last.runId }));
 * ```
 */
export interface RunFilter {
  /**
   * Status of the listed runs.
   *
   * @default any
   */
  readonly status?: StoredStatus;
  /**
   * Maximum number of runs.
   *
   * @default 100
   */
  readonly limit?: number;
  /** Cursor for paging: only runs that were created before this one are listed. */
  readonly before?: RunId;
}

/**
 * Port for stores of runs: the journal, the mailbox and the owner of each run. The records and
 * mails are opaque texts for a store. Once `append` resolves, its batch must survive a crash.
 *
 * @example
 * ```ts
 * // The checks that a store of your own must pass:
 * import { test } from "node:test";
 * import { storeContract } from "espalier/testing";
 *
 * declare const createStore: () => Promise<Store>;
 * for (const { name, run } of storeContract()) test(name, () => run(createStore));
 * ```
 */
export interface RunStore {
  /**
   * Creates an empty journal that `owner` owns, with epoch 1.
   *
   * @throws EspalierError `run_exists` if the id is taken.
   * @throws EspalierError `store_failed` if the store fails.
   */
  create(runId: RunId, title: string, owner: RunOwner): Promise<Ownership>;
  /**
   * Makes a process the owner of an existing run, and increments the epoch. The status becomes
   * `open`. Succeeds if the run has no owner, if its owner has crashed, or with `takeOver` or
   * `ownerLost`. An owner has crashed if it is stale, or its process on this machine has ended.
   * Adds 1 to `crashCount` and sets `lastCrashAtMs` if the previous owner crashed, or with
   * `ownerLost`, unless the run was queued. The run is not queued afterwards.
   *
   * @throws EspalierError `run_active` if another owner is alive, and nothing changes.
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `store_failed` if the store fails.
   */
  claim(runId: RunId, options: ClaimOptions): Promise<Ownership>;
  /**
   * Appends a batch, all records or none, and counts as a heartbeat. Appending an identical batch
   * again changes nothing, so that a lost acknowledgement can be retried.
   *
   * @throws EspalierError `run_fenced` if another process has claimed the run.
   * @throws EspalierError `journal_conflict` if other records have these numbers or earlier records
   * are missing.
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `store_failed` for any other failure, with `data.isTransient` if a retry
   * may succeed.
   */
  append(ownership: Ownership, batch: JournalBatch): Promise<void>;
  /**
   * Records that the owner is alive.
   *
   * @throws EspalierError `run_fenced` if another process has taken the run over.
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `store_failed` if the store fails.
   */
  heartbeat(ownership: Ownership): Promise<void>;
  /**
   * Gives up the ownership and sets the status: `paused`, `ended`, or `open` for another process to
   * continue. `lastMail` is the number of the last mail that the owner has read, 0 for none; by
   * default all mail. With later mail, `paused` becomes `open`. Resets `crashCount` unless `status`
   * is `open`. Releasing again with the same arguments changes nothing.
   *
   * @throws EspalierError `run_fenced` if another process has taken the run over.
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `store_failed` if the store fails.
   */
  release(ownership: Ownership, status: StoredStatus, lastMail?: number): Promise<void>;
  /**
   * Iterates over the records in order, from number `from` (by default 1), at most `limit` (by
   * default all).
   *
   * @throws EspalierError `unknown_run` from the iteration if the store has no such run.
   * @throws EspalierError `store_failed` from the iteration if the store fails.
   */
  read(runId: RunId, from?: number, limit?: number): AsyncIterable<string>;
  /**
   * Adds mail to the mailbox of a run, whichever process owns the run, and returns its number. A
   * paused run becomes `open`. Is not a heartbeat. With a key that the mailbox has already, nothing
   * changes, and the number of the existing mail is returned, also for an ended run.
   *
   * @throws EspalierError `run_ended` if the run has ended.
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `store_failed` if the store fails.
   */
  sendMail(runId: RunId, mail: Pick<Mail, "key" | "body">): Promise<number>;
  /**
   * Returns the mail from number `from` (by default 1), in order.
   *
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `store_failed` if the store fails.
   */
  readMail(runId: RunId, from?: number): Promise<readonly Mail[]>;
  /**
   * Returns the state of a run. `undefined` if the store has no such run. A run that has just
   * started is found once `run.whenPersisted()` resolves.
   *
   * @throws EspalierError `store_failed` if the store fails.
   *
   * @example
   * ```ts
   * const found = await store.find(toRunId("order-4711"));
   * if (found?.status === "ended") console.log((await orchestrator.getResult(found.runId)).text);
   * ```
   */
  find(runId: RunId): Promise<StoredRun | undefined>;
  /**
   * Returns the runs that match a filter, newest first.
   *
   * @throws EspalierError `unknown_run` if the run of `before` does not exist.
   * @throws EspalierError `store_failed` if the store fails.
   *
   * @example
   * ```ts
   * for (const { runId, title } of await store.list({ status: "paused", limit: 20 }))
   *   console.log(runId, title);
   * ```
   */
  list(filter?: RunFilter): Promise<readonly StoredRun[]>;
  /**
   * Removes a run without a live owner, with its journal and mailbox. Returns `false` if the run
   * does not exist. An owner counts as crashed after `staleAfterMs` milliseconds without a
   * heartbeat.
   *
   * @throws EspalierError `run_active` if the owner is alive.
   * @throws EspalierError `store_failed` if the store fails.
   *
   * @example
   * ```ts
   * for (const { runId } of await store.list({ status: "ended" })) await store.remove(runId, 30_000);
   * ```
   */
  remove(runId: RunId, staleAfterMs: number): Promise<boolean>;
}
