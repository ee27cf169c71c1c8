// GuardedTracing: the tracing that an orchestrator was given, for one run, which it cannot harm. One that throws is left out from then on, and
// forgets the run; the events stay in the trace that they began.

import type { SteadyClock } from "../kernel/clock.ts";
import { messageOf } from "../kernel/error.ts";
import { mintTraceIds, randomHex } from "../kernel/trace-ids.ts";
import { warnOnce } from "../kernel/warn-once.ts";
import type { LostSpan, Tracing } from "../protocol/tracing.ts";
import type { EventScope, EventDraft, TraceIds } from "../protocol/event.ts";
import type { RunId } from "../protocol/ids.ts";
import type { EventMoment } from "../protocol/span-tree.ts";

export class GuardedTracing implements Tracing {
  readonly recordContent: Tracing["recordContent"];
  readonly #clock: SteadyClock;
  #tracing: Tracing;
  #last: EventDraft | undefined;
  #lastIds: TraceIds | undefined;

  constructor(tracing: Tracing, clock: SteadyClock) {
    this.#tracing = tracing;
    this.#clock = clock;
    if (tracing.recordContent !== undefined)
      this.recordContent = (scope, content) =>
        void this.#tried((tracing) => tracing.recordContent?.(scope, content));
  }

  get ignored(): Tracing["ignored"] {
    const ignored = this.#tried((tracing) => tracing.ignored);
    return ignored instanceof Set ? ignored : undefined;
  }

  place(draft: EventDraft): TraceIds {
    this.#last = draft;
    this.#lastIds = this.#tried((tracing) => tracing.place(draft));
    return this.#lastIds;
  }

  /** Runs the work once, whatever the tracing does. */
  within<T>(scope: EventScope, work: () => Promise<T>): Promise<T> {
    let begun: Promise<T> | undefined;
    const begin = (): Promise<T> => (begun ??= work());
    try {
      const given = this.#tracing.within(scope, begin);
      if (given !== begun) given.catch(() => undefined);
      if (begun === undefined) throw new Error("within() did not run what it was given");
    } catch (cause) {
      this.#leaveOut(cause);
    }
    return begin();
  }

  idsOf(scope: EventScope): TraceIds | undefined {
    return this.#tried((tracing) => tracing.idsOf(scope));
  }

  endLost(lost: readonly LostSpan[], atUs: number): void {
    this.#tried((tracing) => tracing.endLost?.(lost, atUs));
  }

  kept(runId: RunId, seq: number): void {
    this.#tried((tracing) => tracing.kept?.(runId, seq));
  }

  leave(moment: EventMoment, why: "left" | "abandoned"): void {
    this.#tried((tracing) => tracing.leave?.(moment, why));
  }

  /** What the tracing gives, or the ids of one that is left out. */
  #tried<Given>(use: (tracing: Tracing) => Given): Given | TraceIds {
    try {
      return use(this.#tracing);
    } catch (cause) {
      return this.#leaveOut(cause);
    }
  }

  /** Gives the ids that all events have from now on. */
  #leaveOut(cause: unknown): TraceIds {
    const tracing = this.#tracing;
    warnOnce(tracing, `The tracing threw (${messageOf(cause)}); the run continues without it.`);
    const { traceId, spanId } = this.#lastIds ?? mintTraceIds(randomHex, undefined);
    const ids = { traceId, spanId };
    this.#tracing = { place: () => ids, within: (_scope, work) => work(), idsOf: () => ids };
    if (this.#last === undefined) return ids;
    const { seq, scope } = this.#last;
    try {
      tracing.leave?.({ seq, atMs: this.#clock.stampMs(), scope }, "abandoned");
    } catch {
      // A warning was given already.
    }
    return ids;
  }
}
