// Everything that happens in a run, as facts in the past tense: typed, serialisable, numbered per run (E1).
// The event log is the truth; spans, terminal views and the ledger's history are projections of it.

import { z } from "zod";

import { GrantedBudgetSchema } from "./account.ts";
import { ContextManifestSchema } from "./context-manifest.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  ExecutionIdSchema,
  LeaseIdSchema,
  QuestionIdSchema,
  RunIdSchema,
  SessionIdSchema,
  StepIdSchema,
} from "./ids.ts";
import {
  ForkOriginSchema,
  LimitsSchema,
  LostCallSchema,
  RemainingSchema,
  ServerSchema,
  StopSignalsSchema,
  WorkTypeSchema,
} from "./event-parts.ts";
import { HashSchema } from "./definition.ts";
import { JsonValueSchema } from "./json-value.ts";
import { ModelSettingsSchema, ToolChoiceSchema } from "./model-settings.ts";
import { AnswerTypeSchema, QuestionSchema } from "./question.ts";
import {
  ErrorRecordSchema,
  StopReasonSchema,
  StopSignalSchema,
  TerminalStatusSchema,
} from "./stop.ts";
import { SpawnRefusalSchema, SubagentOutcomeSchema, UsageReportSchema } from "./subagent.ts";
import type { SpanContent } from "./span-content.ts";
import { StepTimingSchema } from "./step-timing.ts";
import { TOOL_EVENTS } from "./tool-events.ts";
import { UsageSchema } from "./usage.ts";

/** Version of the event vocabulary, on every `run.started`. */
export const EVENT_SCHEMA_VERSION = 1;

const count = z.int().nonnegative();

const EventScopeSchema = z.strictObject({
  runId: RunIdSchema,
  agentId: AgentIdSchema,
  /** Null for the root. */
  parentAgentId: AgentIdSchema.nullable(),
  /** Place in the tree: `lead/researcher#2`. */
  agentPath: z.string(),
  depth: count,
  /** Null on events of the run as a whole. */
  executionId: ExecutionIdSchema.nullable(),
  /** Null outside steps. */
  stepId: StepIdSchema.nullable(),
  /** Set on events of a tool call. */
  callId: CallIdSchema.nullable(),
  /** Set on events of a further call that hooks made of one model call, which may run beside it: from 2. */
  modelCallNumber: z.int().min(2).exactOptional(),
});
/** The ids that place an event in the tree (R176). */
export type EventScope = Readonly<z.infer<typeof EventScopeSchema>>;

const TraceIdsSchema = z.strictObject({
  /** 32 hexadecimal digits: the OpenTelemetry trace that shows the run. */
  traceId: z.string(),
  /** 16 hexadecimal digits: the span to which the event belongs. */
  spanId: z.string(),
  /** Only with the event that begins a run: the span of the caller below which it stands. */
  parentSpanId: z.string().exactOptional(),
  /** Only with the event that begins a run, where OpenTelemetry shows it: whether its trace is taken, or was left out by a sampler. */
  isSampled: z.boolean().exactOptional(),
});
/** Where an event is in a trace. */
export type TraceIds = Readonly<z.infer<typeof TraceIdsSchema>>;

const StampSchema = z.strictObject({
  /** From 1, without gaps, per run. */
  seq: z.int().positive(),
  /** Milliseconds since the epoch, with microseconds as fractions where the clock has them. */
  atMs: z.number(),
  ...EventScopeSchema.shape,
  ...TraceIdsSchema.shape,
});

const bodies = {
  "run.started": {
    schemaVersion: z.literal(EVENT_SCHEMA_VERSION),
    role: z.string(),
    task: z.string(),
    limits: LimitsSchema,
    /** What the run may spend; limited axes only. */
    budget: RemainingSchema,
    /** The session on which it runs. */
    sessionId: SessionIdSchema.optional(),
    /** The run and the step of its root from which this one was forked, and the trace and span of that run (X24). */
    forkedFrom: ForkOriginSchema.optional(),
  },
  "run.ended": {
    status: TerminalStatusSchema,
    reason: StopReasonSchema,
    /** Set when the run failed: the root's last error. */
    error: ErrorRecordSchema.optional(),
    /** All stop signals of the root, in order of arrival; `reason` is that of the highest. */
    signals: StopSignalsSchema,
    usage: UsageReportSchema,
    /** Subagents started at each depth, from "1". */
    subagentsByDepth: z.record(z.string(), count).readonly(),
    refusalsByCode: z.record(z.string(), count).readonly(),
    durationMs: z.number(),
  },
  "run.paused": {
    reason: StopReasonSchema,
    /** What must be answered before the run can continue, of the whole tree. */
    questions: z.array(QuestionSchema).readonly(),
    usage: UsageReportSchema,
    durationMs: z.number(),
  },
  "run.resumed": {
    schemaVersion: z.literal(EVENT_SCHEMA_VERSION),
    role: z.string(),
    task: z.string(),
    limits: LimitsSchema,
    /** What the run may still spend; limited axes only. */
    budget: RemainingSchema,
    /** How often the run has been paused. */
    pauses: count,
    pausedMs: z.number(),
    sessionId: SessionIdSchema.optional(),
    /** The trace of the run up to the pause, and the span of the run in it. */
    previousTraceId: z.string(),
    previousSpanId: z.string().optional(),
    /** Whether that trace was taken. */
    wasSampled: z.boolean().optional(),
    answers: count,
    /** Set if its process had died. `lostCalls`: model calls whose end is unknown; they are charged by estimate. */
    recovery: z.strictObject({ lostCalls: count }).optional(),
  },
  "agent.started": {
    role: z.string(),
    purpose: z.string().optional(),
    provider: z.string(),
    model: z.string(),
    task: z.string(),
    /** The call that spawned it, in its parent; null for the root and for subtasks. */
    spawnCallId: CallIdSchema.nullable(),
    /** What it may still spend: the tightest of its own budget and its ancestors'. Limited axes only. */
    budget: RemainingSchema,
  },
  "agent.paused": {
    role: z.string(),
    reason: StopReasonSchema,
    steps: count,
    usage: UsageReportSchema,
  },
  "agent.resumed": {
    role: z.string(),
    purpose: z.string().optional(),
    provider: z.string(),
    model: z.string(),
    task: z.string(),
    spawnCallId: CallIdSchema.nullable(),
    budget: RemainingSchema,
  },
  "agent.ended": {
    role: z.string(),
    status: TerminalStatusSchema,
    reason: StopReasonSchema,
    steps: count,
    text: z.string(),
    usage: UsageReportSchema,
    error: ErrorRecordSchema.optional(),
    /** All stop signals of the execution, in order of arrival; `reason` is that of the highest. */
    signals: StopSignalsSchema,
    durationMs: z.number(),
  },
  "step.started": {
    number: z.int().positive(),
    /** Of the instructions, and of the tool definitions, that the model is shown (C28). */
    promptHash: HashSchema,
    toolsHash: HashSchema,
  },
  "step.completed": {
    number: z.int().positive(),
    usage: UsageSchema,
    /** What its time went into. */
    timing: StepTimingSchema,
    toolCalls: count,
    /** Set when the step was cut off by an error. */
    error: ErrorRecordSchema.optional(),
  },
  "model.requested": {
    provider: z.string(),
    model: z.string(),
    /** Where the model is served, if that is known. */
    server: ServerSchema.optional(),
    messageCount: count,
    toolNames: z.array(z.string()).readonly(),
    /** How long the request is: what is leased for it. */
    estimatedInputTokens: count,
    /** True if that is an estimate, in part at least; false if the model counted it all itself (R101). */
    isEstimated: z.boolean(),
    maxOutputTokens: count,
    temperature: z.number().optional(),
    settings: ModelSettingsSchema.readonly().optional(),
    toolChoice: ToolChoiceSchema.optional(),
    streaming: z.boolean(),
    /**
     * How far it begins like the last request of the execution, which is what prompt caches of providers go by (X31). Absent: there was
     * none before it, in this process.
     */
    prefix: z
      .strictObject({
        /** It begins with all of the last one, less what stood at the end of that for its step alone. */
        isHeld: z.boolean(),
        /** So many messages at its beginning are the same; 0 if the tools are not. */
        messages: count,
        /** What is not the same, if it does not hold. Tools come before messages. */
        changed: z.enum(["tools", "messages"]).optional(),
      })
      .optional(),
  },
  "model.retried": { attempt: z.int().positive(), error: ErrorRecordSchema, delayMs: z.number() },
  /** What of a request the provider left out or changed, or could not read; each text comes once in a run. */
  "model.warned": { warning: z.string() },
  "model.replied": {
    finishReason: z.string(),
    /** In the provider's own word, where that is more exact. */
    rawFinishReason: z.string().optional(),
    toolCalls: count,
    usage: UsageSchema,
    /** Part of the input tokens: written to the cache of the provider, if it reports that. */
    cacheWriteInputTokens: count.optional(),
    attempts: z.int().positive(),
    responseId: z.string().optional(),
    responseModel: z.string().optional(),
    queuedMs: z.number(),
  },
  "model.failed": {
    /** `cancelled`: the agent had to end while the model answered; no failure. */
    error: ErrorRecordSchema,
    isRetryable: z.boolean(),
    usage: UsageSchema,
    attempts: z.int().positive(),
    queuedMs: z.number(),
  },
  ...TOOL_EVENTS,
  /** A result that was too long for the model was summarised; what that cost is in the usage of the step (R112). */
  "result.summarized": {
    toolName: z.string(),
    resultCharacters: count,
    shownCharacters: count,
    usage: UsageSchema,
  },
  /** Tools that the model is not offered in this step, and the filter that took each away. */
  "tools.filtered": {
    removed: z.array(z.strictObject({ toolName: z.string(), filter: z.string() })).readonly(),
  },
  /** The text of a reply was nothing but the arguments of one of its calls, and was dropped (R113). */
  "reply.filtered": { toolName: z.string(), characters: count },
  "question.asked": { question: QuestionSchema },
  "question.answered": {
    questionId: QuestionIdSchema,
    toolName: z.string(),
    answer: AnswerTypeSchema,
    /** Who decided: the approver, the caller that resumed the run, the deadline, `nobody` (there was no one to ask), or the end of the agent. */
    by: z.enum(["approver", "caller", "deadline", "nobody", "end"]),
    /** The words that came with it; for audit. */
    reason: z.string().optional(),
    /** The arguments with which the call runs, if an approval changed them. */
    arguments: JsonValueSchema.optional(),
    waitedMs: z.number(),
  },
  /** Hooks changed something on the way. */
  "hook.applied": {
    point: z.string(),
    changedBy: z
      .array(z.strictObject({ hook: z.string(), fields: z.array(z.string()).readonly() }))
      .readonly(),
    /** Arguments of a tool call, before and after (R79). */
    before: JsonValueSchema.optional(),
    after: JsonValueSchema.optional(),
  },
  /** A list of messages that hooks left invalid was mended before it went to the model. */
  "request.repaired": {
    repairs: count,
    /** What was done, each kind once: `dropped_result`, `added_result` and the like. */
    types: z.array(z.string()).readonly().optional(),
  },
  "conversation.compacted": {
    messagesBefore: count,
    messagesAfter: count,
    tokensBefore: count,
    tokensAfter: count,
    /** Length of the summary that stands for what was left out; absent if there is none (R100). */
    summaryCharacters: count.optional(),
    /** What the summary consumed, also if nothing came of it. In no step: it was made between two. */
    usage: UsageSchema.optional(),
  },
  /** The execution is over, and with it a section that was made for it (R95). */
  "section.cleared": {
    name: z.string(),
    /** Messages that it had in each request: 0 if it was empty. */
    count,
  },
  /** A message from outside was put into the history. */
  "message.delivered": {
    origin: z.enum(["steering", "subtask", "report"]),
    characters: count,
    /** The agent that wrote it, or whose result it is; absent: it came from outside the tree. */
    fromAgentId: AgentIdSchema.optional(),
  },
  "subagent.spawned": {
    childId: AgentIdSchema,
    childPath: z.string(),
    role: z.string(),
    childDepth: z.int().positive(),
    task: z.string(),
    /** It works beside its parent, which has a receipt for it. */
    isBackground: z.boolean(),
    /** What it received besides its instructions and its task. */
    context: ContextManifestSchema,
    subagentsByDepth: z.record(z.string(), count).readonly(),
  },
  /** A subagent that had ended continues with its history: a further execution, no further subagent (X10). */
  "subagent.continued": {
    childId: AgentIdSchema,
    childPath: z.string(),
    role: z.string(),
    childDepth: z.int().positive(),
    task: z.string(),
    isBackground: z.boolean(),
    /** Which execution of the subagent this is, from 2. */
    execution: z.int().min(2),
  },
  /** A subagent in the background was left to the run: it lives on after its parent (X9). */
  "subagent.detached": { childId: AgentIdSchema, childPath: z.string(), role: z.string() },
  /**
   * It has no id: no agent was started. `childDepth`: where it would have stood. `isKnownRole`: the run has a role of this name; without it
   * the name may be any text that a model wrote.
   */
  "subagent.refused": {
    role: z.string(),
    isKnownRole: z.literal(true).exactOptional(),
    childDepth: z.int().positive(),
    refusal: SpawnRefusalSchema,
  },
  "subagent.ended": {
    childId: AgentIdSchema,
    childPath: z.string(),
    role: z.string(),
    childDepth: z.int().positive(),
    outcome: SubagentOutcomeSchema,
    status: TerminalStatusSchema,
    reason: StopReasonSchema,
    usage: UsageReportSchema,
  },
  "budget.reserved": {
    leaseId: LeaseIdSchema,
    inputTokens: count,
    maxOutputTokens: count,
    waitedMs: z.number(),
  },
  "budget.settled": {
    leaseId: LeaseIdSchema,
    usage: UsageSchema,
    /** Left to this agent after the settlement. */
    remaining: RemainingSchema,
    /** Left to the whole run after the settlement. */
    runRemaining: RemainingSchema,
    /** Set if it was under way when its process died: its end is unknown. */
    lostCall: LostCallSchema.optional(),
  },
  /** A lease went back unused: the agent stopped before the call. */
  "budget.released": { leaseId: LeaseIdSchema },
  "budget.denied": {
    axis: z.string(),
    /** The ancestor whose limit refused. */
    accountPath: z.string(),
    maximum: z.number(),
    spent: z.number(),
    asked: z.number(),
    /** So much of the rest is kept by the ancestor for itself. */
    kept: z.number().optional(),
  },
  /** So much of a limit is spent: of the account of the agent that the event is about. Once for each threshold of each limit (X6). */
  "budget.threshold_reached": {
    axis: z.string(),
    accountPath: z.string(),
    /** A part of the limit: 0.8 or 0.95. */
    threshold: z.number(),
    spent: z.number(),
    maximum: z.number(),
  },
  /** Limits of an account were raised while the tree ran or stood (X7). */
  "budget.granted": {
    accountPath: z.string(),
    /** What was added. */
    budget: GrantedBudgetSchema,
    /** Who granted it, in the words of the caller. */
    by: z.string(),
    /** Left to the agent afterwards. */
    remaining: RemainingSchema,
  },
  "signal.raised": { signal: StopSignalSchema },
  "continuation.evaluated": {
    decision: z.enum(["continue", "stop", "compact", "retry"]),
    /** What asks for another step. */
    work: z.array(WorkTypeSchema).readonly(),
    /** The hook that made the agent continue although it had answered. */
    vetoedBy: z.string().optional(),
    /** All that were raised; `winner` is the highest of them. */
    signals: z.array(StopSignalSchema).readonly(),
    winner: StopReasonSchema.optional(),
  },
} as const;

type Bodies = typeof bodies;
/** The names of all events. */
export type EventType = keyof Bodies;

/** True for the name of an event. */
export function isEventType(value: unknown): value is EventType {
  return typeof value === "string" && Object.hasOwn(bodies, value);
}

/** The names of all events, at run time. */
export const EVENT_TYPES: readonly EventType[] = Object.keys(bodies).filter(isEventType);

/** The content of an event of type `T`, without its stamp. */
export type EventBody<T extends EventType = EventType> = {
  [K in T]: { readonly type: K } & Readonly<z.infer<z.ZodObject<Bodies[K], z.core.$strict>>>;
}[T];

/** One event of a run: what happened, when, where in the tree, and where in the trace. */
export type EspalierEvent<T extends EventType = EventType> = EventBody<T> &
  Readonly<z.infer<typeof StampSchema>>;

/** An event that has no trace ids yet: what a trace needs to place it. */
export interface EventDraft {
  readonly seq: number;
  readonly atMs: number;
  readonly scope: EventScope;
  readonly body: EventBody;
  /** Content of a span that begins and ends with the event. Made only where a trace shows it. */
  readonly contents?: () => readonly SpanContent[];
}

const schemas = Object.fromEntries(
  Object.entries(bodies).map(([type, body]) => [
    type,
    z.strictObject({ ...StampSchema.shape, type: z.literal(type), ...body }),
  ]),
);

const TypedSchema = z.looseObject({ type: z.enum(EVENT_TYPES) });

/** Checks that a value is an event of this schema version; for what was stored or received. Throws a `ZodError`. */
export function checkEvent(value: unknown): void {
  const { type } = TypedSchema.parse(value);
  schemas[type]?.parse(value);
}
