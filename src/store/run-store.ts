// The port through which runs are kept: one journal for each, written by one owner at a time, and one mailbox, into which any process may post.
// A store knows nothing of what is in a record or in a post: it keeps texts, in order, and whole batches of them or nothing.
//
// A batch whose `append` has resolved survives a crash of the process and of the machine, unless the store documents otherwise.
//
// D4. A run has one owner. A takeover bumps its epoch; from then on nothing is taken from the one before (`run_fenced`).
// D5. A batch or a post that was taken, but whose acknowledgement was lost, may be handed in again: it is taken once.

import type { RunId } from "../protocol/ids.ts";

/** The writer of a run. On the same machine, if its process is gone, the next owner need not wait until it is stale. */
export interface RunOwner {
  /** Unique for each attempt to own a run. */
  readonly token: string;
  /** The machine. */
  readonly hostname: string;
  /** The process. */
  readonly processId: number;
}

/** The right to write the journal of one run. */
export interface Ownership {
  readonly runId: RunId;
  /** What the owner proves itself by. */
  readonly token: string;
  /** From 1; one more with each takeover. */
  readonly epoch: number;
}

/** `open`: it works, or has something to do and waits for an owner; `paused`: at rest, may continue; `ended`: for good. */
export type StoredStatus = "open" | "paused" | "ended";

/** What a store knows of a run without reading its journal. */
export interface StoredRun {
  readonly runId: RunId;
  readonly status: StoredStatus;
  /** In what words it was started, for lists of runs. */
  readonly title: string;
  /** How often the run was claimed. */
  readonly epoch: number;
  /** Records that its journal has. */
  readonly recordCount: number;
  /** Milliseconds since the epoch. */
  readonly createdAtMs: number;
  /** Milliseconds since the epoch. */
  readonly updatedAtMs: number;
  /** Null: it has no owner. */
  readonly owner: RunOwner | null;
  /** When its owner last showed a sign of life; null: it has no owner. */
  readonly heartbeatAtMs: number | null;
  /** Owners in a row that were lost without a batch with `hasProgress`. See `RunStore.claim`. */
  readonly crashCount: number;
  /** When `claim` counted the last crash; `null` if it never counted one. */
  readonly lastCrashAtMs: number | null;
}

/** Who claims a run, and from whom it may be taken. */
export interface ClaimOptions {
  readonly owner: RunOwner;
  /** An owner that has not shown a sign of life for so long is gone. */
  readonly staleAfterMs: number;
  /** Take it over even from a live owner. Default false. */
  readonly takeOver?: boolean;
  /**
   * The supervisor of the owner has given the owner up. Takes the run over even if the owner seems
   * alive, and counts a crash.
   * @default false
   */
  readonly ownerLost?: boolean;
}

/** A batch of records. */
export interface JournalBatch {
  /** Number of its first record, from 1: the journal has exactly those before it. */
  readonly firstNumber: number;
  /** At least one, each the text of one JSON value without line breaks. */
  readonly records: readonly string[];
  /**
   * True if the batch completes something, such as a tool call. Resets `StoredRun.crashCount` to 0.
   * @default false
   */
  readonly hasProgress?: boolean;
}

/** What was put into the mailbox of a run, for the process that leads it. */
export interface Mail {
  /** Within its run: from 1, without gaps. */
  readonly number: number;
  /** What it is known by within its run, up to 512 characters. */
  readonly key: string;
  /** The text of one JSON value without line breaks. */
  readonly body: string;
  /** When it was taken, by the clock that the store goes by. */
  readonly atMs: number;
}

/** Which runs to list. */
export interface RunFilter {
  readonly status?: StoredStatus;
  /** So many at most. Default 100. */
  readonly limit?: number;
  /** Those that were made before this run: the last one of a list, for what comes next. */
  readonly before?: RunId;
}

/** Where runs are kept: the journal of each, its mailbox, and which process leads it. */
export interface RunStore {
  /**
   * Makes an empty journal, owned by `owner`. Epoch 1.
   * Rejects with `run_exists`.
   */
  create(runId: RunId, title: string, owner: RunOwner): Promise<Ownership>;
  /**
   * Takes over a run without an owner, or whose owner is gone. Bumps the epoch; status is `open` from then on.
   * Adds 1 to `crashCount`, and sets `lastCrashAtMs`, if the run had an owner that is gone. The owner is
   * gone if it is stale, if its process on this machine has ended, or if `ownerLost` says so.
   * A run without an owner, or `takeOver` from a live one, is no crash.
   * Rejects with `unknown_run`, or with `run_active` and nothing changed.
   */
  claim(runId: RunId, options: ClaimOptions): Promise<Ownership>;
  /**
   * Takes a whole batch, or nothing, and counts as a sign of life. The very same batch once more changes nothing and is no error.
   * Rejects with `run_fenced` if the run was taken over, `journal_conflict` if other records stand in its place or records
   * before it are missing, `unknown_run`, and `store_failed` for whatever else keeps it from being taken; `data.isTransient` says whether
   * it is worth another try.
   */
  append(ownership: Ownership, batch: JournalBatch): Promise<void>;
  /** A sign of life. Rejects like `append`. */
  heartbeat(ownership: Ownership): Promise<void>;
  /**
   * Gives the run up: at rest, ended, or `open`, so that another process can continue it. The same once more changes nothing and is no error, also
   * of a paused run that a post has opened since. `lastPost`: the number of the last post that its owner has seen, 0 for none; a run that is
   * given up `paused` is `open` instead if a later one is there. Default: all of them were seen. Resets `crashCount` to 0,
   * unless `status` is `open`. Rejects like `append`.
   */
  release(ownership: Ownership, status: StoredStatus, lastPost?: number): Promise<void>;
  /**
   * The records from number `from` on (default 1), in order, `limit` of them at most (default: all). Rejects with `unknown_run`, or
   * `store_failed`.
   */
  read(runId: RunId, from?: number, limit?: number): AsyncIterable<string>;
  /**
   * Puts something into the mailbox of a run, whichever process owns it. A paused run is `open` from then on, still without an owner. Gives the number
   * of the post, which is one more than that of the post before. A key that was posted already changes nothing, whatever its body, and
   * gives the number that it has, also of a run that has ended since. Is no sign of life of the owner.
   * Rejects with `unknown_run`, `run_ended` if the run has ended, or `store_failed`.
   */
  sendMail(runId: RunId, sendMail: Pick<Mail, "key" | "body">): Promise<number>;
  /** The posts from number `from` on (default 1), in order. Rejects with `unknown_run`, or `store_failed`. */
  readMail(runId: RunId, from?: number): Promise<readonly Mail[]>;
  /** One run; undefined: there is none, or it has just been started and is not kept yet: `run.whenPersisted()` resolves once it is. */
  find(runId: RunId): Promise<StoredRun | undefined>;
  /** Newest first. Rejects with `unknown_run` if the run of `before` is not there (any more), or `store_failed`. */
  list(filter?: RunFilter): Promise<readonly StoredRun[]>;
  /** Removes all that is kept of a run without an owner, or whose owner is gone. Rejects with `run_active`. False: there is none. */
  remove(runId: RunId, staleAfterMs: number): Promise<boolean>;
}
