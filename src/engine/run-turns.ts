// RunTurns: serialises the `execute` calls of each run in a process. An engine assigns a run again
// once the run seems lost, perhaps to the process that still executes it.

import type { RunId } from "../protocol/ids.ts";

export class RunTurns {
  readonly #latest = new Map<RunId, Promise<unknown>>();

  /** Does the work once the earlier work on the run has ended. */
  async run<T>(runId: RunId, work: () => Promise<T>): Promise<T> {
    const before = this.#latest.get(runId);
    const turn = before === undefined ? work() : before.catch(() => undefined).then(work);
    this.#latest.set(runId, turn);
    try {
      return await turn;
    } finally {
      if (this.#latest.get(runId) === turn) this.#latest.delete(runId);
    }
  }

  /** Resolves when all work that has begun or waits has ended. */
  async whenIdle(): Promise<void> {
    await Promise.allSettled(this.#latest.values());
  }
}
