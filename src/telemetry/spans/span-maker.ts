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
  TraceFlags,
  type Attributes,
  context,
  createContextKey,
  propagation,
} from "@opentelemetry/api";

import { mintTraceIds, type MintHex, parseTraceparent } from "../../kernel/trace-ids.ts";
import type { TraceIds, EventScope } from "../../protocol/event.ts";
import type { SpanMoment, SpanOpening } from "../../protocol/span-tree.ts";
import {
  shortenAttributes,
  shortenSpanName,
  recordShortenedNames,
  setAttribute,
  setAttributes,
} from "../bounded/bounded-attributes.ts";
import { chooseIds, deriveSpanId, type ChosenIds } from "./derived-ids.ts";
import { ESPALIER, LINK } from "../gen-ai-attributes.ts";
import {
  markOutcome,
  setOpening,
  setPlace,
  setUsage,
  describeStart,
  type SpanStart,
} from "./span-attributes.ts";
import type { Usage } from "../../protocol/usage.ts";
import type { AgentId, RunId } from "../../protocol/ids.ts";
import { OWN_BAGGAGE } from "../../protocol/tracing.ts";

// What the projection knows of a span that is open, and of the run and the trace that it belongs to.

/** What the spans of one run have in common. */
export interface RunFacts {
  /** The context in which it was started: what all its spans stand in. */
  readonly around: Context;
  /** The session on which it runs: `gen_ai.conversation.id`. */
  readonly conversationId: string | undefined;
  /** Subagents in the background, with their spans once they have some: an agent that waited for one is linked to it. Undefined: none. */
  background: Map<AgentId, SpanContext | undefined> | undefined;
  /** The further traces of a run that is too large for one, each with the span around all in it. */
  readonly parts: Onward[];
  /** Its sampler takes no further trace: all stays in the first. */
  isWhole: boolean;
  /** What stands for all its spans, since no SDK made one when it began. An SDK that comes later has the next run. */
  unseen: Span | undefined;
  /** Its span; undefined before that begins. */
  root: OpenSpan | undefined;
  /** How often it was recovered in that span. */
  recoveries: number;
}

/** Of a run that begins, or is shown again. */
export function createRunFacts(around: Context, conversationId: string | undefined): RunFacts {
  return {
    around,
    conversationId,
    background: undefined,
    parts: [],
    isWhole: false,
    unseen: undefined,
    root: undefined,
    recoveries: 0,
  };
}

/** One trace of a run. */
export interface TraceSize {
  /** How many spans it has, so far. */
  spans: number;
  /** How many more the agents are expected to make that continued in it or began in it. Only in further traces of a run. */
  expected: number;
}

/** A span below which others stand. */
export interface SpanAbove {
  readonly span: Span;
  /** Left out: it is not known when it began. */
  readonly startedAtUs?: number;
}

/** A span in which a run, or an agent at work, continues in another trace, because its own is full. It ends with them. */
export interface Onward {
  readonly span: Span;
  readonly name: string;
  readonly startedAtUs: number;
  readonly trace: TraceSize;
}

export interface OpenSpan {
  readonly span: Span;
  /** The event with which it began, and when that was. */
  readonly opening: SpanOpening;
  readonly moment: SpanMoment;
  readonly startedAtUs: number;
  readonly ids: TraceIds;
  /** What it stands below; undefined: the span of the caller of the run, if there is one. */
  readonly below: SpanAbove | undefined;
  /** What it was called when it began, and what it is called now. */
  readonly name: string;
  shownName: string;
  /** Of the agent that does it. */
  readonly role: string;
  readonly isToolCall: boolean;
  readonly run: RunFacts;
  readonly trace: TraceSize;
  /** Where it continues: calls of an agent stand below the last of them. */
  readonly onward: Onward[];
  /** Calls that it made, and how many more spans are expected of it where it is. */
  calls: number;
  expected: number;
  /** Of a call: how many subagents it has started, or was refused. */
  spawns: number;
  /** How many subagents in the background have reported to it. */
  awaited: number;
  /** When what it shows was over; undefined until then. */
  closedAtUs?: number;
}

/** The context within a span of a run. Made when it is asked for: a context is a table of its own, and most spans that are open need none. */
export function nestContext({ around }: RunFacts, above: SpanAbove | undefined): Context {
  return above === undefined ? around : trace.setSpan(around, above.span);
}

/** A span that is known by its ids alone. */
export function wrapKnownSpan(ids: SpanContext): SpanAbove {
  return { span: trace.wrapSpanContext(ids) };
}

// Links from a span to one that it does not stand below: the run that it continues from, the subagent that it waited for, the agent that wrote to it.
// Attributes of links are lost in Jaeger, so what a link means stands on the span, too. Pure.

/** The earlier run, or the earlier part of this run, from which a run continues. None, if a sampler had left that out. */
export function findOriginLinks(body: SpanOpening): readonly Link[] {
  const isResumed = body.type === "run.resumed";
  const origin = isResumed
    ? { traceId: body.previousTraceId, spanId: body.previousSpanId, isSampled: body.wasSampled }
    : body.type === "run.started"
      ? body.forkedFrom
      : undefined;
  if (origin?.spanId === undefined || origin.isSampled !== true) return [];
  const { traceId, spanId } = origin;
  return [toLink(isResumed ? LINK.resumes : LINK.forkedFrom, toRemoteSpan({ traceId, spanId }))];
}

/** How a span names another one. */
export interface Reference {
  readonly link: Link;
  readonly attributes: Attributes;
}

/** The first span of a further trace names the one that it continues from. */
export function createContinuesReference(before: SpanContext): Reference {
  return {
    link: toLink(LINK.continuesFrom, before),
    attributes: { [ESPALIER.continuesFromTraceId]: before.traceId },
  };
}

/** A span names the one in which it, or what it called, continues. */
export function addContinuationLink(span: Span, next: SpanContext): void {
  span
    .addLink(toLink(LINK.continuesIn, next))
    .setAttribute(ESPALIER.continuesInTraceId, next.traceId);
}

/** `meaning`: one of `LINK`. */
export function toLink(meaning: string, context: SpanContext): Link {
  return { context, attributes: { [ESPALIER.linkType]: meaning } };
}

/** The span that the caller of a run named. */
export function parseCallerSpan(body: SpanOpening): SpanContext | undefined {
  if (!("traceparent" in body) || body.traceparent === undefined) return undefined;
  const named = parseTraceparent(body.traceparent);
  if (named === undefined) return undefined;
  return toRemoteSpan(named, named.isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE);
}

/** A span that this process knows by its ids alone. */
export function toRemoteSpan(
  ids: { readonly traceId: string; readonly spanId: string },
  traceFlags = TraceFlags.SAMPLED,
): SpanContext {
  const { traceId, spanId } = ids;
  return { traceId, spanId, traceFlags, isRemote: true };
}

// HeldEnds: ends of spans that wait until the events with which they came are kept. A span that has ended may leave the process; of one whose
// end is not kept the next process knows that it is open, and ends it itself. So none is emitted twice.
// Owns what waits, of runs that are kept. Spans of other runs end at once.

export class HeldEnds {
  /** By run: the number of the event with which each end came, and the end. */
  readonly #runs = new Map<RunId, { readonly seq: number; readonly end: () => void }[]>();

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

// When a run continues in another trace. A trace takes so many spans, since viewers slow down beyond; a run that stays below has one.
// An agent at work when a trace is full continues in another one, with its next model call; one that begins then begins there. A further trace is
// shared by as many agents as are expected to fit into it, so that many small ones make few traces, and large ones are not torn often.

/** How many spans are expected of an agent at least, as a share of a trace: 32 of 5,000. */
const SMALLEST_SHARE = 1 / 150;
const MOST_OF_A_BEGINNER = 32;

/** True if nothing further should begin in a trace. */
export function isFull({ spans }: TraceSize, maxSpans: number): boolean {
  return spans >= maxSpans;
}

/** How many spans an agent may make that continues, or begins: as many as it has made already, and some at least. */
export function computeMaxSpans(calls: number, maxSpans: number): number {
  const least = Math.min(MOST_OF_A_BEGINNER, Math.floor(maxSpans * SMALLEST_SHARE));
  return Math.max(1, least, calls);
}

/** True if a further trace takes an agent that may make so many spans. One that holds nothing takes any. */
export function hasRoom({ spans, expected }: TraceSize, more: number, maxSpans: number): boolean {
  return spans <= 1 || spans + expected + more <= maxSpans;
}

/** An agent continues in a further trace. */
export function expectMoreSpans(trace: TraceSize, agent: OpenSpan, more: number): void {
  agent.expected = more;
  trace.expected += more;
}

/** An agent makes a call. */
export function countCall(agent: OpenSpan, trace: TraceSize): void {
  agent.calls += 1;
  if (agent.expected === 0) return;
  agent.expected -= 1;
  trace.expected -= 1;
}

/** An agent makes no further call there. */
export function expectNoMore(agent: OpenSpan): void {
  const trace = agent.onward.at(-1)?.trace ?? agent.trace;
  trace.expected -= agent.expected;
  agent.expected = 0;
}

// What of a run travels in baggage, where that is switched on: its id and the path of the agent, and nothing else of ours.
// A context that carries it has a mark, by which it is distinguished from such entries that came in from another process.

const OWN_BAGGAGE_KEY = createContextKey(OWN_BAGGAGE);

/** The active context with the scope of user code in its baggage, besides what the caller of the run had in it. */
export function createBaggageContext({ runId, agentPath }: EventScope): Context {
  const active = context.active();
  const own = propagation.createBaggage({
    [ESPALIER.runId]: { value: runId },
    [ESPALIER.agentPath]: { value: agentPath },
  });
  const given = propagation.getBaggage(active) ?? propagation.createBaggage();
  const merged = own
    .getAllEntries()
    .reduce((baggage, [key, entry]) => baggage.setEntry(key, entry), given);
  return propagation.setBaggage(active, merged).setValue(OWN_BAGGAGE_KEY, own);
}

/** The same context without our mark: for a run that is started within another one, and that is to carry nothing. */
export function removeBaggageMark(around: Context): Context {
  return around.getValue(OWN_BAGGAGE_KEY) === undefined
    ? around
    : around.deleteValue(OWN_BAGGAGE_KEY);
}

/** What is known of a span before there is one. */
export interface SpanPlan extends Pick<OpenSpan, "below" | "run" | "trace" | "onward"> {
  /** Of the agent around it. */
  readonly role: string;
  readonly ids: ChosenIds;
  readonly links?: readonly Link[];
  /** Those of the span around it. */
  readonly above?: TraceIds | undefined;
}

/** A span that is over when it is recorded. */
export interface SideSpan {
  /** Distinguishes it from the other spans of its event. */
  readonly kind: string;
  readonly name: string;
  readonly startUs: number;
  readonly endUs: number;
  readonly attributes: Attributes;
  /** How it ended, if that is worth a word in its row. */
  readonly outcome?: string;
  readonly links?: readonly Link[];
  /** Only for a model call of which nothing else is known: what it is estimated to have used. */
  readonly lostUsage?: Usage;
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
    const start = describeStart(body, moment.scope);
    const name = shortenSpanName(start.name);
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
      role: findRole(body, plan),
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
    const { bounded: attributes, shortened } = shortenAttributes(start.attributes);
    const kind = body.type === "model.requested" ? SpanKind.CLIENT : SpanKind.INTERNAL;
    const options: SpanOptions = { kind, startTime: toHrTime(moment.atUs), attributes };
    if (plan.links !== undefined) options.links = [...plan.links];
    const span = this.#start(plan.ids, start.name, options, nestContext(plan.run, plan.below));
    if (!span.isRecording()) return span;
    plan.trace.spans += 1;
    recordShortenedNames(span, shortened);
    setPlace(span, moment, plan.run.conversationId);
    setOpening(span, body, findRole(body, plan));
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
    if (span.isRecording()) return readIds(span);
    if (run.unseen !== undefined) return mintTraceIds(this.#mintHex, above);
    const caller = findCaller(plan);
    if (isSpanContextValid(span.spanContext()) && span.spanContext().spanId !== caller?.spanId)
      return readIds(span);
    return mintTraceIds(this.#mintHex, above ?? caller);
  }

  /** The span around all that stands in a further trace of a run. `sinceUs`: when the first of it began. */
  part(run: OpenSpan, ids: ChosenIds, sinceUs: number): Onward {
    const part = run.run.parts.length + 2;
    const name = `${run.name}, part ${part}`;
    const made = this.#onward({ ...run, name }, ids, sinceUs, leaveSpan(run.run));
    made.span.setAttribute(ESPALIER.tracePart, part);
    setAttribute(made.span, ESPALIER.continuesFromTraceId, run.ids.traceId);
    return made;
  }

  /** The span in which an agent continues in a further trace, and the links between the two. */
  onward(agent: OpenSpan, part: Onward, sinceUs: number): Onward {
    const { span, trace: size } = part;
    const { traceId } = span.spanContext();
    const ids = { spanId: deriveOnwardId(traceId, agent.moment), traceId };
    const before = agent.onward.at(-1)?.span ?? agent.span;
    const back = createContinuesReference(before.spanContext());
    const made = this.#onward(agent, ids, sinceUs, nestContext(agent.run, part));
    made.span.setAttributes(back.attributes).addLink(back.link);
    addContinuationLink(before, made.span.spanContext());
    size.spans += 1;
    return { ...made, trace: size };
  }

  #onward(open: OpenSpan, ids: ChosenIds, sinceUs: number, around: Context): Onward {
    const { name, moment, opening, run } = open;
    const { bounded: attributes } = shortenAttributes(
      describeStart(opening, moment.scope).attributes,
    );
    const options = { kind: SpanKind.INTERNAL, startTime: toHrTime(sinceUs), attributes };
    const span = this.#start(ids, shortenSpanName(name), options, around);
    if (span.isRecording()) setPlace(span, moment, run.conversationId);
    return { span, name, startedAtUs: sinceUs, trace: { spans: 1, expected: 0 } };
  }

  /** A span that is over when it is recorded, below another one. */
  beside(open: OpenSpan, below: OpenSpan["below"], side: SideSpan, moment: SpanMoment): void {
    const around = nestContext(open.run, below);
    if (this.#record(open, around, side, moment)) open.trace.spans += 1;
  }

  /** The same in a trace of its own, with a link to where it belongs: it lasted longer than the trace there. */
  apart(open: OpenSpan, side: SideSpan, moment: SpanMoment): void {
    this.#record(open, leaveSpan(open.run), side, moment);
  }

  #record(open: OpenSpan, around: Context, side: SideSpan, moment: SpanMoment): boolean {
    const { name, startUs, endUs, outcome, links = [] } = side;
    const ids = { moment, after: open.ids.traceId, kind: side.kind };
    const kind = side.lostUsage === undefined ? SpanKind.INTERNAL : SpanKind.CLIENT;
    const options = { kind, startTime: toHrTime(startUs), links: [...links] };
    const span = this.#start(ids, shortenSpanName(name), options, around);
    if (!span.isRecording()) return false;
    setPlace(span, moment, open.run.conversationId);
    setAttributes(span, side.attributes);
    if (side.lostUsage !== undefined) setUsage(span, side.lostUsage);
    if (outcome !== undefined) markOutcome(span, name, outcome);
    this.#ends.end(moment, () => span.end(toHrTime(endUs)));
    return true;
  }
}

function findRole(body: SpanOpening, { role }: SpanPlan): string {
  return "role" in body ? body.role : role;
}

/** The id of the span around all in a further trace of a run: it follows from the id of that trace. */
export function derivePartId(traceId: string): string {
  return deriveSpanId(`"part","${traceId}"`);
}

/** The id of the span in which an agent continues in a further trace. */
function deriveOnwardId(traceId: string, { seq, scope }: SpanMoment): string {
  return deriveSpanId(`"onward","${traceId}",${JSON.stringify(scope.runId)},${seq}`);
}

/** Not a plain number: the SDK takes a small one, as a test's clock gives, for time since the process began. */
export function toHrTime(atUs: number): HrTime {
  const seconds = Math.floor(atUs / 1_000_000);
  return [seconds, (atUs - seconds * 1_000_000) * 1_000];
}

/** The context of a span of a run that is to have none above it. */
function leaveSpan({ around }: RunFacts): Context {
  return trace.deleteSpan(around);
}

function readIds(span: Span): TraceIds {
  const { traceId, spanId } = span.spanContext();
  return { traceId, spanId };
}

/** What a span stands below. */
export function findCaller({
  below,
  run,
}: Pick<OpenSpan, "below" | "run">): SpanContext | undefined {
  const caller = below?.span.spanContext() ?? trace.getSpanContext(run.around);
  return caller !== undefined && isSpanContextValid(caller) ? caller : undefined;
}

/** True if the span has the id that was chosen for it: its provider lets ids be chosen. */
export function hasId(span: Span, spanId: string): boolean {
  return span.spanContext().spanId === spanId;
}
