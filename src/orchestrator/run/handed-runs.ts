// HandedRuns: the runs that a worker has handed to its engine and that no process leads yet. Owns when each is handed over once more: the engine
// may have forgotten it, but a run that waits in a long queue there must not be added at every look.

import type { Clock } from "../../kernel/clock.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { StoredRun } from "../../store/run-store.ts";

/** The longest wait, in first ones. */
const LONGEST = 64;

/** A run as it was handed over. */
interface Handing extends Pick<StoredRun, "epoch" | "updatedAtMs"> {
  /** After which it is handed over again, twice that after the next time, and so on. */
  readonly waitMs: number;
  readonly nextMs: number;
}

export class HandedRuns {
  readonly #clock: Clock;
  readonly #firstWaitMs: number;
  #handings = new Map<RunId, Handing>();

  constructor(clock: Clock, firstWaitMs: number) {
    this.#clock = clock;
    this.#firstWaitMs = firstWaitMs;
  }

  /** Of all runs that no process leads, those to be handed over now. */
  due(runs: readonly StoredRun[]): readonly StoredRun[] {
    const nowMs = this.#clock.monotonicMs();
    this.#handings = new Map(runs.flatMap((run) => this.#same(run) ?? []));
    return runs.filter(({ runId }) => nowMs >= (this.#handings.get(runId)?.nextMs ?? -Infinity));
  }

  /** It was handed over. */
  note({ runId, epoch, updatedAtMs }: StoredRun): void {
    const twiceMs = 2 * (this.#handings.get(runId)?.waitMs ?? this.#firstWaitMs / 2);
    const waitMs = Math.min(twiceMs, LONGEST * this.#firstWaitMs);
    const nextMs = this.#clock.monotonicMs() + waitMs;
    this.#handings.set(runId, { epoch, updatedAtMs, waitMs, nextMs });
  }

  /** How it was handed over, if nothing has happened to it since. */
  #same({
    runId,
    epoch,
    updatedAtMs,
  }: StoredRun): readonly [readonly [RunId, Handing]] | undefined {
    const handing = this.#handings.get(runId);
    const isSame = handing?.epoch === epoch && handing.updatedAtMs === updatedAtMs;
    return isSame ? [[runId, handing]] : undefined;
  }
}
