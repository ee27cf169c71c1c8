// LiveRuns: the runs that one orchestrator leads in this process. Owns their handles from their start until they rest, and whether
// further ones may begin.

import { CancelSignal } from "../../kernel/cancel.ts";
import { EspalierError } from "../../kernel/error.ts";
import type { MessageContent } from "../../protocol/message-content.ts";
import type { LiveRun } from "./live-run.ts";
import type { Quarantine } from "./quarantine.ts";

/** Returns the error for an id whose run was started with another role or task. */
export function otherRun(runId: string): EspalierError {
  return new EspalierError({
    code: "other_run",
    message: `Expected run ${JSON.stringify(runId)} to have been started with this role and task, got one with others. Choose another id for another task.`,
    data: { runId },
  });
}

export class LiveRuns {
  /** In the order in which they began. */
  readonly #runs = new Set<LiveRun>();
  /** Recoveries that have no run yet. */
  #recoveries = 0;
  /** Aborted when nothing further may begin. */
  readonly closing = new CancelSignal();
  /** See `quarantineIn`: only runs of a store have one. */
  quarantine: Quarantine | undefined;
  #isEmpty = Promise.withResolvers<void>();

  get all(): readonly LiveRun[] {
    return [...this.#runs];
  }

  /** The newest of this id: one that was taken over may still be on its way out. */
  find(runId: string): LiveRun | undefined {
    return this.all.findLast((run) => run.runId === runId);
  }

  /** Returns the run that was started under this id and is not over. Throws `other_run` if it was started with another role or task. */
  findStarted(runId: string | undefined, role: string, task: MessageContent): LiveRun | undefined {
    const run = runId === undefined ? undefined : this.find(runId);
    if (run === undefined || run.isOf(role, task)) return run;
    throw otherRun(run.runId);
  }

  get isClosed(): boolean {
    return this.closing.aborted;
  }

  /** Throws `invalid_state` once the orchestrator was closed. */
  assertOpen(): void {
    if (!this.isClosed) return;
    throw new EspalierError({
      code: "invalid_state",
      message:
        "Expected an orchestrator that is open, got one that was closed: no run begins or goes on there. Make another one.",
    });
  }

  /** Adds a run that begins or continues in this process, until it rests. An abort of `signal` cancels the run. */
  add(run: LiveRun, signal?: AbortSignal): LiveRun {
    this.#runs.add(run);
    run.whenOver(() => {
      this.#runs.delete(run);
      this.quarantine?.end(run.runId);
      this.#check();
    });
    if (signal !== undefined) run.cancelWith(signal);
    return run;
  }

  /** Work that may lead to a run: closing waits for it, too. */
  async during<Made>(work: () => Promise<Made>): Promise<Made> {
    this.#recoveries += 1;
    try {
      return await work();
    } finally {
      this.#recoveries -= 1;
      this.#check();
    }
  }

  /** Nothing further may begin; resolves when nothing is under way. */
  close(): Promise<void> {
    this.closing.abort("closed");
    this.#check();
    return this.#isEmpty.promise;
  }

  #check(): void {
    if (this.isClosed && this.#recoveries === 0 && this.#runs.size === 0) this.#isEmpty.resolve();
  }
}
