// SpanProjector: creates the spans of a run from its events. Owns the open spans. SpanTree knows
// the span of each event, SpanMaker starts spans, and span-recording.ts records on them.
// 1. Parents are passed explicitly, never taken from the active context. The only exception is the
//    caller of a run that names none.
// 2. Every event gets usable ids: those of its span, or minted ones without an SDK.
// 3. A pause ends all spans; a resumed run has new spans. A resumed run is a new trace with a link
//    to the previous one, unless it joins the trace of the resuming code. A run whose process
//    crashed continues in its span, in any process.
// 4. A trace that exceeds its size accepts nothing further: a new agent, or an active one before a
//    model call, continues in another trace of the run, with links in both directions.
// 5. A span is ended once: by its process, once the event of its end is persisted, or after a crash
//    by the process that recovers its run.
// 6. A run is sampled as a whole: a further trace has the sampling decision of the first one.

import {
  context,
  isSpanContextValid,
  trace,
  TraceFlags,
  type Span,
  type SpanContext,
  type Tracer,
} from "@opentelemetry/api";

import {
  isSpanContinuation,
  type EventScope,
  type EventDraft,
  type TraceIds,
  type EventType,
} from "../../protocol/event.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { LostSpan, Tracing } from "../../protocol/tracing.ts";
import {
  SpanTree,
  type EventMoment,
  type SpanMoment,
  type SpanNote,
  type SpanOpening,
} from "../../protocol/span-tree.ts";
import { omitUndefined } from "../../kernel/json.ts";
import { mintTraceIds, type MintHex } from "../../kernel/trace-ids.ts";
import { warnOfUnseenProvider } from "./api-versions.ts";
import { writeContent, type ContentSettings } from "./span-content.ts";
import { buildSpanSeed, deriveNextTraceId } from "./derived-ids.ts";
import { LINK } from "../gen-ai-attributes.ts";
import {
  DeferredSpanEnds,
  nestContext,
  wrapKnownSpan,
  type Onward,
  type OpenSpan,
  RunFacts,
  type TraceSize,
  createContinuesReference,
  addContinuationLink,
  toLink,
  parseCallerSpan,
  findOriginLinks,
  toRemoteSpan,
  countCall,
  computeMaxSpans,
  expectMoreSpans,
  expectNoMore,
  hasRoom,
  isFull,
  createBaggageContext,
  removeBaggageMark,
  findCaller,
  derivePartId,
  SpanMaker,
  type SpanPlan,
} from "./span-maker.ts";
import {
  computeLostEnd,
  recordLostSpans,
  endSpan,
  recordSpanEnd,
  recordNote,
  recordResumedChild,
} from "./span-recording.ts";
import type { RunMetrics } from "../metrics/run-metrics.ts";
import { isLongWait, toSideSpan, findWaitAcrossPause, findWaitBefore } from "./span-events.ts";

/** Events within spans that only the event log contains. */
const SILENT: ReadonlySet<EventType> = new Set<SpanNote["type"]>([
  "step.started",
  "step.completed",
  "model.warned",
  "tools.filtered",
  "tool.guarded",
  "tool.progressed",
  "reply.filtered",
  "request.repaired",
  "result.summarized",
  "hook.applied",
  "section.cleared",
  "budget.queued",
  "budget.dequeued",
  "budget.released",
  "subagent.detached",
  "continuation.evaluated",
]);
/**
 * Events that are ignored without metrics. The journal handles the lost calls in `budget.settled`.
 */
const IGNORED: ReadonlySet<EventType> = new Set<EventType>([...SILENT, "budget.settled"]);

interface ProjectorOptions {
  /** Number of spans per trace. Unlimited if it is absent. */
  readonly maxSpansPerTrace?: number;
  /** Whether user code has its scope in the baggage. False if it is absent. */
  readonly hasBaggage?: boolean;
  /** Settings for content. Without them, content is neither requested nor shown. */
  readonly content?: ContentSettings | undefined;
  /** Metrics of the shown runs. */
  readonly metrics?: RunMetrics;
  /** Whether the globally registered providers are used. Neither if it is absent. */
  readonly globals?: { readonly hasTracer: boolean; readonly hasMeter: boolean };
}

export class SpanProjector implements Tracing {
  readonly #maker: SpanMaker;
  readonly #ends = new DeferredSpanEnds();
  readonly #mintHex: MintHex;
  readonly #maxSpansPerTrace: number;
  readonly #options: ProjectorOptions;
  readonly #spans: SpanTree<OpenSpan>;
  /** Present only if content is enabled. */
  readonly recordContent: Tracing["recordContent"];

  /** `mintHex` creates ids for runs without an SDK. */
  constructor(tracer: Tracer, mintHex: MintHex, options: ProjectorOptions = {}) {
    this.#maker = new SpanMaker(tracer, mintHex, this.#ends);
    this.#mintHex = mintHex;
    this.#maxSpansPerTrace = options.maxSpansPerTrace ?? Infinity;
    this.#options = options;
    const { content, metrics } = options;
    if (content !== undefined)
      this.recordContent = (scope, body) => {
        const open = this.#spans.find(scope);
        if (open !== undefined) writeContent(content, { ...open, scope }, body);
      };
    this.#spans = new SpanTree<OpenSpan>({
      open: (body, moment, parent) => {
        const open = this.#open(body, moment, parent);
        const { contents, scope } = moment;
        if (content !== undefined && contents !== undefined && open.span.isRecording())
          for (const part of contents()) writeContent(content, { ...open, scope }, part);
        metrics?.openSpan(open);
        return open;
      },
      note: (open, body, moment) => {
        metrics?.recordEvent(open, body, moment);
        const isSilent =
          SILENT.has(body.type) ||
          (body.type === "budget.reserved" && !isLongWait(body.waitedMs)) ||
          (body.type === "budget.settled" && body.lostCall === undefined);
        if (!isSilent && open.span.isRecording()) this.#recordNote(open, body, moment);
      },
      close: (open, body, moment) => {
        metrics?.closeSpan(open, body, moment);
        if ("queuedMs" in body) {
          // Further attempts of a model call wait within its span.
          const { opening } = open;
          const hasRetried =
            opening.type === "model.requested" && "attemptCount" in body && body.attemptCount > 1;
          const queuedMs = hasRetried ? (opening.queuedMs ?? 0) : body.queuedMs;
          const { below, startedAtUs: untilUs, span } = open;
          const bounds = { sinceUs: below?.startedAtUs ?? untilUs, untilUs };
          const wait = span.isRecording() ? findWaitBefore(opening, queuedMs, bounds) : undefined;
          if (wait !== undefined) this.#maker.recordBeside(open, below, wait, moment);
        }
        recordSpanEnd(open, body, moment);
      },
      abandon: (open, moment, why) => {
        metrics?.closeSpan(open, why, moment);
        recordSpanEnd(open, why, moment);
      },
      end: (open, moment) => {
        if (open.expected > 0) expectNoMore(open);
        this.#ends.end(moment, () => endSpan(open, moment));
      },
    });
  }

  get ignoredEvents(): ReadonlySet<EventType> | undefined {
    return (this.#options.metrics?.openRuns ?? 0) > 0 ? undefined : IGNORED;
  }

  traceEvent(draft: EventDraft): TraceIds {
    const open = this.#spans.place(draft);
    if (open === undefined) return mintTraceIds(this.#mintHex, undefined);
    const { type } = draft.body;
    if (type !== "run.started" && type !== "run.resumed") return open.ids;
    const parentSpanId = findCaller(open)?.spanId;
    const ownContext = open.span.spanContext();
    return {
      ...open.ids,
      ...omitUndefined({ parentSpanId }),
      ...(isSpanContextValid(ownContext) ? { isSampled: isSampled(ownContext) } : {}),
    };
  }

  runInSpan<T>(scope: EventScope, work: () => T): T {
    const open = this.#spans.find(scope);
    const { hasBaggage = false } = this.#options;
    const inner = hasBaggage ? () => context.with(createBaggageContext(scope), work) : work;
    return open === undefined ? inner() : context.with(nestContext(open.run, open), inner);
  }

  getIds(scope: EventScope): TraceIds | undefined {
    return this.#spans.find(scope)?.ids;
  }

  endLostSpans(lost: readonly LostSpan[], atUs: number): void {
    const [first] = lost;
    if (first === undefined) return;
    // This process no longer owns its own state of the run.
    this.#spans.leave(first, "released");
    const { run, ended } = recordLostSpans(this.#maker, lost, atUs);
    // Deferred until the first record of this process is persisted. Before that, another process
    // would record them again.
    const moment = { seq: 1, scope: first.scope };
    for (const open of ended) this.#ends.end(moment, () => endSpan(open, computeLostEnd(atUs)));
    if (run === undefined) return;
    this.#spans.takeUp(first.scope.runId, run, atUs);
    this.#options.metrics?.openSpan(run);
  }

  onPersisted(runId: RunId, seq: number): void {
    const waiting = this.#ends.endPersisted(runId, seq);
    const isOver = seq > 0 && waiting === 0 && !this.#spans.has(runId);
    if (isOver) this.#ends.forget(runId, { hasEnded: true });
  }

  release(moment: EventMoment, reason: "released" | "abandoned"): void {
    this.#spans.leave(moment, reason);
    this.#ends.forget(moment.scope.runId, { hasEnded: reason === "abandoned" });
  }

  /** Number of open spans. 0 when all runs have ended or are paused. */
  get openSpans(): number {
    return this.#spans.size;
  }

  #open(body: SpanOpening, moment: SpanMoment, parent: OpenSpan | undefined): OpenSpan {
    if (parent === undefined) {
      const open = this.#continueRun(body, moment) ?? this.#startRun(body, moment);
      const { span, run } = open;
      const ownContext = span.spanContext();
      run.root = open;
      const isOfCaller = ownContext.spanId === findCaller(open)?.spanId;
      // No SDK created it.
      if (!span.isRecording() && (!isSpanContextValid(ownContext) || isOfCaller)) run.unseen = span;
      return open;
    }
    if (body.type !== "agent.started" && body.type !== "agent.resumed") {
      if (body.type === "model.requested") this.#continueInNextTrace(parent, moment);
      const place = parent.onward.at(-1) ?? parent;
      countCall(parent, place.trace);
      return this.#maker.begin(body, moment, planInnerSpan(parent, place, moment));
    }
    const { trace: size } = parent;
    const max = this.#maxSpansPerTrace;
    // The first trace accepts agents until it is full, a further one as many as are expected to
    // fit.
    const hasPlace = isFurther(parent.run, size)
      ? hasRoom(size, computeMaxSpans(0, max), max)
      : !isFull(size, max);
    const open = hasPlace
      ? this.#openAgent(body, moment, parent)
      : this.#openElsewhere(body, moment, parent);
    if (body.type === "agent.resumed" && parent.isToolCall)
      recordResumedChild(parent, body, moment);
    const { agentId } = moment.scope;
    const { run } = open;
    // A subagent that continues after a pause without a waiting call: its parent received a
    // receipt.
    const isReceipted =
      body.type === "agent.resumed" && body.spawnCallId !== null && !parent.isToolCall;
    if (run.background.has(agentId) || isReceipted)
      run.background.set(agentId, open.span.spanContext());
    return open;
  }

  /**
   * Returns the span of a recovered run without lost spans to record again, because no SDK was
   * registered or a sampler dropped them. `undefined` if a new span is needed.
   */
  #continueRun(body: SpanOpening, moment: SpanMoment): OpenSpan | undefined {
    if (!isSpanContinuation(body)) return undefined;
    const { previousTraceId: traceId, previousSpanId: spanId = "", wasSampled } = body;
    const last = toRemoteSpan({ traceId, spanId }, TraceFlags.NONE);
    if (!isSpanContextValid(last)) return undefined;
    const apart = trace.deleteSpan(removeBaggageMark(context.active()));
    const below = wasSampled === false ? wrapKnownSpan(last) : undefined;
    const run = new RunFacts(apart, body.sessionId);
    const place = { below, role: "", run, trace: { spans: 0, expected: 0 }, onward: run.parts };
    const open = this.#maker.begin(body, moment, { ...place, ids: { traceId, spanId } });
    this.#lookForUnseen(open.span);
    return open.span.isRecording() ? open : { ...open, ids: { traceId, spanId } };
  }

  /**
   * Starts the span of a run below the span of its caller. Without a caller, starts a new trace if
   * it is sampled like the previous one, else continues below the previous one.
   */
  #startRun(body: SpanOpening, moment: SpanMoment): OpenSpan {
    const named = parseCallerSpan(body);
    const caller = named && wrapKnownSpan(named);
    const after = body.type === "run.resumed" ? body.previousTraceId : undefined;
    const sessionId = "sessionId" in body ? body.sessionId : undefined;
    const run = new RunFacts(removeBaggageMark(context.active()), sessionId);
    const place = { run, trace: { spans: 0, expected: 0 }, onward: run.parts };
    const plan = { ...place, below: caller, role: "", ids: { moment, after } };
    // Span of the run before its pause or crash, with its sampling decision.
    let before: SpanContext | undefined;
    if (after !== undefined && body.type === "run.resumed" && findCaller(plan) === undefined) {
      const { previousSpanId: spanId = "", wasSampled } = body;
      const flags = wasSampled === true ? TraceFlags.SAMPLED : TraceFlags.NONE;
      const earlier = toRemoteSpan({ traceId: after, spanId }, flags);
      if (wasSampled !== undefined && isSpanContextValid(earlier)) before = earlier;
    }
    const below = before && wrapKnownSpan(before);
    if (before !== undefined && !isSampled(before))
      return this.#maker.begin(body, moment, { ...plan, below });
    const open = this.#maker.begin(body, moment, { ...plan, links: findOriginLinks(body) });
    this.#lookForUnseen(open.span);
    if (before === undefined || isSampled(open.span.spanContext())) return open;
    const again = this.#maker.begin(body, moment, { ...plan, below });
    return isSampled(again.span.spanContext()) ? again : open;
  }

  #lookForUnseen(span: Span): void {
    const { hasTracer = false, hasMeter = false } = this.#options.globals ?? {};
    warnOfUnseenProvider(hasTracer && !span.isRecording(), hasMeter);
  }

  #openAgent(body: SpanOpening, moment: SpanMoment, parent: OpenSpan): OpenSpan {
    const open = this.#maker.begin(body, moment, planInnerSpan(parent, parent, moment));
    if (isFurther(parent.run, parent.trace))
      expectMoreSpans(parent.trace, open, computeMaxSpans(0, this.#maxSpansPerTrace));
    return open;
  }

  /** Continues an agent in another trace if its trace is full. */
  #continueInNextTrace(agent: OpenSpan, moment: SpanMoment): void {
    const place = agent.onward.at(-1) ?? agent;
    if (!isFull(place.trace, this.#maxSpansPerTrace)) return;
    const more = computeMaxSpans(agent.calls, this.#maxSpansPerTrace);
    const part = this.#findPart(agent, moment, more);
    if (part === undefined) return;
    expectNoMore(agent);
    agent.onward.push(this.#maker.continueAgent(agent, part, moment.atUs));
    expectMoreSpans(part.trace, agent, more);
  }

  /** Returns the further trace with room for `more` spans. `undefined` if a sampler drops it. */
  #findPart({ run }: OpenSpan, moment: SpanMoment, more: number): Onward | undefined {
    const last = run.parts.at(-1);
    if (last !== undefined && hasRoom(last.trace, more, this.#maxSpansPerTrace)) return last;
    const { root } = run;
    if (run.isWhole || root === undefined) return undefined;
    const traceId = deriveNextTraceId(root.ids.traceId, buildSpanSeed(moment, "part"));
    const ids = { traceId, spanId: derivePartId(traceId) };
    const part = this.#maker.startPart(root, ids, moment.atUs);
    run.isWhole = !isSampled(part.span.spanContext());
    if (run.isWhole) return undefined;
    run.parts.push(part);
    return part;
  }

  /**
   * Starts an agent in another trace, because its own is full. If a sampler drops the other trace,
   * starts it here.
   */
  #openElsewhere(body: SpanOpening, moment: SpanMoment, parent: OpenSpan): OpenSpan {
    const more = computeMaxSpans(0, this.#maxSpansPerTrace);
    const part = this.#findPart(parent, moment, more);
    if (part === undefined) return this.#openAgent(body, moment, parent);
    const back = createContinuesReference(parent.span.spanContext());
    const plan = { ...planInnerSpan(parent, part, moment), links: [back.link] };
    const open = this.#maker.begin(body, moment, plan);
    expectMoreSpans(part.trace, open, more);
    open.span.setAttributes(back.attributes);
    addContinuationLink(parent.span, open.span.spanContext());
    return open;
  }

  #recordNote(open: OpenSpan, body: SpanNote, moment: SpanMoment): void {
    recordNote(open, body, moment);
    // Links an agent to the sender of a steering message. Reports of background subagents are
    // linked elsewhere.
    if (body.type === "message.delivered" && body.origin === "steering" && body.fromAgentId) {
      const place = { executionId: null, stepId: null, callId: null, parentAgentId: null };
      const scope = { ...moment.scope, ...place, agentId: body.fromAgentId };
      const writer = this.#spans.find(scope)?.span.spanContext();
      if (writer !== undefined) open.span.addLink(toLink(LINK.messageFrom, writer));
    }
    const side = toSideSpan(body, moment, open.startedAtUs);
    if (side === undefined) return;
    this.#maker.recordBeside(open, open, side, moment);
    const wait = findWaitAcrossPause(body, moment, open);
    if (wait !== undefined) this.#maker.recordApart(open, wait, moment);
  }
}

function isSampled({ traceFlags }: SpanContext): boolean {
  return (traceFlags & TraceFlags.SAMPLED) !== 0;
}

function isFurther({ parts }: RunFacts, size: TraceSize): boolean {
  return parts.some(({ trace: further }) => further === size);
}

/**
 * Returns the plan for the span of an agent or a call. `below` is the parent or its continuation.
 */
function planInnerSpan(
  { role, run, ids: above }: OpenSpan,
  below: Onward | OpenSpan,
  moment: SpanMoment,
): SpanPlan {
  const ids = { moment, after: above.traceId };
  return { below, role, run, trace: below.trace, ids, above, onward: [] };
}
