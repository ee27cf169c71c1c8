// RunFeed: what is new of one run, to one reader, as an event stream whose ids are numbers of records: a reader that reconnects with the last
// one gets exactly what came after it. Owns what the reader knows.
//
// V4. A reader that does not read slows nothing: once too much waits for it, it is notified, and takes a snapshot.

import type { ServerResponse } from "node:http";

import type { Clock } from "../kernel/clock.ts";
import type { FeedEntry } from "../view/viewer-data.ts";
import type { HeldRun } from "./held-run.ts";
import { SECURITY_HEADERS } from "./reply.ts";
import { leaderText, mailText, patchOf } from "./run-rows.ts";

/** Bytes that wait for a reader. */
const MOST_WAITING_BYTES = 5_000_000;
/** After so long without an entry a comment is sent, so that nothing between takes the connection for dead. */
const HEARTBEAT_MS = 15_000;
/** For how long a reader that lags may take to read the notice of it. */
const LAST_WORDS_MS = 30_000;

export class RunFeed {
  readonly #run: HeldRun;
  readonly #response: ServerResponse;
  readonly #clock: Clock;
  /** The last record that the reader knows. */
  #known: number;
  /** What it knows of the leader of the run, and of its mailbox; undefined: not the present state of the mailbox. */
  #leader: string;
  #mail: string | undefined;
  #stopTimer: () => void = () => undefined;
  #stopWatching: () => void = () => undefined;
  #isOver = false;

  constructor(
    run: HeldRun,
    response: ServerResponse,
    { after, clock }: { readonly after: number; readonly clock: Clock },
  ) {
    this.#run = run;
    this.#response = response;
    this.#clock = clock;
    this.#known = after;
    this.#leader = leaderText(run, clock.nowMs());
    this.#mail = after === run.record ? mailText(run) : undefined;
  }

  /** Resolves when the reader has left, or nothing more comes. */
  async send(): Promise<void> {
    // A client that left while the run was read is not waited for: its `close` does not come again.
    if (this.#response.destroyed) return;
    const gone = new Promise<void>((resolve) => this.#response.once("close", resolve));
    this.#response.writeHead(200, {
      ...SECURITY_HEADERS,
      "content-type": "text/event-stream; charset=utf-8",
      "x-accel-buffering": "no",
    });
    this.#response.flushHeaders();
    this.#beatLater();
    this.#stopWatching = this.#run.watch(() => this.#report());
    this.#report();
    await gone;
    this.end();
  }

  /** Nothing more is sent. */
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
    // A journal that cannot be read, or another one under the same id: a new request for the run gets the error.
    if (this.#run.isBroken) return this.end();
    if (record < this.#known) return this.#endWith({ type: "reset" });
    const nowMs = this.#clock.nowMs();
    const [leader, mail] = [leaderText(this.#run, nowMs), mailText(this.#run)];
    const isMailNew = mail !== this.#mail;
    if (record > this.#known || leader !== this.#leader || isMailNew) {
      if (this.#response.writableLength > MOST_WAITING_BYTES) return this.#lag();
      const patch = patchOf(this.#run, { since: this.#known, isMailNew }, nowMs);
      this.#known = record;
      this.#leader = leader;
      this.#mail = mail;
      this.#write({ type: "patch", patch });
    }
    const isOver =
      this.#run.stored.status === "ended" && fold.end !== undefined && fold.end.status !== "paused";
    if (isOver) this.#endWith({ type: "end" });
  }

  #lag(): void {
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
    this.#beatLater();
  }

  #beatLater(): void {
    this.#stopTimer();
    this.#stopTimer = this.#clock.setTimer(HEARTBEAT_MS, () => {
      this.#response.write(": still here\n\n");
      this.#beatLater();
    });
  }
}
