// An executor without an orchestrator: it hands each execution to the test, which settles it.

import type { RunExecutor, ExecutorResult } from "../../../src/engine/engine.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import type { RunId } from "../../../src/protocol/ids.ts";

/** An execution of a run. */
export interface Leading {
  readonly runId: RunId;
  readonly leave: AbortSignal;
  readonly atMs: number;
  settle(settled?: ExecutorResult): void;
  fail(error: unknown): void;
}

export const LEFT = new EspalierError({ code: "run_released", message: "It was left." });

export class GatedExecutor implements RunExecutor {
  readonly maxRuns = 10;
  readonly roles: readonly string[];
  readonly version: string;
  /** The runs of all executions. */
  readonly led: RunId[] = [];
  /** The highest number of concurrent executions of one run. */
  mostAtOnce = 0;
  readonly #underWay = new Map<RunId, number>();
  readonly #waiting: Leading[] = [];
  readonly #takers: ((leading: Leading) => void)[] = [];

  constructor(roles: readonly string[], version = "1") {
    this.roles = roles;
    this.version = version;
  }

  /** Returns the next execution, in the order in which they began. */
  next(): Promise<Leading> {
    const leading = this.#waiting.shift();
    if (leading !== undefined) return Promise.resolve(leading);
    return new Promise((resolve) => this.#takers.push(resolve));
  }

  async execute(runId: RunId, leave: AbortSignal): Promise<ExecutorResult> {
    const { promise, resolve, reject } = Promise.withResolvers<ExecutorResult>();
    const count = (this.#underWay.get(runId) ?? 0) + 1;
    this.#underWay.set(runId, count);
    this.mostAtOnce = Math.max(this.mostAtOnce, count);
    this.led.push(runId);
    const settle = (settled: ExecutorResult = { type: "ended" }): void => resolve(settled);
    const leading = { runId, leave, atMs: Date.now(), settle, fail: reject };
    const taker = this.#takers.shift();
    if (taker === undefined) this.#waiting.push(leading);
    else taker(leading);
    try {
      return await promise;
    } finally {
      this.#underWay.set(runId, (this.#underWay.get(runId) ?? 0) - 1);
    }
  }
}

/** Resolves when an execution is to be released. */
export function toBeLeft({ leave }: Leading): Promise<void> {
  return new Promise((resolve) => {
    if (leave.aborted) resolve();
    else leave.addEventListener("abort", () => resolve());
  });
}
