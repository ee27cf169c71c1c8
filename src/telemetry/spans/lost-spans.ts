// Spans that were open when their process died. A span that is never ended is never exported, and all that was exported below it has
// no parent: so the process that recovers the run begins them once more, under the ids that the events of the run have, and ends them at
// the last event of the dead one. That of the run, and those around its further traces, continue.
// Where the provider does not let ids be chosen, they have other ids, stand in the same trace, and name the id that they have in the
// events: what was exported before stays without its parent there.

import { isSpanContextValid, ROOT_CONTEXT, type Attributes } from "@opentelemetry/api";

import type { TraceIds } from "../../protocol/event.ts";
import type { LostSpan } from "../../protocol/tracing.ts";
import { setAttributes } from "../bounded/bounded-attributes.ts";
import { ESPALIER } from "../gen-ai-attributes.ts";
import {
  knownSpan,
  newRun,
  type Onward,
  type SpanAbove,
  type OpenSpan,
  type RunFacts,
  type TraceSize,
} from "./open-span.ts";
import { continuedFrom, continueIn, originOf, remoteSpan, type Reference } from "./span-links.ts";
import { hasId, partIdIn, type SpanMaker } from "./span-maker.ts";
import { recordSpanEnd, recordNote } from "./span-recording.ts";

/**
 * Gives the spans that end, those within others first, and that of the run, which continues; undefined: it is not among them. `lost`: the
 * outermost first, of traces that were taken. `atUs`: when the last event of the dead process happened.
 */
export function recordLostSpans(
  maker: SpanMaker,
  lost: readonly LostSpan[],
  atUs: number,
): { readonly run: OpenSpan | undefined; readonly ended: readonly OpenSpan[] } {
  const recorder = new LostSpanRecorder(maker, newRun(ROOT_CONTEXT, lost[0]?.conversationId));
  const recorded = lost.flatMap((span) => {
    const open = recorder.record(span);
    return open === undefined ? [] : [{ ...span, open }];
  });
  const run = recorded.find(({ parent }) => parent === undefined);
  const end = endOfLost(atUs);
  const ended = recorded.filter((one) => one !== run).toReversed();
  for (const { open, closing } of ended)
    recordSpanEnd(open, closing?.body ?? "crashed", closing ?? end);
  return { run: run && continued(run.open, run), ended: ended.map(({ open }) => open) };
}

/** Later than the last event, which may be the one with which a span began. */
export function endOfLost(atUs: number): { readonly atUs: number } {
  return { atUs: atUs + 1 };
}

/** As it continues: known by the id that it has here, with traces that are as large as they were. */
function continued(open: OpenSpan, { spansInTrace, elsewhere }: LostSpan): OpenSpan {
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
    const back = this.#backOf(lost);
    const open = this.#begin(lost, back, this.#below(lost));
    const isOwn = hasId(open.span, ids.spanId);
    // One that began a trace of its own is never ended, so it is not seen: another one stands below the id that it should have.
    const recorded =
      isOwn || !beginsTrace(lost) ? open : this.#begin(lost, back, exported(lost.ids));
    if (recorded.span.isRecording())
      setAttributes(recorded.span, { ...attributesOf(recorded, lost), ...back?.attributes });
    const above = this.#above(lost);
    if (above !== undefined && beginsTrace(lost) && isAgent(lost))
      continueIn(above.span, recorded.span.spanContext());
    if (isOwn) this.#recordOnward(recorded, lost);
    if (recorded.span.isRecording())
      for (const { body, ...moment } of notes) recordNote(recorded, body, moment);
    this.#recorded.set(ids.spanId, recorded);
    return recorded;
  }

  /** Where the provider lets ids be chosen: otherwise their ids are unknown. */
  #recordOnward(recorded: OpenSpan, { parent, ids, elsewhere }: LostSpan): void {
    for (const { traceId, sinceUs } of elsewhere) {
      const part = this.#onward.get(traceId);
      if (parent !== undefined && part === undefined) continue;
      const onward =
        part === undefined
          ? this.#maker.part(recorded, { traceId, spanId: partIdIn(traceId) }, sinceUs)
          : this.#maker.onward(recorded, part, sinceUs);
      if (parent !== undefined) onward.span.setAttribute(ESPALIER.replayed, true);
      recorded.onward.push(onward);
      this.#onward.set(part === undefined ? traceId : `${ids.spanId} ${traceId}`, onward);
    }
  }

  #begin(lost: LostSpan, back: Reference | undefined, below: OpenSpan["below"]): OpenSpan {
    const { body, ids, parent } = lost;
    const { seq, atMs, atUs, scope } = lost;
    const begun = this.#maker.begin(
      body,
      { seq, atMs, atUs, scope },
      {
        below,
        role: this.#above(lost)?.role ?? "",
        ids,
        links: back === undefined ? originOf(body) : [back.link],
        run: this.#run,
        trace: this.#trace,
        onward: parent === undefined ? this.#run.parts : [],
      },
    );
    return { ...begun, ids };
  }

  /** From the first span of a trace in which another one continues to where it came from. A call stands where its agent continued. */
  #backOf(lost: LostSpan): Reference | undefined {
    const { parent } = lost;
    if (parent === undefined || !beginsTrace(lost) || this.#onwardOf(lost) !== undefined)
      return undefined;
    return continuedFrom(remoteSpan(parent));
  }

  #above({ parent }: LostSpan): OpenSpan | undefined {
    return parent === undefined ? undefined : this.#recorded.get(parent.spanId);
  }

  /** For a call in another trace than its agent: where that continued. */
  #onwardOf({ ids, parent }: LostSpan): Onward | undefined {
    return this.#onward.get(`${parent?.spanId} ${ids.traceId}`);
  }

  #below(lost: LostSpan): OpenSpan["below"] {
    const { ids, parent } = lost;
    if (parent === undefined) {
      const { traceId, parentSpanId: spanId } = ids;
      return spanId === undefined ? undefined : exported({ traceId, spanId });
    }
    if (beginsTrace(lost)) return this.#onwardOf(lost) ?? this.#onward.get(ids.traceId);
    return this.#above(lost) ?? exported(parent);
  }
}

/** A span that another process has exported. */
function exported(ids: TraceIds): SpanAbove {
  return knownSpan(remoteSpan(ids));
}

/** True for the span of a run, and for the first one of a trace that another one continues in. */
function beginsTrace({ ids, parent }: LostSpan): boolean {
  return parent === undefined || parent.traceId !== ids.traceId;
}

function isAgent({ body }: LostSpan): boolean {
  return body.type === "agent.started" || body.type === "agent.resumed";
}

/** A span that continues is not replayed. */
function attributesOf({ span }: OpenSpan, { ids: { spanId }, parent }: LostSpan): Attributes {
  const isReplaced = isSpanContextValid(span.spanContext()) && !hasId(span, spanId);
  return {
    [ESPALIER.replayed]: parent === undefined ? undefined : true,
    [ESPALIER.replacesSpanId]: isReplaced ? spanId : undefined,
  };
}
