// SpanMaker: begins spans, with the ids that follow from the event log where the provider lets them be chosen.
// Talks to one tracer. A parent is passed, never taken from the active context; times are those of events, never of the clock of
// OpenTelemetry; attributes are built only for a span that records, but for the few that a sampler decides by.

import {
  SpanKind,
  trace,
  type Attributes,
  type Context,
  type HrTime,
  type Link,
  type Span,
  type Tracer,
} from "@opentelemetry/api";

import type { SpanMoment, SpanOpening } from "../../protocol/span-tree.ts";
import {
  boundedAttributes,
  boundedName,
  noteShortened,
  setAttributes,
} from "../bounded/bounded-attributes.ts";
import { spanIdFrom, traceIdAfter, withIds, type ChosenIds } from "./derived-ids.ts";
import { ESPALIER, LINK } from "../gen-ai-attributes.ts";
import type { Onward, OpenSpan } from "./open-span.ts";
import { continuation } from "./span-links.ts";
import { showOutcome } from "./show-outcome.ts";
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
  readonly ids: ChosenIds;
  readonly links: readonly Link[];
  readonly aroundSinceUs?: number | undefined;
}

interface OnwardPlan {
  readonly ids: ChosenIds;
  readonly sinceUs: number;
  readonly around: Context;
  readonly attributes: Attributes;
}

export class SpanMaker {
  readonly #tracer: Tracer;

  constructor(tracer: Tracer) {
    this.#tracer = tracer;
  }

  /** Begins a span. */
  begin(body: SpanOpening, moment: SpanMoment, plan: SpanPlan): BegunSpan {
    const { around, run } = plan;
    const name = boundedName(openingName(body, moment.scope));
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
      const place = placeAttributes(moment, run.conversationId);
      setAttributes(span, { ...place, ...openingAttributes(body, role) });
    }
    return {
      span,
      opening: body,
      moment,
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
      onward: [],
      calls: 0,
      expected: 0,
    };
  }

  /** The span around all that stands in a further trace of a run. `sinceUs`: when the first of it began. */
  part(run: OpenSpan, ids: ChosenIds, sinceUs: number): Onward {
    const part = run.run.parts.length + 2;
    const attributes = {
      [ESPALIER.tracePart]: part,
      [ESPALIER.continuesFromTraceId]: run.ids.traceId,
    };
    const around = rootOf(run.context);
    return this.#onward(run, `${run.name}, part ${part}`, { ids, sinceUs, around, attributes });
  }

  /** The span in which an agent continues in a further trace, and the links between the two. */
  onward(agent: OpenSpan, { context: around, trace: size }: Onward, sinceUs: number): Onward {
    const { traceId = "" } = trace.getSpanContext(around) ?? {};
    const ids = { spanId: () => onwardIdIn(traceId, agent.moment), traceId: () => traceId };
    const before = agent.onward.at(-1)?.span ?? agent.span;
    const back = continuation(LINK.continuesFrom, before.spanContext());
    const { attributes } = back;
    const made = this.#onward(agent, agent.name, { ids, sinceUs, around, attributes });
    made.span.addLink(back.link);
    const ahead = continuation(LINK.continuesIn, made.span.spanContext());
    before.addLink(ahead.link).setAttributes(ahead.attributes);
    size.spans += 1;
    return { ...made, trace: size };
  }

  #onward(open: OpenSpan, name: string, plan: OnwardPlan): Onward {
    const { ids, sinceUs, around, attributes } = plan;
    const sampled = boundedAttributes(samplingAttributes(open.opening)).bounded;
    const options = {
      kind: SpanKind.INTERNAL,
      startTime: hrTimeOf(sinceUs),
      attributes: sampled,
    };
    const span = withIds(ids, () => this.#tracer.startSpan(boundedName(name), options, around));
    if (span.isRecording()) {
      const place = placeAttributes(open.moment, open.run.conversationId);
      setAttributes(span, { ...place, ...attributes });
    }
    const context = trace.setSpan(around, span);
    return { span, name, startedAtUs: sinceUs, context, trace: { spans: 1, expected: 0 } };
  }

  /** A span that is over when it is recorded, below `around`. */
  beside(open: OpenSpan, around: Context, side: SideSpan, moment: SpanMoment): void {
    if (this.#record(open, around, side, moment)) open.trace.spans += 1;
  }

  /** The same in a trace of its own, with a link to where it belongs: it lasted longer than the trace there. */
  apart(open: OpenSpan, side: SideSpan, moment: SpanMoment): void {
    this.#record(open, rootOf(open.around), side, moment);
  }

  #record(open: OpenSpan, around: Context, side: SideSpan, moment: SpanMoment): boolean {
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

/** The id of the span around all in a further trace of a run: who knows that trace can name it. */
export function partIdIn(traceId: string): string {
  return spanIdFrom(["part", traceId]);
}

/** The id of the span in which an agent continues in a further trace. */
function onwardIdIn(traceId: string, { seq, scope }: SpanMoment): string {
  return spanIdFrom(["onward", traceId, scope.runId, seq]);
}

/** What the ids of the span that begins with an event follow from. */
export function seedOf({ seq, atMs, scope }: SpanMoment): readonly (string | number)[] {
  return [scope.runId, seq, atMs];
}

/** Not a plain number: the SDK takes a small one, as a test's clock gives, for time since the process began. */
export function hrTimeOf(atUs: number): HrTime {
  const seconds = Math.floor(atUs / 1_000_000);
  return [seconds, (atUs - seconds * 1_000_000) * 1_000];
}

/** Begins no further trace: for `around` of a span that is to have none above it. */
function rootOf(around: Context): Context {
  return trace.deleteSpan(around);
}

/** True if the span has the id that was chosen for it: its provider lets ids be chosen. */
export function hasId(span: Span, spanId: string): boolean {
  return span.spanContext().spanId === spanId;
}
