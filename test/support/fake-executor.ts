// An executor without an orchestrator: the test receives each run that is to be executed, and
// decides its outcome.

import type { RunExecutor, ExecutorResult } from "../../src/engine/engine.ts";
import { EspalierError } from "../../src/kernel/error.ts";
import type { RunId } from "../../src/protocol/ids.ts";

/** A `settle` that is under way. */
export interface LedRun {
  readonly runId: RunId;
  /** Resolves when it is to leave the run. */
  readonly left: Promise<void>;
  end(): void;
  waitUntil(untilMs: number | undefined): void;
  fail(code: "run_released" | "run_active" | "run_fenced" | "store_failed"): void;
}

interface FakeExecutorOptions {
  readonly roles?: readonly string[];
  readonly version?: string;
  readonly maxRuns?: number;
}

export class FakeExecutor implements RunExecutor {
  readonly roles: readonly string[];
  readonly version: string;
  maxRuns: number;
  /** The runs, in the order of their executions. */
  readonly begun: RunId[] = [];
  mostAtOnce = 0;
  readonly #untaken: LedRun[] = [];
  readonly #open = new Set<LedRun>();
  #endsAtOnce = false;
  #waiting: ((isThere: void) => void)[] = [];

  constructor({ roles = ["lead"], version = "v1", maxRuns = 10 }: FakeExecutorOptions = {}) {
    this.roles = roles;
    this.version = version;
    this.maxRuns = maxRuns;
  }

  execute(runId: RunId, leave: AbortSignal): Promise<ExecutorResult> {
    const settled = Promise.withResolvers<ExecutorResult>();
    const left = Promise.withResolvers<void>();
    if (leave.aborted) left.resolve();
    leave.addEventListener("abort", () => left.resolve(), { once: true });
    const done = (): void => void this.#open.delete(run);
    const run: LedRun = {
      runId,
      left: left.promise,
      end: () => (done(), settled.resolve({ type: "ended" })),
      waitUntil: (untilMs) => {
        done();
        settled.resolve(untilMs === undefined ? { type: "waiting" } : { type: "waiting", untilMs });
      },
      fail: (code) => {
        done();
        const message = `Expected a run to be led, got ${code}. Lead it again.`;
        settled.reject(new EspalierError({ code, message }));
      },
    };
    this.begun.push(runId);
    this.#open.add(run);
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#open.size);
    this.#untaken.push(run);
    if (this.#endsAtOnce) run.end();
    for (const wake of this.#waiting.splice(0)) wake();
    return settled.promise;
  }

  next(): Promise<LedRun> {
    return FakeExecutor.nextOf(this);
  }

  /** The next one of any of these. */
  static async nextOf(...executors: readonly FakeExecutor[]): Promise<LedRun> {
    for (;;) {
      for (const executor of executors) {
        const run = executor.#untaken.shift();
        if (run !== undefined) return run;
      }
      const there = executors.map(
        (executor) => new Promise<void>((resolve) => executor.#waiting.push(resolve)),
      );
      await Promise.race(there);
    }
  }

  /** Ends the current and all later executions at once. */
  endAll(): void {
    this.#endsAtOnce = true;
    for (const run of this.#open) run.end();
  }

  /** All that is under way is left. */
  giveUp(): void {
    for (const run of this.#open) run.fail("run_released");
  }
}
