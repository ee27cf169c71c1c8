// What happens within a span, and how it ends.
// A span is an error only if what it shows failed: a spawn fails with its subagent, a parent does not. A pause is no error.

import { isSpanContextValid, ROOT_CONTEXT } from "@opentelemetry/api";

import type { EventBody } from "../../protocol/event.ts";
import type { SpanMoment, SpanNote } from "../../protocol/span-tree.ts";
import {
  shortenSpanName,
  shortenEventAttributes,
  setAttribute,
  setAttributes,
} from "../bounded/bounded-attributes.ts";
import { ERROR_TYPE, ESPALIER, LINK, SPAN_EVENT, SPAWN } from "../gen-ai-attributes.ts";
import {
  type OpenSpan,
  toLink,
  wrapKnownSpan,
  createRunFacts,
  type Onward,
  type RunFacts,
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

/** OpenTelemetry keeps 128 links of a span: some are left for others than these. */
const MOST_AWAITED = 100;

/** Something happened within a span that records. */
export function recordNote(open: OpenSpan, body: SpanNote, moment: SpanMoment): void {
  const { span, isToolCall, run } = open;
  // What becomes of a delegation is on the span of its call. A subtask has no call, only its own span.
  if (isToolCall) {
    setDelegation(span, body);
    if (body.type === "subagent.refused") rename(open, findKnownRole(body));
    if (body.type === "subagent.spawned" || body.type === "subagent.continued")
      rename(open, readLastName(body.childPath));
  }
  const event = toSpanEvent(body, moment);
  if (event !== undefined)
    span.addEvent(event.name, shortenEventAttributes(event.attributes), toHrTime(moment.atUs));
  if ("isBackground" in body && body.isBackground)
    (run.background ??= new Map()).set(body.childId, undefined);
  if (body.type === "subagent.ended") {
    // An agent that waited for a subagent in the background is linked to it, where it reads of its end.
    const awaited = run.background?.get(body.childId);
    if (run.background?.delete(body.childId) !== true || awaited === undefined) return;
    open.awaited += 1;
    span.setAttribute(ESPALIER.awaitsCount, open.awaited);
    if (open.awaited <= MOST_AWAITED) span.addLink(toLink(LINK.awaits, awaited));
  }
  if (body.type === "run.resumed") {
    run.recoveries += 1;
    span.setAttribute(ESPALIER.runRecoveries, run.recoveries);
  }
}

/** The subagent of a resumed delegation is known when it continues. */
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

/** Names a call after its subagent; after its tool, if it starts several. */
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
 * What a span shows is over. `crashed`: its process died. One that is `released` is not ended: the process that continues its run does that.
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
  // It is shown wherever the span continued.
  for (const { span: further, name } of open.onward) {
    further.setAttribute(ESPALIER.outcome, outcome);
    markOutcome(further, name, outcome);
  }
  setAttribute(span, ERROR_TYPE, findFailure(end));
}

/** A span ends with the last one within it. If what it shows was over before, an event on it has the time. */
export function endSpan(open: OpenSpan, { atUs }: Pick<SpanMoment, "atUs">): void {
  const { span, closedAtUs, onward } = open;
  for (const further of onward) further.span.end(toHrTime(atUs));
  if (closedAtUs !== undefined && closedAtUs < atUs && span.isRecording())
    span.addEvent(SPAN_EVENT.over, {}, toHrTime(closedAtUs));
  span.end(toHrTime(atUs));
}

// Spans that were open when their process died. A span that is never ended is never exported, and all that was exported below it has
// no parent: so the process that recovers the run begins them once more, under the ids that the events of the run have, and ends them at
// the last event of the dead one. That of the run, and those around its further traces, continue.
// Where the provider does not let ids be chosen, they have other ids, stand in the same trace, and name the id that they have in the
// events: what was exported before stays without its parent there.

/**
 * Gives the spans that end, those within others first, and that of the run, which continues; undefined: it is not among them. `lost`: the
 * outermost first, of traces that were taken. `atUs`: when the last event of the dead process happened.
 */
export function recordLostSpans(
  maker: SpanMaker,
  lost: readonly LostSpan[],
  atUs: number,
): { readonly run: OpenSpan | undefined; readonly ended: readonly OpenSpan[] } {
  const recorder = new LostSpanRecorder(
    maker,
    createRunFacts(ROOT_CONTEXT, lost[0]?.conversationId),
  );
  const recorded = lost.flatMap((span) => {
    const open = recorder.record(span);
    return open === undefined ? [] : [{ ...span, open }];
  });
  const run = recorded.find(({ parent }) => parent === undefined);
  const end = computeLostEnd(atUs);
  const ended = recorded.filter((one) => one !== run).toReversed();
  for (const { open, closing } of ended)
    recordSpanEnd(open, closing?.body ?? "crashed", closing ?? end);
  return { run: run && continueRunSpan(run.open, run), ended: ended.map(({ open }) => open) };
}

/** Later than the last event, which may be the one with which a span began. */
export function computeLostEnd(atUs: number): { readonly atUs: number } {
  return { atUs: atUs + 1 };
}

/** As it continues: known by the id that it has here, with traces that are as large as they were. */
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
  /** The spans around further traces, and those in which agents continue there, by trace, and by agent and trace. */
  readonly #onward = new Map<string, Onward>();

  constructor(maker: SpanMaker, run: RunFacts) {
    this.#maker = maker;
    this.#run = run;
  }

  /** Undefined: events of its process stood in one span, because its tracing had failed. */
  record(lost: LostSpan): OpenSpan | undefined {
    const { ids, notes } = lost;
    if (this.#recorded.has(ids.spanId)) return undefined;
    // From the first span of a trace in which another one continues to where it came from. A call stands where its agent continued.
    const hasBack =
      lost.parent !== undefined && isTraceStart(lost) && !this.#onward.has(buildCallKey(lost));
    const back =
      hasBack && lost.parent ? createContinuesReference(toRemoteSpan(lost.parent)) : undefined;
    const open = this.#begin(lost, back, this.#below(lost));
    const isOwn = hasId(open.span, ids.spanId);
    // One that began a trace of its own is never ended, so it is not seen: another one stands below the id that it should have.
    const recorded =
      isOwn || !isTraceStart(lost)
        ? open
        : this.#begin(lost, back, wrapKnownSpan(toRemoteSpan(lost.ids)));
    const { span } = recorded;
    const own = span.spanContext();
    if (span.isRecording())
      setAttributes(span, {
        // A span that continues is not replayed.
        [ESPALIER.replayed]: lost.parent === undefined ? undefined : true,
        [ESPALIER.replacesSpanId]:
          isSpanContextValid(own) && !hasId(span, ids.spanId) ? ids.spanId : undefined,
        ...back?.attributes,
      });
    const above = this.#above(lost);
    const isAgent = lost.body.type === "agent.started" || lost.body.type === "agent.resumed";
    if (above !== undefined && isTraceStart(lost) && isAgent) addContinuationLink(above.span, own);
    if (isOwn) this.#recordOnward(recorded, lost);
    if (span.isRecording())
      for (const { body, ...moment } of notes) recordNote(recorded, body, moment);
    this.#recorded.set(ids.spanId, recorded);
    return recorded;
  }

  /** Where the provider lets ids be chosen: otherwise their ids are unknown. */
  #recordOnward(recorded: OpenSpan, { parent, ids, furtherTraces: elsewhere }: LostSpan): void {
    for (const { traceId, sinceUs } of elsewhere) {
      const part = this.#onward.get(traceId);
      if (parent !== undefined && part === undefined) continue;
      const onward =
        part === undefined
          ? this.#maker.part(recorded, { traceId, spanId: derivePartId(traceId) }, sinceUs)
          : this.#maker.onward(recorded, part, sinceUs);
      if (parent !== undefined) onward.span.setAttribute(ESPALIER.replayed, true);
      recorded.onward.push(onward);
      this.#onward.set(part === undefined ? traceId : `${ids.spanId} ${traceId}`, onward);
    }
  }

  #begin(lost: LostSpan, back: Reference | undefined, below: OpenSpan["below"]): OpenSpan {
    const { body, ids, parent } = lost;
    const { seq, atMs, atUs, scope } = lost;
    const moment = { seq, atMs, atUs, scope };
    const role = this.#above(lost)?.role ?? "";
    const links = back === undefined ? findOriginLinks(body) : [back.link];
    const onward = parent === undefined ? this.#run.parts : [];
    const place = { run: this.#run, trace: this.#trace, onward };
    return { ...this.#maker.begin(body, moment, { below, role, ids, links, ...place }), ids };
  }

  #above({ parent }: LostSpan): OpenSpan | undefined {
    return parent === undefined ? undefined : this.#recorded.get(parent.spanId);
  }

  #below(lost: LostSpan): OpenSpan["below"] {
    const { ids, parent } = lost;
    if (parent === undefined) {
      const { traceId, parentSpanId: spanId } = ids;
      return spanId === undefined ? undefined : wrapKnownSpan(toRemoteSpan({ traceId, spanId }));
    }
    if (isTraceStart(lost))
      return this.#onward.get(buildCallKey(lost)) ?? this.#onward.get(ids.traceId);
    return this.#above(lost) ?? wrapKnownSpan(toRemoteSpan(parent));
  }
}

/** The key of a call in another trace than its agent: where that continued. */
function buildCallKey({ ids, parent }: LostSpan): string {
  return `${parent?.spanId} ${ids.traceId}`;
}

/** True for the span of a run, and for the first one of a trace that another one continues in. */
function isTraceStart({ ids, parent }: LostSpan): boolean {
  return parent === undefined || parent.traceId !== ids.traceId;
}
