// RunFeed: the changes of a run for a reader, as a server-sent event stream. Event ids are record
// numbers, so a reader that reconnects with the last id continues exactly there. Owns the position
// of the reader.
//
// A slow reader slows nothing down. Once too much output waits for a reader, it gets `lagging` and
// must fetch a snapshot.

import type { ServerResponse } from "node:http";

import type { Clock } from "../kernel/clock.ts";
import type { FeedEntry } from "../read-model/viewer-data.ts";
import type { CachedRun } from "./run-fold-cache.ts";
import { SECURITY_HEADERS } from "./http-reply.ts";
import { buildOwnerKey, buildMailboxKey, buildRunPatch } from "./run-rows.ts";

/** Limit of unsent bytes for one reader. */
const MAX_WAITING_BYTES = 5_000_000;
/** Interval after which a comment is sent, so that proxies keep the connection open. */
const HEARTBEAT_MS = 15_000;
/** Time for a slow reader to receive `lagging`. */
const LAST_WORDS_MS = 30_000;

export class RunFeed {
  readonly #run: CachedRun;
  readonly #response: ServerResponse;
  readonly #clock: Clock;
  /** Number of the last record that was sent. */
  #known: number;
  /** Owner and mailbox that were sent last. `undefined` if the mailbox was not sent yet. */
  #leader: string;
  #mail: string | undefined;
  #stopTimer: () => void = () => undefined;
  #stopWatching: () => void = () => undefined;
  #isOver = false;

  constructor(
    run: CachedRun,
    response: ServerResponse,
    { after, clock }: { readonly after: number; readonly clock: Clock },
  ) {
    this.#run = run;
    this.#response = response;
    this.#clock = clock;
    this.#known = after;
    this.#leader = buildOwnerKey(run, clock.nowMs());
    this.#mail = after === run.record ? buildMailboxKey(run) : undefined;
  }

  /** Sends entries. Resolves when the reader disconnects or the feed ends. */
  async send(): Promise<void> {
    // The client left while the run was read: `close` was already emitted.
    if (this.#response.destroyed) return;
    const gone = new Promise<void>((resolve) => this.#response.once("close", resolve));
    this.#response.writeHead(200, {
      ...SECURITY_HEADERS,
      "content-type": "text/event-stream; charset=utf-8",
      "x-accel-buffering": "no",
    });
    this.#response.flushHeaders();
    this.#scheduleBeat();
    this.#stopWatching = this.#run.watch(() => this.#report());
    this.#report();
    await gone;
    this.end();
  }

  /** Ends the feed. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#stopTimer();
    this.#stopWatching();
    this.#response.end();
  }

  #report(): void {
    if (this.#isOver) return;
    const { record, fold } = this.#run;
    // The journal is unreadable. A new request for the run gets the error.
    if (this.#run.isBroken) return this.end();
    if (record < this.#known) return this.#endWith({ type: "reset" });
    const nowMs = this.#clock.nowMs();
    const [leader, mail] = [buildOwnerKey(this.#run, nowMs), buildMailboxKey(this.#run)];
    const isMailNew = mail !== this.#mail;
    if (record > this.#known || leader !== this.#leader || isMailNew) {
      if (this.#response.writableLength > MAX_WAITING_BYTES) return this.#endLagging();
      const patch = buildRunPatch(this.#run, { since: this.#known, isMailNew }, nowMs);
      this.#known = record;
      this.#leader = leader;
      this.#mail = mail;
      this.#write({ type: "patch", patch });
    }
    const isOver =
      this.#run.stored.status === "ended" && fold.end !== undefined && fold.end.status !== "paused";
    if (isOver) this.#endWith({ type: "end" });
  }

  #endLagging(): void {
    const destroy = (): void => void this.#response.destroy();
    const stopTimer = this.#clock.setTimer(LAST_WORDS_MS, destroy);
    this.#response.once("close", stopTimer);
    this.#endWith({ type: "lagging" });
  }

  #endWith(entry: FeedEntry): void {
    this.#write(entry);
    this.end();
  }

  #write(entry: FeedEntry): void {
    this.#response.write(`id: ${this.#known}\ndata: ${JSON.stringify(entry)}\n\n`);
    this.#scheduleBeat();
  }

  #scheduleBeat(): void {
    this.#stopTimer();
    this.#stopTimer = this.#clock.setTimer(HEARTBEAT_MS, () => {
      this.#response.write(": still here\n\n");
      this.#scheduleBeat();
    });
  }
}
