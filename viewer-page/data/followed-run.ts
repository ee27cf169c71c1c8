// FollowedRun: loads a run for the page, first its snapshot, then its feed. The feed continues from
// the last known record, so the state is exact after any interruption. A tab that is hidden for 30
// s closes its feed, because browsers limit the connections per server.

import { signal, type Signal } from "@preact/signals";

import type { FeedEntry } from "../../src/read-model/viewer-data.ts";
import { api, isAnswer, Problem, toProblem } from "./api.ts";
import { parseEvents } from "./event-stream.ts";
import { startTimer, pause } from "./page-clock.ts";
import { RunState } from "./run-state.ts";

const HIDDEN_MS = 30_000;
const RETRIES_MS = [1000, 2000, 4000, 8000, 15_000] as const;

/**
 * State of the connection. `live`: the feed is open. `lost`: it is retried. `resting`: the tab is
 * hidden. `ended`: the run is complete.
 */
export type Liveness = "loading" | "live" | "lost" | "resting" | "ended";

export class FollowedRun {
  readonly runId: string;
  /** `undefined` until the first snapshot has arrived. It stays when the connection is lost. */
  readonly state: Signal<RunState | undefined> = signal(undefined);
  readonly liveness = signal<Liveness>("loading");
  /** Reason for a missing snapshot or feed. */
  readonly problem: Signal<Problem | undefined> = signal(undefined);
  readonly #closing = new AbortController();
  #reading = new AbortController();
  #waiting = new AbortController();
  #stopHiding: (() => void) | undefined;

  constructor(runId: string) {
    this.runId = runId;
    document.addEventListener("visibilitychange", this.#onVisibility);
    void this.#follow();
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  close(): void {
    document.removeEventListener("visibilitychange", this.#onVisibility);
    this.#stopHiding?.();
    this.#closing.abort();
    this.#reading.abort();
    this.#waiting.abort();
  }

  /** Retries at once, before the delay ends. */
  retry(): void {
    this.#waiting.abort();
  }

  async #follow(): Promise<void> {
    let tries = 0;
    while (!this.#closing.signal.aborted) {
      this.#reading = new AbortController();
      try {
        const hasEnded = await this.#read(() => {
          tries = 0;
        });
        if (hasEnded) return;
        continue;
      } catch (error) {
        if (this.#closing.signal.aborted) return;
        if (this.liveness.value !== "resting") this.#recordLoss(toProblem(error));
        if (isPermanent(this.problem.value)) return;
      }
      await this.#waitForRetry(tries);
      tries += 1;
    }
  }

  /**
   * Reads the feed. Returns true if the run has ended and is complete, false if reading must
   * restart at once. Rejects when the connection is lost.
   */
  async #read(onData: () => void): Promise<boolean> {
    const { signal } = this.#reading;
    const state = this.state.value ?? new RunState(await api.run(this.runId, signal));
    this.state.value = state;
    const { body } = await api.feed(this.runId, state.record, signal);
    if (body === null) throw new Problem("unreachable", "The feed is empty.", 0);
    this.problem.value = undefined;
    this.liveness.value = "live";
    for await (const { data } of parseEvents(body)) {
      onData();
      const entry: unknown = JSON.parse(data);
      if (!isAnswer<FeedEntry>(entry)) continue;
      if (entry.type === "patch") {
        state.apply(entry.patch);
        continue;
      }
      if (entry.type === "end") this.liveness.value = "ended";
      // After `reset` or `lagging`, a new snapshot is needed.
      else state.replace(await api.run(this.runId, signal));
      return entry.type === "end";
    }
    throw new Problem("unreachable", "The server has closed the feed.", 0);
  }

  #recordLoss(problem: Problem): void {
    this.problem.value = problem;
    this.liveness.value = this.state.value === undefined ? "loading" : "lost";
  }

  async #waitForRetry(tries: number): Promise<void> {
    this.#waiting = new AbortController();
    if (this.liveness.value === "resting") return waitUntilVisible(this.#waiting.signal);
    const delayMs = RETRIES_MS[Math.min(tries, RETRIES_MS.length - 1)] ?? 1000;
    return pause(delayMs, this.#waiting.signal);
  }

  readonly #onVisibility = (): void => {
    this.#stopHiding?.();
    if (!document.hidden) {
      this.#waiting.abort();
      return;
    }
    this.#stopHiding = startTimer(HIDDEN_MS, () => {
      if (this.liveness.value !== "live") return;
      this.liveness.value = "resting";
      this.#reading.abort();
    });
  };
}

/** Returns true for a problem that a retry cannot fix. */
function isPermanent(problem: Problem | undefined): boolean {
  if (problem === undefined) return false;
  return problem.status >= 400 && problem.status < 500 && problem.status !== 429;
}

function waitUntilVisible(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted || !document.hidden) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
