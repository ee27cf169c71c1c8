// What the projection knows of a span that is open, and of the run and the trace that it belongs to.

import {
  trace,
  type Context,
  type Span,
  type SpanContext,
  TraceFlags,
  type Attributes,
  type Link,
  context,
  createContextKey,
  propagation,
} from "@opentelemetry/api";

import type { TraceIds, EventScope } from "../../protocol/event.ts";
import type { AgentId, RunId } from "../../protocol/ids.ts";
import type { SpanMoment, SpanOpening } from "../../protocol/span-tree.ts";
import { parseTraceparent } from "../../kernel/trace-ids.ts";
import { ESPALIER, LINK } from "../gen-ai-attributes.ts";
import { OWN_BAGGAGE } from "../../protocol/tracing.ts";

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
export function newRun(around: Context, conversationId: string | undefined): RunFacts {
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
export function contextWithin({ around }: RunFacts, above: SpanAbove | undefined): Context {
  return above === undefined ? around : trace.setSpan(around, above.span);
}

/** A span that is known by its ids alone. */
export function knownSpan(ids: SpanContext): SpanAbove {
  return { span: trace.wrapSpanContext(ids) };
}

// Links from a span to one that it does not stand below: the run that it continues from, the subagent that it waited for, the agent that wrote to it.
// Attributes of links are lost in Jaeger, so what a link means stands on the span, too. Pure.

/** The earlier run, or the earlier part of this run, from which a run continues. None, if a sampler had left that out. */
export function originOf(body: SpanOpening): readonly Link[] {
  if (body.type === "run.resumed") {
    const { previousTraceId: traceId, previousSpanId: spanId, wasSampled } = body;
    return linksTo(LINK.resumes, traceId, spanId, wasSampled);
  }
  if (body.type !== "run.started" || body.forkedFrom === undefined) return [];
  const { traceId, spanId, isSampled } = body.forkedFrom;
  return linksTo(LINK.forkedFrom, traceId, spanId, isSampled);
}

function linksTo(
  meaning: string,
  traceId: string,
  spanId: string | undefined,
  isSampled: boolean | undefined,
): readonly Link[] {
  if (spanId === undefined || isSampled !== true) return [];
  return [linkTo(meaning, remoteSpan({ traceId, spanId }))];
}

/** How a span names another one. */
export interface Reference {
  readonly link: Link;
  readonly attributes: Attributes;
}

/** The first span of a further trace names the one that it continues from. */
export function continuedFrom(before: SpanContext): Reference {
  return {
    link: linkTo(LINK.continuesFrom, before),
    attributes: { [ESPALIER.continuesFromTraceId]: before.traceId },
  };
}

/** A span names the one in which it, or what it called, continues. */
export function continueIn(span: Span, next: SpanContext): void {
  span
    .addLink(linkTo(LINK.continuesIn, next))
    .setAttribute(ESPALIER.continuesInTraceId, next.traceId);
}

/** `meaning`: one of `LINK`. */
export function linkTo(meaning: string, context: SpanContext): Link {
  return { context, attributes: { [ESPALIER.linkType]: meaning } };
}

/** The span that the caller of a run named. */
export function namedCaller(body: SpanOpening): SpanContext | undefined {
  if (!("traceparent" in body) || body.traceparent === undefined) return undefined;
  const named = parseTraceparent(body.traceparent);
  if (named === undefined) return undefined;
  return remoteSpan(named, named.isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE);
}

/** A span that this process knows by its ids alone. */
export function remoteSpan(
  ids: { readonly traceId: string; readonly spanId: string },
  traceFlags = TraceFlags.SAMPLED,
): SpanContext {
  const { traceId, spanId } = ids;
  return { traceId, spanId, traceFlags, isRemote: true };
}

// HeldEnds: ends of spans that wait until the events with which they came are kept. A span that has ended may leave the process; of one whose
// end is not kept the next process knows that it is open, and ends it itself. So none is emitted twice.
// Owns what waits, of runs that are kept. Spans of other runs end at once.

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
export function expectedOf(calls: number, maxSpans: number): number {
  const least = Math.min(MOST_OF_A_BEGINNER, Math.floor(maxSpans * SMALLEST_SHARE));
  return Math.max(1, least, calls);
}

/** True if a further trace takes an agent that may make so many spans. One that holds nothing takes any. */
export function hasRoom({ spans, expected }: TraceSize, more: number, maxSpans: number): boolean {
  return spans <= 1 || spans + expected + more <= maxSpans;
}

/** An agent continues in a further trace. */
export function expectIn(trace: TraceSize, agent: OpenSpan, more: number): void {
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
export function contextWithBaggage({ runId, agentPath }: EventScope): Context {
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
export function unmarked(around: Context): Context {
  return around.getValue(OWN_BAGGAGE_KEY) === undefined
    ? around
    : around.deleteValue(OWN_BAGGAGE_KEY);
}
