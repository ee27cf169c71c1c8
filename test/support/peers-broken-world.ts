// Clocks and ids that fail where a test wants them to.

import type { Clock } from "../../src/kernel/clock.ts";
import type { IdSource } from "../../src/kernel/id-source.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { sequentialIds } from "../../src/testing/sequential-ids.ts";

/** A clock and ids of which one fails once, when the test says so. */
export class BreakingWorld extends ManualClock implements Clock {
  breaks: keyof Clock | "ids" | undefined;
  readonly #sequential = sequentialIds();

  readonly ids: IdSource = {
    next: (kind) => (this.#takes("ids") ? `${kind}_1` : this.#sequential.next(kind)),
  };

  override monotonicMs(): number {
    if (this.#takes("monotonicMs")) throw new Error("The clock is broken.");
    return super.monotonicMs();
  }

  override setTimer(delayMs: number, wake: () => void): () => void {
    if (this.#takes("setTimer")) throw new Error("The clock is broken.");
    return super.setTimer(delayMs, wake);
  }

  #takes(part: keyof Clock | "ids"): boolean {
    if (this.breaks !== part) return false;
    this.breaks = undefined;
    return true;
  }
}

/** Ids that count up, except for these. */
export function throwingAt(...failing: readonly string[]): IdSource {
  const sequential = sequentialIds();
  return {
    next: (kind) => {
      const id = sequential.next(kind);
      if (failing.includes(id)) throw new Error("no more ids");
      return id;
    },
  };
}
