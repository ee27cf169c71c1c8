// RunSlot: the slot of a run among those that its orchestrator runs at once (`maxConcurrentRuns`).

import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { Release, Semaphore } from "../../kernel/semaphore.ts";
import { isInScope } from "../../protocol/correlation.ts";
import type { RunRuntime } from "../tree/run-runtime.ts";

export class RunSlot {
  /**
   * Resolves once the run may work, or its root is aborted. A run that code of another run starts never
   * waits: the other run may wait for its result while it holds a slot.
   */
  readonly admitted: Promise<void>;
  /** Milliseconds that the run waited; `undefined` if it has no slot. */
  queuedMs: number | undefined;
  #release: Release | undefined;
  #isReleased = false;

  /** Joins the queue at once. */
  constructor(slots: Semaphore, run: RunRuntime, root: AgentRuntime) {
    this.admitted = isInScope() ? Promise.resolve() : this.#acquire(slots, run, root);
  }

  /** Relative time limits of the agents do not run while the run waits. */
  async #acquire(slots: Semaphore, { clock, tree }: RunRuntime, root: AgentRuntime): Promise<void> {
    const sinceMs = clock.nowMs();
    let acquired = slots.acquire(root.signal);
    if (acquired instanceof Promise) {
      const agents = tree.nodes.filter(({ hasEnded }) => !hasEnded);
      for (const agent of agents) agent.beginQuestion();
      acquired = await acquired;
      for (const agent of agents) agent.endQuestion();
    }
    if (acquired === undefined) return;
    this.queuedMs = clock.nowMs() - sinceMs;
    this.#release = acquired;
    if (this.#isReleased) this.release();
  }

  /** Gives the slot back, also one that the run gets later. */
  release(): void {
    this.#isReleased = true;
    this.#release?.();
    this.#release = undefined;
  }
}
