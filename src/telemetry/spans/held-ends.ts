// HeldEnds: ends of spans that wait until the events with which they came are kept. A span that has ended may leave the process; of one whose
// end is not kept the next process knows that it is open, and ends it itself. So none is emitted twice.
// Owns what waits, of runs that are kept. Spans of other runs end at once.

import type { RunId } from "../../protocol/ids.ts";
import type { SpanMoment } from "../../protocol/span-tree.ts";

interface HeldEnd {
  /** The number of the event. */
  readonly seq: number;
  readonly end: () => void;
}

export class HeldEnds {
  readonly #runs = new Map<RunId, HeldEnd[]>();

  /** Calls `end` now, or once the event of that moment is kept. */
  end({ seq, scope }: Pick<SpanMoment, "seq" | "scope">, end: () => void): void {
    const held = this.#runs.get(scope.runId);
    if (held === undefined) end();
    else held.push({ seq, end });
  }

  /** Events of the run up to this number are kept. From the first call on its ends wait. Gives how many still do. */
  kept(runId: RunId, seq: number): number {
    const held = this.#runs.get(runId) ?? [];
    const later = held.findIndex((one) => one.seq > seq);
    const due = held.splice(0, later === -1 ? held.length : later);
    this.#runs.set(runId, held);
    for (const { end } of due) end();
    return held.length;
  }

  /** Nothing more of the run is kept: what waits has ended, or never does. */
  forget(runId: RunId, { hasEnded }: { readonly hasEnded: boolean }): void {
    const held = this.#runs.get(runId) ?? [];
    this.#runs.delete(runId);
    if (hasEnded) for (const { end } of held) end();
  }
}
