// Everything that happens in a run, as facts in the past tense: typed, serialisable, numbered per run (E1).
// The event log is the truth; spans, terminal views and the ledger's history are projections of it.

import type { EventBodies } from "./event-bodies.ts";
import { EVENT_SCHEMAS } from "./event-schemas.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  ExecutionIdSchema,
  RunIdSchema,
  StepIdSchema,
  type AgentId,
  type CallId,
  type ExecutionId,
  type RunId,
  type StepId,
} from "./ids.ts";
import { lazySchema, z } from "./lazy-schema.ts";
import type { SpanContent } from "./message.ts";
import { addUsage, NO_USAGE, type Usage } from "./usage.ts";

/** The ids that place an event in the tree. */
export interface EventScope {
  readonly runId: RunId;
  readonly agentId: AgentId;
  /** Null for the root. */
  readonly parentAgentId: AgentId | null;
  /** Place in the tree: `lead/researcher#2`. */
  readonly agentPath: string;
  /** 0 for the root. */
  readonly depth: number;
  /** Null on events of the run as a whole. */
  readonly executionId: ExecutionId | null;
  /** Null outside steps. */
  readonly stepId: StepId | null;
  /** Set on events of a tool call. */
  readonly callId: CallId | null;
  /** Set on events of a further call that hooks made of one model call, which may run beside it: from 2. */
  readonly modelCallNumber?: number;
}

/** Where an event is in a trace. */
export interface TraceIds {
  /** 32 hexadecimal digits: the OpenTelemetry trace that shows the run. */
  readonly traceId: string;
  /** 16 hexadecimal digits: the span to which the event belongs. */
  readonly spanId: string;
  /** Only with the event that begins a run: the span of the caller below which it stands. */
  readonly parentSpanId?: string;
  /** Only with the event that begins a run, where OpenTelemetry shows it: whether its trace is taken, or was left out by a sampler. */
  readonly isSampled?: boolean;
}

/** The names of all events. */
export type EventType = keyof EventBodies;

/** The content of an event of type `T`, without its stamp. */
export type EventBody<T extends EventType = EventType> = {
  [K in T]: { readonly type: K } & EventBodies[K];
}[T];

/** One event of a run: what happened, when, where in the tree, and where in the trace. */
export type EspalierEvent<T extends EventType = EventType> = EventBody<T> &
  Pick<EventDraft, "seq" | "atMs"> &
  EventScope &
  TraceIds;

/** An event that has no trace ids yet: what a trace needs to place it. */
export interface EventDraft {
  /** From 1, without gaps, per run. */
  readonly seq: number;
  /** Milliseconds since the epoch, with microseconds as fractions where the clock has them. */
  readonly atMs: number;
  readonly scope: EventScope;
  readonly body: EventBody;
  /** Content of a span that begins and ends with the event. Made only where a trace shows it. */
  readonly contents?: () => readonly SpanContent[];
}

/** The fields of a stamp. */
const stamp = lazySchema(() => ({
  seq: z.int().positive(),
  atMs: z.number(),
  runId: RunIdSchema(),
  agentId: AgentIdSchema(),
  parentAgentId: AgentIdSchema().nullable(),
  agentPath: z.string(),
  depth: z.int().nonnegative(),
  executionId: ExecutionIdSchema().nullable(),
  stepId: StepIdSchema().nullable(),
  callId: CallIdSchema().nullable(),
  modelCallNumber: z.int().min(2).exactOptional(),
  traceId: z.string(),
  spanId: z.string(),
  parentSpanId: z.string().exactOptional(),
  isSampled: z.boolean().exactOptional(),
}));

/** What every event has. */
export const StampSchema = lazySchema(
  () =>
    z.strictObject(stamp()) satisfies z.ZodType<
      Pick<EventDraft, "seq" | "atMs"> & EventScope & TraceIds
    >,
);

/** True for the name of an event. */
export function isEventType(value: unknown): value is EventType {
  return typeof value === "string" && Object.hasOwn(EVENT_SCHEMAS, value);
}

/** The names of all events, at run time. */
export const EVENT_TYPES: readonly EventType[] = Object.keys(EVENT_SCHEMAS).filter(isEventType);

const schemas = Object.fromEntries(
  Object.entries(EVENT_SCHEMAS).map(([type, body]) => [
    type,
    lazySchema(() => z.strictObject({ ...stamp(), type: z.literal(type), ...body() })),
  ]),
);

const TypedSchema = lazySchema(() => z.looseObject({ type: z.enum(EVENT_TYPES) }));

/** Checks that a value is an event of this schema version; for what was stored or received. Throws a `ZodError`. */
export function checkEvent(value: unknown): void {
  const { type } = TypedSchema().parse(value);
  schemas[type]?.().parse(value);
}

/** True for a recovery of a run whose span had not ended. */
export function continuesSpan(body: EventBody): body is EventBody<"run.resumed"> {
  return body.type === "run.resumed" && body.recovery?.isSpanOpen === true;
}

/** Takes events: a log, a metric, a live view. */
export interface EventSink {
  /** Called once for each event, in order, at once. Must not block; if it throws, the run continues and a warning is given once. */
  emit(event: EspalierEvent): void;
}

// What was consumed, by events: the one place that knows which of them add up.

/**
 * What was consumed by these events, in all: by the steps, which include their tool calls and the summaries of their results, and by
 * the model calls that belong to no step: summaries of a history, and calls that a dead process left behind.
 *
 * All events of a run give `result.usage.total`; those of one agent, its `usage.own`. Events of a run that is under way are still incomplete by
 * the steps that are open.
 */
export function sumUsage(events: Iterable<EspalierEvent>): Usage {
  let sum = NO_USAGE;
  for (const event of events) {
    // All other events repeat a part of these.
    const isCounted =
      event.type === "step.completed" ||
      event.type === "conversation.compacted" ||
      (event.type === "budget.settled" && event.lostCall !== undefined);
    if (isCounted && event.usage !== undefined) sum = addUsage(sum, event.usage);
  }
  return sum;
}
