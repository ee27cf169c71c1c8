// Events: facts about a run, typed, serialisable, in the past tense, and numbered per run (E1).
// The event log is the source of truth. Spans, terminal views and the ledger's history are
// projections of the log.

import { checkIterable, mismatch } from "../kernel/argument-checks.ts";
import { EspalierError } from "../kernel/error.ts";
import { completeSentence } from "../kernel/sentence.ts";
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

/**
 * Ids that locate an event in the agent tree.
 *
 * @example
 * ```ts
 * for await (const { runId, agentPath, callId, type } of run.events())
 *   console.log(runId, agentPath, callId ?? "-", type);
 * ```
 */
export interface EventScope {
  /** Id of the run. */
  readonly runId: RunId;
  /** Id of the agent. */
  readonly agentId: AgentId;
  /** Id of the parent agent. `null` for the root. */
  readonly parentAgentId: AgentId | null;
  /** Path of the agent in the tree, such as `lead/researcher#2`. */
  readonly agentPath: string;
  /** Depth of the agent. 0 for the root. */
  readonly depth: number;
  /** Id of the execution. `null` on events that concern the whole run. */
  readonly executionId: ExecutionId | null;
  /** Id of the step. `null` outside steps. */
  readonly stepId: StepId | null;
  /** Id of the tool call. `null` on events that belong to no tool call. */
  readonly callId: CallId | null;
  /**
   * Number of the model call, from 2, if `wrapModelCall` hooks made several in one step. Absent for
   * the first.
   */
  readonly modelCallNumber?: number;
}

/**
 * Trace ids of an event.
 *
 * @example
 * ```ts
 * for await (const { type, traceId, spanId } of run.events()) console.log(type, traceId, spanId);
 * ```
 */
export interface TraceIds {
  /** Id of the OpenTelemetry trace of the run: 32 hexadecimal digits. */
  readonly traceId: string;
  /** Id of the span that the event belongs to: 16 hexadecimal digits. */
  readonly spanId: string;
  /** Id of the caller's span. Set only on the event that begins a run below such a span. */
  readonly parentSpanId?: string;
  /** True if the trace is sampled. Set only on the event that begins a run, with OpenTelemetry. */
  readonly isSampled?: boolean;
}

/**
 * Union of all event types, such as `"step.completed"`.
 *
 * @example
 * ```ts
 * const ENDS: readonly EventType[] = ["run.ended", "run.paused"];
 * ```
 */
export type EventType = keyof EventBodies;

/**
 * Type and fields of an event, without its ids, number and time.
 *
 * @example
 * ```ts
 * function describe(body: EventBody<"tool.ended">): string {
 *   return `${body.toolName}: ${body.outcome} after ${body.durationMs} ms`;
 * }
 * ```
 */
export type EventBody<T extends EventType = EventType> = {
  [K in T]: { readonly type: K } & EventBodies[K];
}[T];

/**
 * Event of a run: its type and fields, its number and time, and its ids. Narrow it by `type`.
 *
 * @example
 * ```ts
 * function onEvent(event: EspalierEvent): void {
 *   switch (event.type) {
 *     case "tool.started": console.log(`${event.agentPath} calls ${event.toolName}`); break;
 *     case "run.ended": console.log(event.status, event.usage.total.costUsd); break;
 *   }
 * }
 * ```
 */
export type EspalierEvent<T extends EventType = EventType> = EventBody<T> &
  Pick<EventDraft, "seq" | "atMs"> &
  EventScope &
  TraceIds;

/**
 * Event without trace ids, as `Tracing.traceEvent` receives it.
 *
 * @example
 * ```ts
 * function describe({ seq, scope, body }: EventDraft): string {
 *   return `${seq} ${scope.agentPath} ${body.type}`;
 * }
 * ```
 */
export interface EventDraft {
  /** Sequence number in the run, from 1, without gaps. */
  readonly seq: number;
  /** Milliseconds since the epoch. Fractions are microseconds, if the clock provides them. */
  readonly atMs: number;
  /** Ids that locate the event in the agent tree. */
  readonly scope: EventScope;
  /** Type and fields of the event. */
  readonly body: EventBody;
  /**
   * Returns the content of a span that begins and ends with the event. Called only if the trace
   * records content.
   */
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

/** Schema of the fields that every event has. */
export const StampSchema = lazySchema(
  () =>
    z.strictObject(stamp()) satisfies z.ZodType<
      Pick<EventDraft, "seq" | "atMs"> & EventScope & TraceIds
    >,
);

/** Returns true for the name of an event. */
export function isEventType(value: unknown): value is EventType {
  return typeof value === "string" && Object.hasOwn(EVENT_SCHEMAS, value);
}

/** List of all event types. */
export const EVENT_TYPES: readonly EventType[] = Object.keys(EVENT_SCHEMAS).filter(isEventType);

const schemas = Object.fromEntries(
  Object.entries(EVENT_SCHEMAS).map(([type, body]) => [
    type,
    lazySchema(() => z.strictObject({ ...stamp(), type: z.literal(type), ...body() })),
  ]),
);

const TypedSchema = lazySchema(() => z.looseObject({ type: z.enum(EVENT_TYPES) }));

/**
 * Asserts that a stored or received value is an event of this version of the vocabulary.
 *
 * @throws EspalierError `invalid_argument` if the type is unknown, or a field is missing, unknown or
 * of the wrong type.
 *
 * @example
 * ```ts
 * const readAgentPath = (line: string): string => {
 *   const value: unknown = JSON.parse(line);
 *   assertEvent(value);
 *   return value.agentPath;
 * };
 * ```
 */
export function assertEvent(value: unknown): asserts value is EspalierEvent {
  const typed = TypedSchema().safeParse(value);
  if (!typed.success) {
    const isObject = typeof value === "object" && value !== null;
    const type: unknown = isObject ? Reflect.get(value, "type") : undefined;
    throw mismatch("event.type", "a type of event", type, OTHER_VERSION);
  }
  const { type } = typed.data;
  const [issue] = schemas[type]?.().safeParse(value).error?.issues ?? [];
  if (issue === undefined) return;
  const at = issue.path.length === 0 ? "" : ` at ${issue.path.join(".")}`;
  throw new EspalierError({
    code: "invalid_argument",
    message: `Expected an event of type ${type}, got another value${at}: ${completeSentence(issue.message)} ${OTHER_VERSION}`,
  });
}

const OTHER_VERSION = "Use the version of espalier that wrote the event.";

/** Returns true for a recovery of a run whose span had not ended. */
export function isSpanContinuation(body: EventBody): body is EventBody<"run.resumed"> {
  return body.type === "run.resumed" && body.recovery?.isSpanOpen === true;
}

/**
 * Receiver of all events of a run, such as a log, a metric or a live view.
 *
 * @example
 * ```ts
 * const sink: EventSink = { emit: (event) => console.log(JSON.stringify(event)) };
 * const logged = new Orchestrator({ sinks: [sink] });
 * ```
 */
export interface EventSink {
  /**
   * Receives each event once, in order, synchronously. It must not block.
   *
   * If it throws, the run continues and a process warning is emitted once.
   */
  emit(event: EspalierEvent): void;
}

/**
 * Returns the total usage of the given events.
 *
 * All events of a run add up to `result.usage.total`, and the events of one agent to its
 * `usage.own`. Open steps of a running run are not included.
 *
 * @example
 * ```ts
 * const events: EspalierEvent[] = [];
 * for await (const event of run.events()) events.push(event);
 * console.log(sumUsage(events).costUsd);
 * ```
 */
export function sumUsage(events: Iterable<EspalierEvent>): Usage {
  checkIterable("sumUsage events", events, "Pass the events of a run.");
  let sum = NO_USAGE;
  for (const event of events) {
    // All other events repeat a part of these events.
    const isCounted =
      event.type === "step.completed" ||
      event.type === "conversation.compacted" ||
      (event.type === "budget.settled" && event.lostCall !== undefined);
    if (isCounted && event.usage !== undefined) sum = addUsage(sum, event.usage);
  }
  return sum;
}
