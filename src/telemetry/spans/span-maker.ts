// SpanMaker: starts spans, with ids derived from the event log if the provider allows it. Calls one
// tracer. Parents are passed explicitly, never taken from the active context. Times are those of
// events, never from the clock of OpenTelemetry. Attributes are built only for recording spans,
// except the few that samplers need.

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
} from "./bounded-attributes.ts";
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

// State of an open span, its run and its trace.

/** State that the spans of a run share. */
export class RunFacts {
  /** Context in which the run was started, and the parent context of all its spans. */
  readonly around: Context;
  /** Session of the run: `gen_ai.conversation.id`. */
  readonly conversationId: string | undefined;
  /**
   * Background subagents, with their spans once these exist. An agent that receives a report is
   * linked to the span.
   */
  readonly background = new Map<AgentId, SpanContext | undefined>();
  /** Further traces of a run that exceeds one trace, each with its root span. */
  readonly parts: Onward[] = [];
  /** True if the sampler drops further traces, so that all spans stay in the first one. */
  isWhole = false;
  /**
   * Replaces all spans if no SDK was registered at the start. An SDK that is registered later
   * applies to the next run.
   */
  unseen: Span | undefined;
  /** Span of the run. `undefined` before it starts. */
  root: OpenSpan | undefined;
  /** Number of recoveries in that span. */
  recoveries = 0;

  /** Creates the state of a run that starts or is replayed. */
  constructor(around: Context, conversationId: string | undefined) {
    this.around = around;
    this.conversationId = conversationId;
  }
}

/** Size of a trace of a run. */
export interface TraceSize {
  /** Number of its spans so far. */
  spans: number;
  /**
   * Number of further spans that its agents are expected to make. Only in further traces of a run.
   */
  expected: number;
}

/** A parent span. */
export interface SpanAbove {
  readonly span: Span;
  /** Absent if its start is unknown. */
  readonly startedAtUs?: number;
}

/**
 * A span that continues a run or an active agent in another trace, because its own trace is full.
 * It ends together with the original.
 */
export interface Onward {
  readonly span: Span;
  readonly name: string;
  readonly startedAtUs: number;
  readonly trace: TraceSize;
}

export interface OpenSpan {
  readonly span: Span;
  /** First event of the span and its time. */
  readonly opening: SpanOpening;
  readonly moment: SpanMoment;
  readonly startedAtUs: number;
  readonly ids: TraceIds;
  /** Parent. `undefined` for the caller of the run, if there is one. */
  readonly below: SpanAbove | undefined;
  /** Name at the start, and current name. */
  readonly name: string;
  shownName: string;
  /** Role of its agent. */
  readonly role: string;
  readonly isToolCall: boolean;
  readonly run: RunFacts;
  readonly trace: TraceSize;
  /** Continuations in other traces. New calls of an agent are children of the last one. */
  readonly onward: Onward[];
  /** Number of calls so far, and of further spans expected in the current trace. */
  calls: number;
  expected: number;
  /** Number of subagents that a call has started, or that were refused. */
  spawns: number;
  /** Number of background subagents that have reported to it. */
  awaited: number;
  /** End of the work that it shows. `undefined` until then. */
  closedAtUs?: number;
}

/**
 * Returns the context within a span of a run. Created on demand, because a context is a separate
 * table, and most open spans need none.
 */
export function nestContext({ around }: RunFacts, above: SpanAbove | undefined): Context {
  return above === undefined ? around : trace.setSpan(around, above.span);
}

/** Returns a parent span for known ids. */
export function wrapKnownSpan(ids: SpanContext): SpanAbove {
  return { span: trace.wrapSpanContext(ids) };
}

// Links between spans without a parent-child relation: to the previous trace of a run, to a
// background subagent, to the sender of a message. Jaeger drops attributes of links, so the span
// also has the meaning as an attribute. Pure.

/**
 * Returns the links to the run, or the earlier segment, from which a run continues. Empty if that
 * was not sampled.
 */
export function findOriginLinks(body: SpanOpening): readonly Link[] {
  const isResumed = body.type === "run.resumed";
  const forkedFrom = body.type === "run.started" ? body.forkedFrom : undefined;
  const origin = isResumed
    ? { traceId: body.previousTraceId, spanId: body.previousSpanId, isSampled: body.wasSampled }
    : forkedFrom;
  if (origin?.spanId === undefined || origin.isSampled !== true) return [];
  const { traceId, spanId } = origin;
  return [toLink(isResumed ? LINK.resumes : LINK.forkedFrom, toRemoteSpan({ traceId, spanId }))];
}

/** A link with the attributes that explain it. */
export interface Reference {
  readonly link: Link;
  readonly attributes: Attributes;
}

/** Returns the link from the first span of a further trace to its predecessor. */
export function createContinuesReference(before: SpanContext): Reference {
  return {
    link: toLink(LINK.continuesFrom, before),
    attributes: { [ESPALIER.continuesFromTraceId]: before.traceId },
  };
}

/** Links a span to its continuation in another trace. */
export function addContinuationLink(span: Span, next: SpanContext): void {
  span
    .addLink(toLink(LINK.continuesIn, next))
    .setAttribute(ESPALIER.continuesInTraceId, next.traceId);
}

/** Returns a link. `meaning` is a value of `LINK`. */
export function toLink(meaning: string, context: SpanContext): Link {
  return { context, attributes: { [ESPALIER.linkType]: meaning } };
}

/** Returns the span that the caller of a run passed as `traceparent`. */
export function parseCallerSpan(body: SpanOpening): SpanContext | undefined {
  if (!("traceparent" in body) || body.traceparent === undefined) return undefined;
  const named = parseTraceparent(body.traceparent);
  if (named === undefined) return undefined;
  return toRemoteSpan(named, named.isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE);
}

/** Returns the context of a span that is known only by its ids. */
export function toRemoteSpan(
  ids: { readonly traceId: string; readonly spanId: string },
  traceFlags = TraceFlags.SAMPLED,
): SpanContext {
  const { traceId, spanId } = ids;
  return { traceId, spanId, traceFlags, isRemote: true };
}

// DeferredSpanEnds: delays the end of a span until its event is persisted. An ended span may be
// exported at once. If its end event is lost, the next process regards the span as open and ends it
// itself, so none is exported twice. Owns the deferred ends of persisted runs. Spans of other runs
// end at once.

export class DeferredSpanEnds {
  /** Deferred ends by run, each with the number of its event. */
  readonly #runs = new Map<RunId, { readonly seq: number; readonly end: () => void }[]>();

  /** Calls `end` now, or once the event is persisted. */
  end({ seq, scope }: Pick<SpanMoment, "seq" | "scope">, end: () => void): void {
    const deferred = this.#runs.get(scope.runId);
    if (deferred === undefined) end();
    else deferred.push({ seq, end });
  }

  /**
   * Runs the ends of events up to `seq`, which are persisted. From the first call, ends of the run
   * are deferred. Returns the number of remaining ends.
   */
  endPersisted(runId: RunId, seq: number): number {
    const deferred = this.#runs.get(runId) ?? [];
    const later = deferred.findIndex((entry) => entry.seq > seq);
    const due = deferred.splice(0, later === -1 ? deferred.length : later);
    this.#runs.set(runId, deferred);
    for (const { end } of due) end();
    return deferred.length;
  }

  /** Stops deferring for a run. Runs the remaining ends if `hasEnded`, else drops them. */
  forget(runId: RunId, { hasEnded }: { readonly hasEnded: boolean }): void {
    const deferred = this.#runs.get(runId) ?? [];
    this.#runs.delete(runId);
    if (hasEnded) for (const { end } of deferred) end();
  }
}

// Distribution of a run over several traces. Viewers slow down with large traces, so a trace has a
// maximum size; a run below it has one trace. When a trace is full, an active agent continues in
// another one with its next model call, and new agents start there. A further trace is shared by as
// many agents as are expected to fit: small agents make few traces, and large agents are rarely
// split.

/** Minimum of expected spans per agent, as a share of a trace: 32 of 5,000. */
const SMALLEST_SHARE = 1 / 150;
const MAX_OF_NEW_AGENT = 32;

/** True if a trace accepts no further agents. */
export function isFull({ spans }: TraceSize, maxSpans: number): boolean {
  return spans >= maxSpans;
}

/**
 * Returns the expected number of further spans of an agent: as many as it has made already, with a
 * minimum.
 */
export function computeMaxSpans(calls: number, maxSpans: number): number {
  const least = Math.min(MAX_OF_NEW_AGENT, Math.floor(maxSpans * SMALLEST_SHARE));
  return Math.max(1, least, calls);
}

/** True if a further trace has room for `more` expected spans. An empty trace accepts any agent. */
export function hasRoom({ spans, expected }: TraceSize, more: number, maxSpans: number): boolean {
  return spans <= 1 || spans + expected + more <= maxSpans;
}

/** Records that an agent continues in a further trace. */
export function expectMoreSpans(trace: TraceSize, agent: OpenSpan, more: number): void {
  agent.expected = more;
  trace.expected += more;
}

/** Records a call of an agent. */
export function countCall(agent: OpenSpan, trace: TraceSize): void {
  agent.calls += 1;
  if (agent.expected === 0) return;
  agent.expected -= 1;
  trace.expected -= 1;
}

/** Records that an agent makes no further calls in its trace. */
export function expectNoMore(agent: OpenSpan): void {
  const trace = agent.onward.at(-1)?.trace ?? agent.trace;
  trace.expected -= agent.expected;
  agent.expected = 0;
}

// Baggage of a run, if enabled: its id and the path of the agent, nothing else. A context with our
// baggage is marked, to distinguish it from entries that arrived from another process.

const OWN_BAGGAGE_KEY = createContextKey(OWN_BAGGAGE);

/** Returns the active context with the scope in its baggage, beside the entries of the caller. */
export function createBaggageContext({ runId, agentPath }: EventScope): Context {
  const active = context.active();
  const ownBaggage = propagation.createBaggage({
    [ESPALIER.runId]: { value: runId },
    [ESPALIER.agentPath]: { value: agentPath },
  });
  const existing = propagation.getBaggage(active) ?? propagation.createBaggage();
  const merged = ownBaggage
    .getAllEntries()
    .reduce((baggage, [key, entry]) => baggage.setEntry(key, entry), existing);
  return propagation.setBaggage(active, merged).setValue(OWN_BAGGAGE_KEY, ownBaggage);
}

/**
 * Returns the context without our mark, for a run that starts within another run and has no
 * baggage.
 */
export function removeBaggageMark(around: Context): Context {
  return around.getValue(OWN_BAGGAGE_KEY) === undefined
    ? around
    : around.deleteValue(OWN_BAGGAGE_KEY);
}

/** Input for a new span. */
export interface SpanPlan extends Pick<OpenSpan, "below" | "run" | "trace" | "onward"> {
  /** Role of the surrounding agent. */
  readonly role: string;
  readonly ids: ChosenIds;
  readonly links?: readonly Link[];
  /** Ids of the surrounding span. */
  readonly above?: TraceIds | undefined;
}

/** A span that has ended when it is recorded. */
export interface SideSpan {
  /** Distinguishes several spans of the same event. */
  readonly kind: string;
  readonly name: string;
  readonly startUs: number;
  readonly endUs: number;
  readonly attributes: Attributes;
  /** Outcome, if its row shows it. */
  readonly outcome?: string;
  readonly links?: readonly Link[];
  /** Estimated usage of a model call without a known end. Absent for all other spans. */
  readonly lostUsage?: Usage;
}

export class SpanMaker {
  readonly #tracer: Tracer;
  readonly #mintHex: MintHex;
  readonly #ends: DeferredSpanEnds;

  /** `mintHex` creates ids for spans without ids. */
  constructor(tracer: Tracer, mintHex: MintHex, ends: DeferredSpanEnds) {
    this.#tracer = tracer;
    this.#mintHex = mintHex;
    this.#ends = ends;
  }

  /** Starts a span. */
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
      ids: this.#readSpanIds(span, plan),
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

  // Without an SDK, a span has the ids of its parent or none. Then it gets its own span id.
  #readSpanIds(span: Span, plan: SpanPlan): TraceIds {
    const { above, run } = plan;
    if (span.isRecording()) return readIds(span);
    if (run.unseen !== undefined) return mintTraceIds(this.#mintHex, above);
    const caller = findCaller(plan);
    if (isSpanContextValid(span.spanContext()) && span.spanContext().spanId !== caller?.spanId)
      return readIds(span);
    return mintTraceIds(this.#mintHex, above ?? caller);
  }

  /**
   * Starts the root span of a further trace of a run. `sinceUs` is the start of its first child.
   */
  startPart(run: OpenSpan, ids: ChosenIds, sinceUs: number): Onward {
    const part = run.run.parts.length + 2;
    const name = `${run.name}, part ${part}`;
    const started = this.#startOnward({ ...run, name }, ids, sinceUs, leaveSpan(run.run));
    started.span.setAttribute(ESPALIER.tracePart, part);
    setAttribute(started.span, ESPALIER.continuesFromTraceId, run.ids.traceId);
    return started;
  }

  /** Starts the span that continues an agent in a further trace, and links both. */
  continueAgent(agent: OpenSpan, part: Onward, sinceUs: number): Onward {
    const { span, trace: size } = part;
    const { traceId } = span.spanContext();
    const ids = { spanId: deriveOnwardId(traceId, agent.moment), traceId };
    const before = agent.onward.at(-1)?.span ?? agent.span;
    const back = createContinuesReference(before.spanContext());
    const started = this.#startOnward(agent, ids, sinceUs, nestContext(agent.run, part));
    started.span.setAttributes(back.attributes).addLink(back.link);
    addContinuationLink(before, started.span.spanContext());
    size.spans += 1;
    return { ...started, trace: size };
  }

  #startOnward(open: OpenSpan, ids: ChosenIds, sinceUs: number, around: Context): Onward {
    const { name, moment, opening, run } = open;
    const { bounded: attributes } = shortenAttributes(
      describeStart(opening, moment.scope).attributes,
    );
    const options = { kind: SpanKind.INTERNAL, startTime: toHrTime(sinceUs), attributes };
    const span = this.#start(ids, shortenSpanName(name), options, around);
    if (span.isRecording()) setPlace(span, moment, run.conversationId);
    return { span, name, startedAtUs: sinceUs, trace: { spans: 1, expected: 0 } };
  }

  /** Records an ended span below another one. */
  recordBeside(open: OpenSpan, below: OpenSpan["below"], side: SideSpan, moment: SpanMoment): void {
    const around = nestContext(open.run, below);
    if (this.#record(open, around, side, moment)) open.trace.spans += 1;
  }

  /**
   * Records an ended span in a separate trace, with a link to its origin. Used if it is longer than
   * the trace of its origin.
   */
  recordApart(open: OpenSpan, side: SideSpan, moment: SpanMoment): void {
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

/** Returns the id of the root span of a further trace. It is derived from the id of the trace. */
export function derivePartId(traceId: string): string {
  return deriveSpanId(`"part","${traceId}"`);
}

/** Returns the id of the span that continues an agent in a further trace. */
function deriveOnwardId(traceId: string, { seq, scope }: SpanMoment): string {
  return deriveSpanId(`"onward","${traceId}",${JSON.stringify(scope.runId)},${seq}`);
}

/**
 * Converts microseconds to the time format of OpenTelemetry. The SDK reads a small number, such as
 * a test clock returns, as time since the start of the process.
 */
export function toHrTime(atUs: number): HrTime {
  const seconds = Math.floor(atUs / 1_000_000);
  return [seconds, (atUs - seconds * 1_000_000) * 1_000];
}

/** Returns the context without a parent span. */
function leaveSpan({ around }: RunFacts): Context {
  return trace.deleteSpan(around);
}

function readIds(span: Span): TraceIds {
  const { traceId, spanId } = span.spanContext();
  return { traceId, spanId };
}

/** Returns the parent of a span. */
export function findCaller({
  below,
  run,
}: Pick<OpenSpan, "below" | "run">): SpanContext | undefined {
  const caller = below?.span.spanContext() ?? trace.getSpanContext(run.around);
  return caller !== undefined && isSpanContextValid(caller) ? caller : undefined;
}

/** True if the span has the chosen id, so that its provider allows chosen ids. */
export function hasId(span: Span, spanId: string): boolean {
  return span.spanContext().spanId === spanId;
}
