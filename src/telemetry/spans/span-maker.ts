// SpanMaker: begins spans, with the ids that follow from the event log where the provider lets them be chosen.
// Talks to one tracer. A parent is passed, never taken from the active context; times are those of events, never of the clock of
// OpenTelemetry; attributes are built only for a span that records, but for the few that a sampler decides by.

import {
  SpanKind,
  trace,
  type Context,
  type HrTime,
  type Link,
  type Span,
  type Tracer,
} from "@opentelemetry/api";

import type { Moment, Opening } from "../../protocol/span-scope.ts";
import {
  boundedAttributes,
  boundedName,
  noteShortened,
  setAttributes,
} from "../bounded/bounded-attributes.ts";
import { spanIdFrom, traceIdAfter, withIds, type WantedIds } from "./derived-ids.ts";
import type { OpenSpan } from "./open-span.ts";
import { showOutcome } from "./shown-outcome.ts";
import type { SideSpan } from "./side-spans.ts";
import {
  openingAttributes,
  openingName,
  placeAttributes,
  samplingAttributes,
} from "./span-attributes.ts";

/** A span that begins, without the ids of its own. */
export type BegunSpan = Omit<OpenSpan, "ids">;

/** What is known of a span before there is one. */
export interface SpanPlan extends Pick<OpenSpan, "around" | "run" | "trace"> {
  /** Of the agent around it. */
  readonly role: string;
  readonly ids: WantedIds;
  readonly links: readonly Link[];
  readonly aroundSinceUs?: number | undefined;
}

export class SpanMaker {
  readonly #tracer: Tracer;

  constructor(tracer: Tracer) {
    this.#tracer = tracer;
  }

  /** Begins the span of a scope. */
  begin(body: Opening, moment: Moment, plan: SpanPlan): BegunSpan {
    const { around, run } = plan;
    const name = boundedName(openingName(body, moment.correlation));
    const role = "role" in body ? body.role : plan.role;
    const sampled = boundedAttributes(samplingAttributes(body));
    const span = withIds(plan.ids, () =>
      this.#tracer.startSpan(
        name,
        {
          kind: body.type === "model.requested" ? SpanKind.CLIENT : SpanKind.INTERNAL,
          startTime: hrTimeOf(moment.atUs),
          attributes: sampled.bounded,
          links: [...plan.links],
        },
        around,
      ),
    );
    if (span.isRecording()) {
      plan.trace.spans += 1;
      noteShortened(span, sampled.shortened);
      setAttributes(span, placeAttributes(moment, run.conversationId));
      setAttributes(span, openingAttributes(body, role));
    }
    return {
      span,
      opening: body,
      startedAtMs: moment.atMs,
      startedAtUs: moment.atUs,
      aroundSinceUs: plan.aroundSinceUs ?? moment.atUs,
      around,
      context: trace.setSpan(around, span),
      name,
      shownName: name,
      role,
      isToolCall: body.type === "tool.started" || body.type === "tool.resumed",
      run,
      trace: plan.trace,
    };
  }

  /** A span that is over when it is told, below `around`. */
  beside(open: OpenSpan, around: Context, side: SideSpan, moment: Moment): void {
    if (this.#told(open, around, side, moment)) open.trace.spans += 1;
  }

  /** The same in a trace of its own, with a link to where it belongs: it lasted longer than the trace there. */
  apart(open: OpenSpan, side: SideSpan, moment: Moment): void {
    this.#told(open, rootOf(open.around), side, moment);
  }

  #told(open: OpenSpan, around: Context, side: SideSpan, moment: Moment): boolean {
    const { name, startUs, endUs, outcome, links = [] } = side;
    const seed = [...seedOf(moment), side.kind];
    const { traceId } = open.ids;
    const ids = { spanId: () => spanIdFrom(seed), traceId: () => traceIdAfter(traceId, seed) };
    const kind = side.isCallOut === true ? SpanKind.CLIENT : SpanKind.INTERNAL;
    const options = { kind, startTime: hrTimeOf(startUs), links: [...links] };
    const span = withIds(ids, () => this.#tracer.startSpan(boundedName(name), options, around));
    if (!span.isRecording()) return false;
    const place = placeAttributes(moment, open.run.conversationId);
    setAttributes(span, { ...place, ...side.attributes });
    if (outcome !== undefined) showOutcome(span, name, outcome);
    span.end(hrTimeOf(endUs));
    return true;
  }
}

/** What the ids of the span that begins with an event follow from. */
export function seedOf({ seq, atMs, correlation }: Moment): readonly (string | number)[] {
  return [correlation.runId, seq, atMs];
}

/** Not a plain number: the SDK takes a small one, as a test's clock gives, for time since the process began. */
export function hrTimeOf(atUs: number): HrTime {
  const seconds = Math.floor(atUs / 1_000_000);
  return [seconds, (atUs - seconds * 1_000_000) * 1_000];
}

/** Begins no further trace: for `around` of a span that is to have none above it. */
export function rootOf(around: Context): Context {
  return trace.deleteSpan(around);
}

/** True if the span has the id that was wanted for it: its provider lets ids be chosen. */
export function hasId(span: Span, spanId: string): boolean {
  return span.spanContext().spanId === spanId;
}
