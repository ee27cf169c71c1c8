// OpenSpans: the spans of a run that have not ended, folded from the events of its journal. Owns
// the latest notes of each. For traces only: an unreadable event is skipped, and nothing else of
// the run depends on it.

import { omitUndefined, isRecord } from "../../kernel/json.ts";
import {
  assertEvent,
  isEventType,
  type EspalierEvent,
  type TraceIds,
} from "../../protocol/event.ts";
import type { LostSpan } from "../../protocol/tracing.ts";
import {
  SpanTree,
  type SpanClosing,
  type SpanMoment,
  type SpanNote,
  type SpanOpening,
} from "../../protocol/span-tree.ts";

/** Maximum number of notes of a span. Traces do not show more. */
const MOST_NOTES = 128;

type Recorded<Body> = SpanMoment & { readonly body: Body };

interface Scope {
  readonly opening: Recorded<SpanOpening>;
  readonly parent: Scope | undefined;
  readonly notes: Recorded<SpanNote>[];
  closing: Recorded<SpanClosing> | undefined;
  /** When the span continued in further traces, by trace id. */
  readonly furtherTraces: Map<string, number>;
  ids: TraceIds;
}

/** Returns an event of a journal. `undefined` if its type is unknown here. */
export function parseKnownEvent(value: unknown): EspalierEvent | undefined {
  return isKeptEvent(value) ? value : undefined;
}

function isKeptEvent(value: unknown): value is EspalierEvent {
  return isRecord(value) && isEventType(value["type"]) && typeof value["runId"] === "string";
}

const NO_IDS: TraceIds = { traceId: "", spanId: "" };

export class OpenSpans {
  readonly #open = new Set<Scope>();
  /** Number of spans by trace. */
  readonly #counts = new Map<string, number>();
  #lastUs = 0;
  readonly #scopes = new SpanTree<Scope>({
    open: (body, moment, parent) => {
      const opening = { ...moment, body };
      const empty = { notes: [], closing: undefined, furtherTraces: new Map(), ids: NO_IDS };
      const scope = { opening, parent, ...empty };
      this.#open.add(scope);
      this.#lastUs = moment.atUs;
      return scope;
    },
    note: ({ notes }, body, moment) => {
      notes.push({ ...moment, body });
      if (notes.length > MOST_NOTES) notes.shift();
      this.#lastUs = moment.atUs;
    },
    close: (scope, body, moment) => {
      scope.closing = { ...moment, body };
      this.#lastUs = moment.atUs;
    },
    abandon: () => {},
    end: (scope) => void this.#open.delete(scope),
  });

  take(value: unknown): void {
    const event = parseKnownEvent(value);
    if (event === undefined) return;
    const { seq, atMs } = event;
    const scope = this.#scopes.place({ seq, atMs, scope: event, body: event });
    if (scope === undefined) return;
    const isNew = scope.ids === NO_IDS;
    // A process that resumes a run may have to give its span another id.
    if (isNew || event.type === "run.resumed") scope.ids = pickTraceIds(event);
    if (!isNew) return;
    this.#counts.set(event.traceId, this.#countSpans(event) + 1);
    noteElsewhere(scope);
  }

  #countSpans({ traceId }: TraceIds): number {
    return this.#counts.get(traceId) ?? 0;
  }

  /** True if the span of the run has not ended. */
  get isRunOpen(): boolean {
    return this.#scopes.size > 0;
  }

  /** Time of the last event, on the time line of spans. */
  get lastUs(): number {
    return this.#lastUs;
  }

  /** Returns the open spans of sampled traces, the outermost first. */
  findLostSpans(): readonly LostSpan[] {
    return [...this.#open]
      .filter(isRecorded)
      .filter(isReadable)
      .map((scope) => ({
        ...scope.opening,
        ids: scope.ids,
        parent: scope.parent?.ids,
        conversationId: findConversation(scope),
        notes: scope.notes,
        closing: scope.closing,
        spansInTrace: this.#countSpans(scope.ids),
        furtherTraces: [...scope.furtherTraces].map(([traceId, sinceUs]) => {
          const spansInTrace = this.#counts.get(traceId) ?? 0;
          return { traceId, sinceUs, spansInTrace };
        }),
      }));
  }
}

function pickTraceIds({ traceId, spanId, parentSpanId, isSampled }: TraceIds): TraceIds {
  return { traceId, spanId, ...omitUndefined({ parentSpanId, isSampled }) };
}

/**
 * Records a span in another trace than its parent: the run and the agent of the call continue
 * there.
 */
function noteElsewhere({ opening, parent, ids: { traceId } }: Scope): void {
  if (parent === undefined || parent.ids.traceId === traceId) return;
  const note = ({ furtherTraces }: Scope): void => {
    if (!furtherTraces.has(traceId)) furtherTraces.set(traceId, opening.atUs);
  };
  if (!opening.body.type.startsWith("agent.")) note(parent);
  let run = parent;
  while (run.parent !== undefined) run = run.parent;
  note(run);
}

/**
 * Returns false without tracing, or if a sampler has dropped the trace: then no span has to be
 * ended.
 */
function isRecorded({ ids, parent }: Scope): boolean {
  return parent === undefined ? ids.isSampled === true : isRecorded(parent);
}

/** Returns true if both bodies are valid events. */
function isReadable({ opening, closing }: Scope): boolean {
  try {
    assertEvent(opening.body);
    if (closing !== undefined) assertEvent(closing.body);
    return true;
  } catch {
    return false;
  }
}

function findConversation({ opening: { body }, parent }: Scope): string | undefined {
  if (parent !== undefined) return findConversation(parent);
  return "sessionId" in body ? body.sessionId : undefined;
}
