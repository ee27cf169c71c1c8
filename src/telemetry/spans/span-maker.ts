// SpanMaker: begins spans, with the ids that follow from the event log where the provider lets them be chosen.
// Talks to one tracer. A parent is passed, never taken from the active context; times are those of events, never of the clock of
// OpenTelemetry; attributes are built only for a span that records, but for the few that a sampler decides by.

import {
  isSpanContextValid,
  SpanKind,
  trace,
  type Context,
  type HrTime,
  type Link,
  type Span,
  type SpanContext,
  type SpanOptions,
  type Tracer,
} from "@opentelemetry/api";

import { mintTraceIds, type MintHex } from "../../kernel/trace-ids.ts";
import type { TraceIds } from "../../protocol/event.ts";
import type { SpanMoment, SpanOpening } from "../../protocol/span-tree.ts";
import {
  boundedAttributes,
  boundedName,
  noteShortened,
  setAttribute,
  setAttributes,
} from "../bounded/bounded-attributes.ts";
import { chooseIds, spanIdFrom, type ChosenIds } from "./derived-ids.ts";
import { ESPALIER } from "../gen-ai-attributes.ts";
import {
  type HeldEnds,
  contextWithin,
  type Onward,
  type OpenSpan,
  type RunFacts,
  continuedFrom,
  continueIn,
} from "./open-span.ts";
import {
  showOutcome,
  setOpening,
  setPlace,
  setUsage,
  startOf,
  type SpanStart,
} from "./span-attributes.ts";
import type { SideSpan } from "./span-events.ts";

/** What is known of a span before there is one. */
export interface SpanPlan extends Pick<OpenSpan, "below" | "run" | "trace" | "onward"> {
  /** Of the agent around it. */
  readonly role: string;
  readonly ids: ChosenIds;
  readonly links?: readonly Link[];
  /** Those of the span around it. */
  readonly above?: TraceIds | undefined;
}

export class SpanMaker {
  readonly #tracer: Tracer;
  readonly #mintHex: MintHex;
  readonly #ends: HeldEnds;

  /** `mintHex` gives ids to spans that have none. */
  constructor(tracer: Tracer, mintHex: MintHex, ends: HeldEnds) {
    this.#tracer = tracer;
    this.#mintHex = mintHex;
    this.#ends = ends;
  }

  /** Begins a span. */
  begin(body: SpanOpening, moment: SpanMoment, plan: SpanPlan): OpenSpan {
    const { below, run } = plan;
    const start = startOf(body, moment.scope);
    const name = boundedName(start.name);
    const span = run.unseen ?? this.#begin({ ...start, name }, body, moment, plan);
    return {
      span,
      opening: body,
      moment,
      startedAtUs: moment.atUs,
      ids: this.#idsOf(span, plan),
      below,
      name,
      shownName: name,
      role: roleOf(body, plan),
      isToolCall: body.type === "tool.started" || body.type === "tool.resumed",
      run,
      trace: plan.trace,
      onward: plan.onward,
      calls: 0,
      expected: 0,
      spawns: 0,
      awaited: 0,
    };
  }

  #begin(start: SpanStart, body: SpanOpening, moment: SpanMoment, plan: SpanPlan): Span {
    const { bounded: attributes, shortened } = boundedAttributes(start.attributes);
    const kind = body.type === "model.requested" ? SpanKind.CLIENT : SpanKind.INTERNAL;
    const options: SpanOptions = { kind, startTime: hrTimeOf(moment.atUs), attributes };
    if (plan.links !== undefined) options.links = [...plan.links];
    const span = this.#start(plan.ids, start.name, options, contextWithin(plan.run, plan.below));
    if (!span.isRecording()) return span;
    plan.trace.spans += 1;
    noteShortened(span, shortened);
    setPlace(span, moment, plan.run.conversationId);
    setOpening(span, body, roleOf(body, plan));
    return span;
  }

  #start(ids: ChosenIds, name: string, options: SpanOptions, around: Context): Span {
    chooseIds(ids);
    try {
      return this.#tracer.startSpan(name, options, around);
    } finally {
      chooseIds(undefined);
    }
  }

  // Without an SDK a span is its parent's, or has no ids at all: then it gets a span id of its own.
  #idsOf(span: Span, plan: SpanPlan): TraceIds {
    const { above, run } = plan;
    if (span.isRecording()) return idsOf(span);
    if (run.unseen !== undefined) return mintTraceIds(this.#mintHex, above);
    const caller = callerOf(plan);
    if (isSpanContextValid(span.spanContext()) && span.spanContext().spanId !== caller?.spanId)
      return idsOf(span);
    return mintTraceIds(this.#mintHex, above ?? caller);
  }

  /** The span around all that stands in a further trace of a run. `sinceUs`: when the first of it began. */
  part(run: OpenSpan, ids: ChosenIds, sinceUs: number): Onward {
    const part = run.run.parts.length + 2;
    const name = `${run.name}, part ${part}`;
    const made = this.#onward({ ...run, name }, ids, sinceUs, rootOf(run.run));
    made.span.setAttribute(ESPALIER.tracePart, part);
    setAttribute(made.span, ESPALIER.continuesFromTraceId, run.ids.traceId);
    return made;
  }

  /** The span in which an agent continues in a further trace, and the links between the two. */
  onward(agent: OpenSpan, part: Onward, sinceUs: number): Onward {
    const { span, trace: size } = part;
    const { traceId } = span.spanContext();
    const ids = { spanId: onwardIdIn(traceId, agent.moment), traceId };
    const before = agent.onward.at(-1)?.span ?? agent.span;
    const back = continuedFrom(before.spanContext());
    const made = this.#onward(agent, ids, sinceUs, contextWithin(agent.run, part));
    made.span.setAttributes(back.attributes).addLink(back.link);
    continueIn(before, made.span.spanContext());
    size.spans += 1;
    return { ...made, trace: size };
  }

  #onward(open: OpenSpan, ids: ChosenIds, sinceUs: number, around: Context): Onward {
    const { name, moment, opening, run } = open;
    const { bounded: attributes } = boundedAttributes(startOf(opening, moment.scope).attributes);
    const options = { kind: SpanKind.INTERNAL, startTime: hrTimeOf(sinceUs), attributes };
    const span = this.#start(ids, boundedName(name), options, around);
    if (span.isRecording()) setPlace(span, moment, run.conversationId);
    return { span, name, startedAtUs: sinceUs, trace: { spans: 1, expected: 0 } };
  }

  /** A span that is over when it is recorded, below another one. */
  beside(open: OpenSpan, below: OpenSpan["below"], side: SideSpan, moment: SpanMoment): void {
    const around = contextWithin(open.run, below);
    if (this.#record(open, around, side, moment)) open.trace.spans += 1;
  }

  /** The same in a trace of its own, with a link to where it belongs: it lasted longer than the trace there. */
  apart(open: OpenSpan, side: SideSpan, moment: SpanMoment): void {
    this.#record(open, rootOf(open.run), side, moment);
  }

  #record(open: OpenSpan, around: Context, side: SideSpan, moment: SpanMoment): boolean {
    const { name, startUs, endUs, outcome, links = [] } = side;
    const ids = { moment, after: open.ids.traceId, kind: side.kind };
    const kind = side.lostUsage === undefined ? SpanKind.INTERNAL : SpanKind.CLIENT;
    const options = { kind, startTime: hrTimeOf(startUs), links: [...links] };
    const span = this.#start(ids, boundedName(name), options, around);
    if (!span.isRecording()) return false;
    setPlace(span, moment, open.run.conversationId);
    setAttributes(span, side.attributes);
    if (side.lostUsage !== undefined) setUsage(span, side.lostUsage);
    if (outcome !== undefined) showOutcome(span, name, outcome);
    this.#ends.end(moment, () => span.end(hrTimeOf(endUs)));
    return true;
  }
}

function roleOf(body: SpanOpening, { role }: SpanPlan): string {
  return "role" in body ? body.role : role;
}

/** The id of the span around all in a further trace of a run: it follows from the id of that trace. */
export function partIdIn(traceId: string): string {
  return spanIdFrom(`"part","${traceId}"`);
}

/** The id of the span in which an agent continues in a further trace. */
function onwardIdIn(traceId: string, { seq, scope }: SpanMoment): string {
  return spanIdFrom(`"onward","${traceId}",${JSON.stringify(scope.runId)},${seq}`);
}

/** Not a plain number: the SDK takes a small one, as a test's clock gives, for time since the process began. */
export function hrTimeOf(atUs: number): HrTime {
  const seconds = Math.floor(atUs / 1_000_000);
  return [seconds, (atUs - seconds * 1_000_000) * 1_000];
}

/** The context of a span of a run that is to have none above it. */
function rootOf({ around }: RunFacts): Context {
  return trace.deleteSpan(around);
}

function idsOf(span: Span): TraceIds {
  const { traceId, spanId } = span.spanContext();
  return { traceId, spanId };
}

/** What a span stands below. */
export function callerOf({ below, run }: Pick<OpenSpan, "below" | "run">): SpanContext | undefined {
  const caller = below?.span.spanContext() ?? trace.getSpanContext(run.around);
  return caller !== undefined && isSpanContextValid(caller) ? caller : undefined;
}

/** True if the span has the id that was chosen for it: its provider lets ids be chosen. */
export function hasId(span: Span, spanId: string): boolean {
  return span.spanContext().spanId === spanId;
}
