// GuardedTracing: protects a run from errors of the orchestrator's tracing. A tracing that throws
// is not called again, except to release the run. Later events get the ids of the last recorded
// event, so they stay in its trace.

import type { SteadyClock } from "../kernel/clock.ts";
import { getErrorMessage } from "../kernel/error.ts";
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
        void this.#try((tracing) => tracing.recordContent?.(scope, content));
  }

  get ignoredEvents(): Tracing["ignoredEvents"] {
    const ignored = this.#try((tracing) => tracing.ignoredEvents);
    return ignored instanceof Set ? ignored : undefined;
  }

  traceEvent(draft: EventDraft): TraceIds {
    this.#last = draft;
    this.#lastIds = this.#try((tracing) => tracing.traceEvent(draft));
    return this.#lastIds;
  }

  /** Runs the work exactly once, whether or not the tracing works. */
  runInSpan<T>(scope: EventScope, work: () => Promise<T>): Promise<T> {
    let begun: Promise<T> | undefined;
    try {
      const traced = this.#tracing.runInSpan(scope, () => {
        begun ??= work();
        return begun;
      });
      if (traced !== begun) traced.catch(() => undefined);
      if (begun === undefined) throw new Error("runInSpan() did not run its work");
    } catch (cause) {
      this.#leaveOut(cause);
    }
    return begun ?? work();
  }

  getIds(scope: EventScope): TraceIds | undefined {
    return this.#try((tracing) => tracing.getIds(scope));
  }

  endLostSpans(lost: readonly LostSpan[], atUs: number): void {
    this.#try((tracing) => tracing.endLostSpans?.(lost, atUs));
  }

  onPersisted(runId: RunId, seq: number): void {
    this.#try((tracing) => tracing.onPersisted?.(runId, seq));
  }

  release(moment: EventMoment, reason: "released" | "abandoned"): void {
    this.#try((tracing) => tracing.release?.(moment, reason));
  }

  /** Returns the result of the tracing, or the fallback ids if it throws. */
  #try<Given>(use: (tracing: Tracing) => Given): Given | TraceIds {
    try {
      return use(this.#tracing);
    } catch (cause) {
      return this.#leaveOut(cause);
    }
  }

  /** Replaces the tracing that threw. Returns the ids of all further events. */
  #leaveOut(cause: unknown): TraceIds {
    const tracing = this.#tracing;
    warnOnce(
      tracing,
      `The tracing threw (${getErrorMessage(cause)}); the run continues without it.`,
    );
    const { traceId, spanId } = this.#lastIds ?? mintTraceIds(randomHex, undefined);
    const ids = { traceId, spanId };
    this.#tracing = {
      traceEvent: () => ids,
      runInSpan: (_scope, work) => work(),
      getIds: () => ids,
    };
    if (this.#last === undefined) return ids;
    const { seq, scope } = this.#last;
    try {
      tracing.release?.({ seq, atMs: this.#clock.stampMs(), scope }, "abandoned");
    } catch {
      // The tracing was already reported.
    }
    return ids;
  }
}
