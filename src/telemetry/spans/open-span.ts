// What the projection knows of a span that is open, and of the run and the trace that it belongs to.

import { trace, type Context, type Span, type SpanContext } from "@opentelemetry/api";

import type { TraceIds } from "../../protocol/event.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { SpanMoment, SpanOpening } from "../../protocol/span-tree.ts";

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
