// HeldRuns: the runs that are held folded, eight of them or 256 MB at most: the one that was asked for least recently goes first, and is
// folded anew when it is asked for again.

import type { RunId } from "../protocol/ids.ts";
import { HeldRun, type ReadingMeans } from "./held-run.ts";

const MOST_RUNS = 8;
const MOST_BYTES = 256_000_000;

export class HeldRuns {
  readonly #means: ReadingMeans;
  /** Least recently asked for first. */
  readonly #runs = new Map<RunId, HeldRun>();

  constructor(means: ReadingMeans) {
    this.#means = means;
  }

  /** The run, as its journal is now. Rejects like `HeldRun.look`. */
  async look(runId: RunId): Promise<HeldRun> {
    const run = this.#runs.get(runId) ?? new HeldRun(this.#means, runId);
    this.#runs.delete(runId);
    this.#runs.set(runId, run);
    try {
      await run.look();
    } catch (cause) {
      if (run.isBroken || run.record === 0) this.#drop(run);
      throw cause;
    } finally {
      this.#makeRoom(run);
    }
    return run;
  }

  /** The run, if it is held. */
  find(runId: RunId): HeldRun | undefined {
    return this.#runs.get(runId);
  }

  /** True if one more can be held, and none has to go for it. */
  get hasRoom(): boolean {
    return this.#runs.size < MOST_RUNS && this.#bytes < MOST_BYTES;
  }

  /** Whether one more can be watched. */
  canWatch(run: HeldRun): boolean {
    return (
      run.isWatched || [...this.#runs.values()].filter((one) => one.isWatched).length < MOST_RUNS
    );
  }

  get #bytes(): number {
    return [...this.#runs.values()].reduce((sum, { heapBytes }) => sum + heapBytes, 0);
  }

  #drop(run: HeldRun): void {
    if (this.#runs.get(run.runId) === run) this.#runs.delete(run.runId);
  }

  /** One that is watched stays, and so does the one that is asked for now. */
  #makeRoom(latest: HeldRun): void {
    let bytes = this.#bytes;
    for (const run of this.#runs.values()) {
      if (this.#runs.size <= MOST_RUNS && bytes <= MOST_BYTES) return;
      if (run === latest || run.isWatched) continue;
      this.#runs.delete(run.runId);
      bytes -= run.heapBytes;
    }
  }
}
