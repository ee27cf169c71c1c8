// GuardedTracing: the tracing that an orchestrator was given, for one run, which it cannot harm. One that throws is left out from then on, and
// forgets the run; the events stay in the trace that they began.

import type { SteadyClock } from "../../kernel/clock.ts";
import { messageOf } from "../../kernel/error.ts";
import { mintTraceIds, randomHex } from "../../kernel/trace-ids.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import type { LostSpan, Tracing } from "../../protocol/tracing.ts";
import type { EventScope, EventDraft, TraceIds } from "../../protocol/event.ts";
import type { SpanContent } from "../../protocol/span-content.ts";
import type { EventMoment } from "../../protocol/span-tree.ts";

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
      this.recordContent = (scope, content) => this.#recordContent(scope, content);
  }

  get ignored(): Tracing["ignored"] {
    try {
      const { ignored } = this.#tracing;
      return ignored instanceof Set ? ignored : undefined;
    } catch (cause) {
      this.#leaveOut(cause);
      return undefined;
    }
  }

  place(draft: EventDraft): TraceIds {
    this.#last = draft;
    try {
      this.#lastIds = this.#tracing.place(draft);
      return this.#lastIds;
    } catch (cause) {
      return this.#leaveOut(cause);
    }
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
    try {
      return this.#tracing.idsOf(scope);
    } catch (cause) {
      return this.#leaveOut(cause);
    }
  }

  endLost(lost: readonly LostSpan[], atUs: number): void {
    try {
      this.#tracing.endLost?.(lost, atUs);
    } catch (cause) {
      this.#leaveOut(cause);
    }
  }

  leave(moment: EventMoment, why: "left" | "abandoned"): void {
    try {
      this.#tracing.leave?.(moment, why);
    } catch (cause) {
      this.#leaveOut(cause);
    }
  }

  #recordContent(scope: EventScope, content: SpanContent): void {
    try {
      this.#tracing.recordContent?.(scope, content);
    } catch (cause) {
      this.#leaveOut(cause);
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
      // It was complained of already.
    }
    return ids;
  }
}
