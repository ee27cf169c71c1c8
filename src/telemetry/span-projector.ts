// SpanProjector: the spans of a run, drawn from its events as they happen.
// Owns the open spans. Talks to one tracer. Knows neither which event belongs where (ScopeTree) nor
// what a span says of it (span-attributes.ts, span-events.ts).
// 1. A parent is passed, never taken from the active context; only the caller of a run is looked up
//    there.
// 2. A span begins and ends at the times of its events; the clock of OpenTelemetry is never asked.
// 3. Attributes are built only for a span that records, but for the two or three a sampler decides by.
// 4. Every event gets usable ids: those of its span, or ids of our own if no SDK gave any.
// 5. A span is an error only if what it shows failed: a spawn fails with its subagent, a parent
//    does not. A pause is no error.
// 6. A pause ends spans, and nothing of them is kept: what is resumed has new ones. A resumed run
//    is a new trace, unless it joins that of whoever resumes it.

import {
  context,
  isSpanContextValid,
  SpanKind,
  SpanStatusCode,
  trace,
  type Context,
  type HrTime,
  type Span,
  type Tracer,
} from "@opentelemetry/api";

import type { Correlation, EventBody, TraceIds } from "../protocol/event.ts";
import type { EventDraft, Tracing } from "../protocol/event-sink.ts";
import {
  ScopeTree,
  type Abandonment,
  type Closing,
  type Moment,
  type Note,
  type Opening,
} from "../protocol/span-scope.ts";
import { mintTraceIds, type MintHex } from "../kernel/trace-ids.ts";
import {
  ERROR_TYPE,
  ESPALIER,
  OPERATION,
  OUTCOME,
  spanName,
  UNKNOWN_TOOL,
} from "./gen-ai-attributes.ts";
import {
  closingAttributes,
  delegationAttributes,
  failureOf,
  openingAttributes,
  openingName,
  placeAttributes,
  resumedChildAttributes,
  samplingAttributes,
  spawnedRole,
} from "./span-attributes.ts";
import { spanEventOf, subtaskEventOf } from "./span-events.ts";

interface OpenSpan {
  readonly span: Span;
  readonly ids: TraceIds;
  /** The context of the run's caller, with this span in it. */
  readonly context: Context;
  readonly name: string;
  /** Of the agent that does it. */
  readonly role: string;
  readonly isToolCall: boolean;
}

export class SpanProjector implements Tracing {
  readonly #tracer: Tracer;
  readonly #mintHex: MintHex;
  readonly #scopes = new ScopeTree<OpenSpan>({
    open: (body, moment, parent) => this.#open(body, moment, parent),
    note: (open, body, moment) => note(open, body, moment),
    close: (open, body, moment) => close(open, body, moment),
    abandon: (open, moment, why) => abandon(open, moment, why),
  });

  /** `mintHex` gives ids to runs that no SDK records. */
  constructor(tracer: Tracer, mintHex: MintHex) {
    this.#tracer = tracer;
    this.#mintHex = mintHex;
  }

  place(draft: EventDraft): TraceIds {
    return this.#scopes.place(draft)?.ids ?? mintTraceIds(this.#mintHex, undefined);
  }

  within<T>(scope: Correlation, work: () => T): T {
    const open = this.#scopes.find(scope);
    return open === undefined ? work() : context.with(open.context, work);
  }

  /** How many spans are open: none, when all runs have ended or are paused. */
  get openSpans(): number {
    return this.#scopes.size;
  }

  #open(body: Opening, moment: Moment, parent: OpenSpan | undefined): OpenSpan {
    const around = parent?.context ?? context.active();
    const name = openingName(body);
    const options = {
      kind: body.type === "model.requested" ? SpanKind.CLIENT : SpanKind.INTERNAL,
      startTime: hrTimeOf(moment.atMs),
      attributes: samplingAttributes(body),
    };
    const span = this.#tracer.startSpan(name, options, around);
    const role = "role" in body ? body.role : (parent?.role ?? "");
    if (span.isRecording()) {
      span.setAttributes(placeAttributes(moment));
      span.setAttributes(openingAttributes(body, role));
    }
    if (body.type === "agent.resumed" && parent?.isToolCall === true) {
      describeResumed(parent, body, moment);
    }
    const ids = this.#idsOf(span, around, parent);
    const isToolCall = body.type === "tool.started" || body.type === "tool.resumed";
    return { span, ids, context: trace.setSpan(around, span), name, role, isToolCall };
  }

  // Without an SDK a span is its parent's, or has no ids at all: then this scope gets a span id of
  // its own.
  #idsOf(span: Span, around: Context, parent: OpenSpan | undefined): TraceIds {
    const own = span.spanContext();
    const caller = trace.getSpanContext(around);
    if (isSpanContextValid(own) && own.spanId !== caller?.spanId) {
      return { traceId: own.traceId, spanId: own.spanId };
    }
    const inherited = caller !== undefined && isSpanContextValid(caller) ? caller : undefined;
    return mintTraceIds(this.#mintHex, parent?.ids ?? inherited);
  }
}

function note(open: OpenSpan, body: Note, moment: Moment): void {
  const { span, isToolCall } = open;
  if (!span.isRecording()) return;
  if (isToolCall) describeDelegation(open, body);
  const event = spanEventOf(body, moment) ?? (isToolCall ? undefined : subtaskEventOf(body));
  if (event !== undefined) span.addEvent(event.name, event.attributes, hrTimeOf(moment.atMs));
}

/** What becomes of a delegation is said by the call. A subtask has no call, only its own span. */
function describeDelegation({ span, name }: OpenSpan, body: Note): void {
  span.setAttributes(delegationAttributes(body));
  const role = spawnedRole(body);
  if (role !== undefined) span.updateName(`${name} ${role}`);
}

/** Whom a resumed delegation is about is known when its subagent goes on. */
function describeResumed(
  { span, name }: OpenSpan,
  body: EventBody<"agent.resumed">,
  moment: Moment,
): void {
  if (!span.isRecording()) return;
  span.setAttributes(resumedChildAttributes(body, moment));
  span.updateName(`${name} ${body.role}`);
}

function close({ span }: OpenSpan, body: Closing, moment: Moment): void {
  if (span.isRecording()) {
    span.setAttributes(closingAttributes(body));
    const failure = failureOf(body);
    if (failure !== undefined) {
      span.setStatus({ code: SpanStatusCode.ERROR });
      span.setAttribute(ERROR_TYPE, failure);
    }
    if (body.type === "tool.ended" && body.errorCode === UNKNOWN_TOOL) {
      span.updateName(spanName(OPERATION.tool, UNKNOWN_TOOL));
    }
  }
  span.end(hrTimeOf(moment.atMs));
}

function abandon({ span }: OpenSpan, moment: Moment, why: Abandonment): void {
  if (span.isRecording()) span.setAttribute(ESPALIER.outcome, OUTCOME[why]);
  span.end(hrTimeOf(moment.atMs));
}

// Not a plain number: the SDK takes a small one, as a test's clock gives, for time since the
// process began.
function hrTimeOf(atMs: number): HrTime {
  const seconds = Math.floor(atMs / 1_000);
  return [seconds, Math.floor((atMs - seconds * 1_000) * 1_000_000)];
}
