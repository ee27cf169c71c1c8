// Records events and ends on spans. A span is an error only if its own work failed: the span of a
// spawn fails with its subagent, the span of the parent does not. A pause is not an error.

import { isSpanContextValid, ROOT_CONTEXT } from "@opentelemetry/api";

import type { EventBody } from "../../protocol/event.ts";
import type { SpanMoment, SpanNote } from "../../protocol/span-tree.ts";
import {
  shortenSpanName,
  shortenEventAttributes,
  setAttribute,
  setAttributes,
} from "./bounded-attributes.ts";
import { ERROR_TYPE, ESPALIER, LINK, SPAN_EVENT, SPAWN } from "../gen-ai-attributes.ts";
import {
  type OpenSpan,
  toLink,
  wrapKnownSpan,
  type Onward,
  RunFacts,
  type TraceSize,
  createContinuesReference,
  addContinuationLink,
  findOriginLinks,
  toRemoteSpan,
  type Reference,
  toHrTime,
  hasId,
  derivePartId,
  type SpanMaker,
} from "./span-maker.ts";
import {
  findFailure,
  findKnownRole,
  getKnownToolName,
  readLastName,
  findOutcomeName,
  setChild,
  setClosing,
  setDelegation,
  type SpanEnd,
  markOutcome,
} from "./span-attributes.ts";
import { toSpanEvent } from "./span-events.ts";
import type { LostSpan } from "../../protocol/tracing.ts";

/**
 * Maximum number of links to background subagents. OpenTelemetry keeps 128 links per span, so some
 * remain for others.
 */
const MAX_AWAITED_LINKS = 100;

/** Records an event within a recording span. */
export function recordNote(open: OpenSpan, body: SpanNote, moment: SpanMoment): void {
  const { span, isToolCall, run } = open;
  // The span of the call shows the course of a delegation. A subtask has no call, only its own
  // span.
  if (isToolCall) {
    setDelegation(span, body);
    if (body.type === "subagent.refused") rename(open, findKnownRole(body));
    if (body.type === "subagent.spawned" || body.type === "subagent.continued")
      rename(open, readLastName(body.childPath));
  }
  const event = toSpanEvent(body, moment);
  if (event !== undefined)
    span.addEvent(event.name, shortenEventAttributes(event.attributes), toHrTime(moment.atUs));
  if ("isBackground" in body && body.isBackground) run.background.set(body.childId, undefined);
  if (body.type === "subagent.ended") {
    // Links an agent to its background subagent when it receives the report.
    const awaited = run.background.get(body.childId);
    run.background.delete(body.childId);
    if (awaited === undefined) return;
    open.awaited += 1;
    span.setAttribute(ESPALIER.awaitsCount, open.awaited);
    if (open.awaited <= MAX_AWAITED_LINKS) span.addLink(toLink(LINK.awaits, awaited));
  }
  if (body.type === "run.resumed") {
    run.recoveries += 1;
    span.setAttribute(ESPALIER.runRecoveries, run.recoveries);
  }
}

/** Records the subagent of a resumed delegation, which is known when it continues. */
export function recordResumedChild(
  open: OpenSpan,
  body: EventBody<"agent.resumed">,
  moment: SpanMoment,
): void {
  if (!open.span.isRecording()) return;
  const { agentId: childId, agentPath: childPath } = moment.scope;
  setChild(open.span, { role: body.role, childId, childPath });
  rename(open, readLastName(childPath));
}

/** Names a call after its subagent, or after its tool if it starts several. */
function rename(open: OpenSpan, subagent: string | undefined): void {
  const { opening, name } = open;
  const isDelegation = "kind" in opening && opening.kind === "delegation";
  open.spawns += 1;
  const target = isDelegation && open.spawns > 1 ? getKnownToolName(opening) : subagent;
  const words = [isDelegation ? SPAWN : name, ...(target === undefined ? [] : [target])];
  open.shownName = shortenSpanName(words.join(" "));
  open.span.updateName(open.shownName);
}

/**
 * Records the end of the work of a span. `crashed` means that its process crashed. A `released`
 * span is left open for the process that continues its run.
 */
export function recordSpanEnd(
  open: OpenSpan,
  end: SpanEnd | "released",
  { atUs }: Pick<SpanMoment, "atUs">,
): void {
  const { span } = open;
  open.closedAtUs = atUs;
  if (end === "released" || !span.isRecording()) return;
  const outcome = findOutcomeName(end);
  if (outcome !== undefined) span.setAttribute(ESPALIER.outcome, outcome);
  if (typeof end !== "string") setClosing(span, end);
  if (outcome === undefined) return;
  markOutcome(span, open.shownName, outcome);
  // Every continuation shows the outcome, too.
  for (const { span: further, name } of open.onward) {
    further.setAttribute(ESPALIER.outcome, outcome);
    markOutcome(further, name, outcome);
  }
  setAttribute(span, ERROR_TYPE, findFailure(end));
}

/**
 * Ends a span together with its last child. If its work ended earlier, a span event has that time.
 */
export function endSpan(open: OpenSpan, { atUs }: Pick<SpanMoment, "atUs">): void {
  const { span, closedAtUs, onward } = open;
  for (const further of onward) further.span.end(toHrTime(atUs));
  if (closedAtUs !== undefined && closedAtUs < atUs && span.isRecording())
    span.addEvent(SPAN_EVENT.over, {}, toHrTime(closedAtUs));
  span.end(toHrTime(atUs));
}

// Records spans that were open when their process crashed. A span that is never ended is never
// exported, and its exported children have no parent. Therefore the recovering process starts them
// again under their ids in the event log, and ends them after the last event of the crashed
// process. The span of the run and the roots of its further traces stay open. If the provider does
// not allow chosen ids, the new spans have other ids in the same trace and name the ids of the
// events. Spans that were exported earlier then lack their parent.

/**
 * Returns the ended spans, children first, and the span of the run, which continues. `run` is
 * `undefined` if it is not among the lost spans. `lost` has parents first, from sampled traces.
 * `atUs` is the time of the last event of the crashed process.
 */
export function recordLostSpans(
  maker: SpanMaker,
  lost: readonly LostSpan[],
  atUs: number,
): { readonly run: OpenSpan | undefined; readonly ended: readonly OpenSpan[] } {
  const recorder = new LostSpanRecorder(maker, new RunFacts(ROOT_CONTEXT, lost[0]?.conversationId));
  const recorded = lost.flatMap((span) => {
    const open = recorder.record(span);
    return open === undefined ? [] : [{ ...span, open }];
  });
  const run = recorded.find(({ parent }) => parent === undefined);
  const end = computeLostEnd(atUs);
  const ended = recorded.filter((entry) => entry !== run).toReversed();
  for (const { open, closing } of ended)
    recordSpanEnd(open, closing?.body ?? "crashed", closing ?? end);
  return { run: run && continueRunSpan(run.open, run), ended: ended.map(({ open }) => open) };
}

/** Returns a time after the last event, which may be the start of a span. */
export function computeLostEnd(atUs: number): { readonly atUs: number } {
  return { atUs: atUs + 1 };
}

/** Returns the span of the run as it continues, with its current id and the sizes of its traces. */
function continueRunSpan(
  open: OpenSpan,
  { spansInTrace, furtherTraces: elsewhere }: LostSpan,
): OpenSpan {
  open.trace.spans = spansInTrace;
  for (const [index, { spansInTrace: spans }] of elsewhere.entries()) {
    const part = open.onward[index];
    if (part !== undefined) part.trace.spans = spans + 1;
  }
  const { traceId, spanId } = open.span.isRecording() ? open.span.spanContext() : open.ids;
  open.run.root = { ...open, ids: { traceId, spanId } };
  return open.run.root;
}

class LostSpanRecorder {
  readonly #maker: SpanMaker;
  readonly #recorded = new Map<string, OpenSpan>();
  readonly #run: RunFacts;
  readonly #trace: TraceSize = { spans: 0, expected: 0 };
  /** Root spans of further traces by trace, and continuations of agents by agent and trace. */
  readonly #onward = new Map<string, Onward>();

  constructor(maker: SpanMaker, run: RunFacts) {
    this.#maker = maker;
    this.#run = run;
  }

  /**
   * Records a lost span. `undefined` for a span id that was already recorded, which happens if
   * tracing had failed.
   */
  record(lost: LostSpan): OpenSpan | undefined {
    const { ids, notes } = lost;
    if (this.#recorded.has(ids.spanId)) return undefined;
    // The first span of a further trace links back to its origin. A call is below the continuation
    // of its agent instead.
    const hasBack =
      lost.parent !== undefined && isTraceStart(lost) && !this.#onward.has(buildCallKey(lost));
    const back =
      hasBack && lost.parent ? createContinuesReference(toRemoteSpan(lost.parent)) : undefined;
    const open = this.#begin(lost, back, this.#findPlace(lost));
    const isOwn = hasId(open.span, ids.spanId);
    // A span that starts its own trace is never ended and therefore invisible. A second span is
    // recorded below its intended id.
    const recorded =
      isOwn || !isTraceStart(lost)
        ? open
        : this.#begin(lost, back, wrapKnownSpan(toRemoteSpan(lost.ids)));
    const { span } = recorded;
    const ownContext = span.spanContext();
    if (span.isRecording())
      setAttributes(span, {
        // A span that continues is not replayed.
        [ESPALIER.replayed]: lost.parent === undefined ? undefined : true,
        [ESPALIER.replacesSpanId]:
          isSpanContextValid(ownContext) && !hasId(span, ids.spanId) ? ids.spanId : undefined,
        ...back?.attributes,
      });
    const above = this.#findParent(lost);
    const isAgent = lost.body.type === "agent.started" || lost.body.type === "agent.resumed";
    if (above !== undefined && isTraceStart(lost) && isAgent)
      addContinuationLink(above.span, ownContext);
    if (isOwn) this.#recordOnward(recorded, lost);
    if (span.isRecording())
      for (const { body, ...moment } of notes) recordNote(recorded, body, moment);
    this.#recorded.set(ids.spanId, recorded);
    return recorded;
  }

  /**
   * Records the continuations of a span, if the provider allows chosen ids. Otherwise their ids are
   * unknown.
   */
  #recordOnward(recorded: OpenSpan, { parent, ids, furtherTraces: elsewhere }: LostSpan): void {
    for (const { traceId, sinceUs } of elsewhere) {
      const part = this.#onward.get(traceId);
      if (parent !== undefined && part === undefined) continue;
      const onward =
        part === undefined
          ? this.#maker.startPart(recorded, { traceId, spanId: derivePartId(traceId) }, sinceUs)
          : this.#maker.continueAgent(recorded, part, sinceUs);
      if (parent !== undefined) onward.span.setAttribute(ESPALIER.replayed, true);
      recorded.onward.push(onward);
      this.#onward.set(part === undefined ? traceId : `${ids.spanId} ${traceId}`, onward);
    }
  }

  #begin(lost: LostSpan, back: Reference | undefined, below: OpenSpan["below"]): OpenSpan {
    const { body, ids, parent } = lost;
    const { seq, atMs, atUs, scope } = lost;
    const moment = { seq, atMs, atUs, scope };
    const role = this.#findParent(lost)?.role ?? "";
    const links = back === undefined ? findOriginLinks(body) : [back.link];
    const onward = parent === undefined ? this.#run.parts : [];
    const place = { run: this.#run, trace: this.#trace, onward };
    return { ...this.#maker.begin(body, moment, { below, role, ids, links, ...place }), ids };
  }

  #findParent({ parent }: LostSpan): OpenSpan | undefined {
    return parent === undefined ? undefined : this.#recorded.get(parent.spanId);
  }

  #findPlace(lost: LostSpan): OpenSpan["below"] {
    const { ids, parent } = lost;
    if (parent === undefined) {
      const { traceId, parentSpanId: spanId } = ids;
      return spanId === undefined ? undefined : wrapKnownSpan(toRemoteSpan({ traceId, spanId }));
    }
    if (isTraceStart(lost))
      return this.#onward.get(buildCallKey(lost)) ?? this.#onward.get(ids.traceId);
    return this.#findParent(lost) ?? wrapKnownSpan(toRemoteSpan(parent));
  }
}

/**
 * Returns the key of a call in another trace than its agent, which identifies the continuation of
 * the agent.
 */
function buildCallKey({ ids, parent }: LostSpan): string {
  return `${parent?.spanId} ${ids.traceId}`;
}

/** True for the span of a run, and for the first span of a further trace. */
function isTraceStart({ ids, parent }: LostSpan): boolean {
  return parent === undefined || parent.traceId !== ids.traceId;
}
