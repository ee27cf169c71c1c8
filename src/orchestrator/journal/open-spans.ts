// OpenSpans: which spans of a run are open, as the events of its journal tell. Owns what happened within each, the latest of it. Only
// for traces: an event that it cannot read is left out, and nothing else of the run hangs on it.

import { z } from "zod";

import { isRecord } from "../../kernel/json.ts";
import {
  checkEvent,
  isEventType,
  type Correlation,
  type EspalierEvent,
  type TraceIds,
} from "../../protocol/event.ts";
import type { LostSpan } from "../../protocol/event-sink.ts";
import { ScopeTree, type Moment, type Note, type Opening } from "../../protocol/span-scope.ts";

/** A span shows no more of them anyway. */
const MOST_NOTES = 128;

type Told = Moment & { readonly body: Note };

interface Scope {
  readonly opening: Moment & { readonly body: Opening };
  readonly parent: Scope | undefined;
  readonly notes: Told[];
  ids: TraceIds;
}

const EventSchema = z.custom<EspalierEvent>(
  (value) => isRecord(value) && isEventType(value["type"]) && typeof value["runId"] === "string",
);

const NO_IDS: TraceIds = { traceId: "", spanId: "" };

export class OpenSpans {
  readonly #open = new Set<Scope>();
  readonly #scopes = new ScopeTree<Scope>({
    open: (body, moment, parent) => {
      const scope = { opening: { ...placed(moment), body }, parent, notes: [], ids: NO_IDS };
      this.#open.add(scope);
      return scope;
    },
    note: ({ notes }, body, moment) => {
      notes.push({ ...placed(moment), body });
      if (notes.length > MOST_NOTES) notes.shift();
    },
    close: (scope) => void this.#open.delete(scope),
    abandon: (scope) => void this.#open.delete(scope),
  });

  take(value: unknown): void {
    const parsed = EventSchema.safeParse(value);
    if (!parsed.success) return;
    const event = parsed.data;
    const { seq, atMs } = event;
    const scope = this.#scopes.place({ seq, atMs, correlation: correlationOf(event), body: event });
    if (scope?.ids === NO_IDS) scope.ids = idsOf(event);
  }

  /** Those that are open, of traces that were taken: the outermost first. */
  lost(): readonly LostSpan[] {
    return [...this.#open]
      .filter(isTold)
      .filter(isReadable)
      .map((scope) => ({
        ...scope.opening,
        ids: scope.ids,
        parent: scope.parent?.ids,
        conversationId: conversationOf(scope),
        notes: scope.notes,
      }));
  }
}

function placed({ seq, atMs, correlation }: Moment): Moment {
  return { seq, atMs, correlation };
}

function correlationOf(event: EspalierEvent): Correlation {
  const { runId, agentId, parentAgentId, agentPath, depth, executionId, stepId, callId } = event;
  const { modelCallNumber } = event;
  return {
    runId,
    agentId,
    parentAgentId,
    agentPath,
    depth,
    executionId,
    stepId,
    callId,
    ...(modelCallNumber === undefined ? {} : { modelCallNumber }),
  };
}

function idsOf({ traceId, spanId, parentSpanId, isSampled }: EspalierEvent): TraceIds {
  return {
    traceId,
    spanId,
    ...(parentSpanId === undefined ? {} : { parentSpanId }),
    ...(isSampled === undefined ? {} : { isSampled }),
  };
}

/** Where nothing was shown, or a sampler had left the trace out, there was no span to end. */
function isTold({ ids, parent }: Scope): boolean {
  return parent === undefined ? ids.isSampled === true : isTold(parent);
}

/** The bodies of openings are the events themselves. */
function isReadable({ opening }: Scope): boolean {
  try {
    checkEvent(opening.body);
    return true;
  } catch {
    return false;
  }
}

function conversationOf({ opening: { body }, parent }: Scope): string | undefined {
  if (parent !== undefined) return conversationOf(parent);
  return "sessionId" in body ? body.sessionId : undefined;
}
