// The schemas of bodies of events, one for each entry of `EventBodies`. For what was stored or received.

import { GrantedBudgetSchema } from "./account.ts";
import { ContextManifestSchema } from "./context-manifest.ts";
import { HashSchema } from "./definition.ts";
import { EVENT_SCHEMA_VERSION, WORK_TYPES, type EventBodies } from "./event-bodies.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  LeaseIdSchema,
  QuestionIdSchema,
  RunIdSchema,
  SessionIdSchema,
} from "./ids.ts";
import { JsonValueSchema } from "./json-value.ts";
import { lazyObject, lazySchema, z } from "./lazy-schema.ts";
import { ModelSettingsSchema, ToolChoiceSchema } from "./model-settings.ts";
import { AnswerTypeSchema, QuestionSchema } from "./question.ts";
import { StepTimingSchema } from "./step-timing.ts";
import {
  ErrorRecordSchema,
  StopReasonSchema,
  StopSignalSchema,
  TerminalStatusSchema,
} from "./stop.ts";
import { SpawnRefusalSchema, SubagentOutcomeSchema } from "./subagent.ts";
import { ToolErrorSeveritySchema } from "./tool-error-record.ts";
import { ToolOutcomeTypeSchema } from "./tool-outcome.ts";
import { ModelUsageSchema, UsageReportSchema, UsageSchema } from "./usage.ts";

const count = lazySchema(() => z.int().nonnegative());
const RemainingSchema = lazySchema(() => z.record(z.string(), z.number()).readonly());
const LimitsSchema = lazyObject(() => ({
  maxDepth: count(),
  maxBreadthPerParent: count(),
  maxTotalSubagents: count(),
}));
const ToolKindSchema = lazySchema(() => z.enum(["function", "delegation", "external", "finish"]));
const StopSignalsSchema = lazySchema(() => z.array(StopSignalSchema()).readonly());
const GuardDecisionSchema = lazySchema(() => z.enum(["allow", "ask", "deny"]));
const ServerSchema = lazyObject(() => ({ address: z.string(), port: count().optional() }));
const ForkOriginSchema = lazyObject(() => ({
  runId: RunIdSchema(),
  stepNumber: count(),
  traceId: z.string(),
  spanId: z.string().optional(),
  isSampled: z.boolean().optional(),
}));
const ModelNameSchema = lazyObject(() => ({ provider: z.string(), model: z.string() }));

// What several events have.
const runBeginning = lazySchema(() => ({
  schemaVersion: z.literal(EVENT_SCHEMA_VERSION),
  role: z.string(),
  task: z.string(),
  limits: LimitsSchema(),
  budget: RemainingSchema(),
  sessionId: SessionIdSchema().optional(),
  queuedMs: z.number().optional(),
}));
const agentBeginning = lazySchema(() => ({
  role: z.string(),
  purpose: z.string().optional(),
  provider: z.string(),
  model: z.string(),
  task: z.string(),
  spawnCallId: CallIdSchema().nullable(),
  budget: RemainingSchema(),
}));
const ending = lazySchema(() => ({
  status: TerminalStatusSchema(),
  reason: StopReasonSchema(),
  error: ErrorRecordSchema().optional(),
  signals: StopSignalsSchema(),
  usage: UsageReportSchema(),
  durationMs: z.number(),
}));
const retrial = lazySchema(() => ({
  attempt: z.int().positive(),
  error: ErrorRecordSchema(),
  delayMs: z.number(),
}));
const refusedSpawn = lazySchema(() => ({
  role: z.string(),
  isKnownRole: z.literal(true).exactOptional(),
  refusal: SpawnRefusalSchema(),
}));
const limit = lazySchema(() => ({
  axis: z.string(),
  accountPath: z.string(),
  maximum: z.number(),
  spent: z.number(),
}));
const calledTool = lazySchema(() => ({
  toolName: z.string(),
  kind: ToolKindSchema(),
  description: z.string(),
  index: z.int().positive().exactOptional(),
}));
const subagent = lazySchema(() => ({
  childId: AgentIdSchema(),
  childPath: z.string(),
  role: z.string(),
}));
const startedSubagent = lazySchema(() => ({
  ...subagent(),
  childDepth: z.int().positive(),
  task: z.string(),
  isBackground: z.boolean(),
}));

export const EVENT_SCHEMAS = {
  "run.started": lazySchema(() => ({
    ...runBeginning(),
    traceparent: z.string().optional(),
    forkedFrom: ForkOriginSchema().optional(),
  })),
  "run.ended": lazySchema(() => ({
    ...ending(),
    subagentsByDepth: z.record(z.string(), count()).readonly(),
    refusalsByCode: z.record(z.string(), count()).readonly(),
  })),
  "run.paused": lazySchema(() => ({
    reason: StopReasonSchema(),
    questions: z.array(QuestionSchema()).readonly(),
    usage: UsageReportSchema(),
    durationMs: z.number(),
  })),
  "run.resumed": lazySchema(() => ({
    ...runBeginning(),
    pauses: count(),
    pausedMs: z.number(),
    previousTraceId: z.string(),
    previousSpanId: z.string().optional(),
    wasSampled: z.boolean().optional(),
    answers: count(),
    traceparent: z.string().optional(),
    recovery: z.strictObject({ lostCalls: count(), isSpanOpen: z.boolean() }).optional(),
  })),
  "agent.started": lazySchema(() => agentBeginning()),
  "agent.paused": lazySchema(() => ({
    role: z.string(),
    reason: StopReasonSchema(),
    steps: count(),
    usage: UsageReportSchema(),
  })),
  "agent.resumed": lazySchema(() => agentBeginning()),
  "agent.ended": lazySchema(() => ({
    ...ending(),
    role: z.string(),
    steps: count(),
    text: z.string(),
  })),
  "step.started": lazySchema(() => ({
    number: z.int().positive(),
    promptHash: HashSchema(),
    toolsHash: HashSchema(),
  })),
  "step.completed": lazySchema(() => ({
    number: z.int().positive(),
    usage: UsageSchema(),
    timing: StepTimingSchema(),
    toolCalls: count(),
    error: ErrorRecordSchema().optional(),
  })),
  "model.requested": lazySchema(() => ({
    provider: z.string(),
    model: z.string(),
    server: ServerSchema().optional(),
    messageCount: count(),
    toolNames: z.array(z.string()).readonly(),
    estimatedInputTokens: count(),
    isEstimated: z.boolean(),
    maxOutputTokens: count(),
    temperature: z.number().optional(),
    settings: ModelSettingsSchema().readonly().optional(),
    toolChoice: ToolChoiceSchema().optional(),
    outputType: z.literal("json").optional(),
    apiType: z.enum(["chat_completions", "responses"]).optional(),
    serviceTier: z.string().optional(),
    streaming: z.boolean(),
    queuedMs: z.number().optional(),
    prefix: z
      .strictObject({
        isHeld: z.boolean(),
        messages: count(),
        changed: z.enum(["tools", "messages"]).optional(),
      })
      .optional(),
  })),
  "model.retried": lazySchema(() => ({
    ...retrial(),
    queuedMs: z.number().optional(),
    nextModel: ModelNameSchema().optional(),
  })),
  "model.warned": lazySchema(() => ({ warning: z.string() })),
  "model.replied": lazySchema(() => ({
    finishReason: z.string(),
    toolCalls: count(),
    usage: UsageSchema(),
    cacheWriteInputTokens: count().optional(),
    attempts: z.int().positive(),
    responseId: z.string().optional(),
    responseModel: z.string().optional(),
    serviceTier: z.string().optional(),
    answeredBy: ModelNameSchema()
      .extend({
        insteadOf: z.string(),
        server: ServerSchema().optional(),
      })
      .optional(),
    queuedMs: z.number(),
  })),
  "model.failed": lazySchema(() => ({
    error: ErrorRecordSchema(),
    isRetryable: z.boolean(),
    usage: UsageSchema(),
    attempts: z.int().positive(),
    queuedMs: z.number(),
  })),
  "tool.started": lazySchema(() => ({
    ...calledTool(),
    isMended: z.literal(true).exactOptional(),
  })),
  "tool.rejected": lazySchema(() => ({
    ...calledTool(),
    outcome: ToolOutcomeTypeSchema().exclude(["succeeded"]),
    errorCode: z.string(),
    severity: ToolErrorSeveritySchema(),
    blockedBy: z.string().exactOptional(),
    reason: z.string().exactOptional(),
    message: z.string().exactOptional(),
    spawn: z.strictObject(refusedSpawn()).exactOptional(),
    resultCharacters: count(),
    shownCharacters: count().exactOptional(),
  })),
  "tool.paused": lazySchema(() => ({ toolName: z.string() })),
  "tool.resumed": lazySchema(() => ({
    ...calledTool(),
    isMended: z.literal(true).exactOptional(),
  })),
  "tool.ended": lazySchema(() => ({
    toolName: z.string(),
    outcome: ToolOutcomeTypeSchema(),
    success: z.boolean(),
    errorCode: z.string().optional(),
    severity: ToolErrorSeveritySchema().optional(),
    errorName: z.string().optional(),
    message: z.string().optional(),
    resultCharacters: count(),
    shownCharacters: count().optional(),
    attachments: count().optional(),
    durationMs: z.number(),
    queuedMs: z.number(),
    usage: UsageSchema().optional(),
  })),
  "tool.guarded": lazySchema(() => ({
    toolName: z.string(),
    decision: GuardDecisionSchema(),
    answers: z
      .array(
        z.strictObject({
          guard: z.string(),
          answer: GuardDecisionSchema(),
          reason: z.string().optional(),
        }),
      )
      .readonly(),
  })),
  "tool.retried": lazySchema(() => ({ toolName: z.string(), ...retrial() })),
  "tool.progressed": lazySchema(() => ({
    toolName: z.string(),
    done: z.number().optional(),
    total: z.number().optional(),
    message: z.string().optional(),
  })),
  "result.summarized": lazySchema(() => ({
    toolName: z.string(),
    resultCharacters: count(),
    shownCharacters: count(),
    usage: UsageSchema(),
  })),
  "tools.filtered": lazySchema(() => ({
    removed: z.array(z.strictObject({ toolName: z.string(), filter: z.string() })).readonly(),
  })),
  "reply.filtered": lazySchema(() => ({ toolName: z.string(), characters: count() })),
  "question.asked": lazySchema(() => ({ question: QuestionSchema() })),
  "question.answered": lazySchema(() => ({
    questionId: QuestionIdSchema(),
    toolName: z.string(),
    answer: AnswerTypeSchema(),
    by: z.enum(["approver", "caller", "deadline", "nobody", "end"]),
    reason: z.string().optional(),
    arguments: JsonValueSchema().optional(),
    waitedMs: z.number(),
  })),
  "hook.applied": lazySchema(() => ({
    point: z.string(),
    changedBy: z
      .array(z.strictObject({ hook: z.string(), fields: z.array(z.string()).readonly() }))
      .readonly(),
    before: JsonValueSchema().optional(),
    after: JsonValueSchema().optional(),
  })),
  "request.repaired": lazySchema(() => ({
    repairs: count(),
    types: z.array(z.string()).readonly().optional(),
  })),
  "conversation.compacted": lazySchema(() => ({
    messagesBefore: count(),
    messagesAfter: count(),
    tokensBefore: count(),
    tokensAfter: count(),
    summaryCharacters: count().optional(),
    usage: UsageSchema().optional(),
  })),
  "section.cleared": lazySchema(() => ({ name: z.string(), count: count() })),
  "message.delivered": lazySchema(() => ({
    origin: z.enum(["steering", "subtask", "report"]),
    characters: count(),
    fromAgentId: AgentIdSchema().optional(),
  })),
  "subagent.spawned": lazySchema(() => ({
    ...startedSubagent(),
    context: ContextManifestSchema(),
    subagentsByDepth: z.record(z.string(), count()).readonly(),
  })),
  "subagent.continued": lazySchema(() => ({
    ...startedSubagent(),
    execution: z.int().min(2),
  })),
  "subagent.detached": lazySchema(() => subagent()),
  "subagent.refused": lazySchema(() => ({ ...refusedSpawn(), childDepth: z.int().positive() })),
  "subagent.ended": lazySchema(() => ({
    ...subagent(),
    childDepth: z.int().positive(),
    outcome: SubagentOutcomeSchema(),
    status: TerminalStatusSchema(),
    reason: StopReasonSchema(),
    usage: UsageReportSchema(),
  })),
  "budget.queued": lazySchema(() => ({ accountPath: z.string() })),
  "budget.dequeued": lazySchema(() => ({ outcome: z.enum(["granted", "refused", "cancelled"]) })),
  "budget.reserved": lazySchema(() => ({
    leaseId: LeaseIdSchema(),
    inputTokens: count(),
    maxOutputTokens: count(),
    waitedMs: z.number(),
  })),
  "budget.settled": lazySchema(() => ({
    leaseId: LeaseIdSchema(),
    usage: UsageSchema(),
    otherModels: z.array(ModelUsageSchema().readonly()).readonly().optional(),
    remaining: RemainingSchema(),
    runRemaining: RemainingSchema(),
    lostCall: ModelNameSchema().optional(),
  })),
  "budget.released": lazySchema(() => ({ leaseId: LeaseIdSchema() })),
  "budget.denied": lazySchema(() => ({
    ...limit(),
    asked: z.number(),
    kept: z.number().optional(),
  })),
  "budget.threshold_reached": lazySchema(() => ({ ...limit(), threshold: z.number() })),
  "budget.granted": lazySchema(() => ({
    accountPath: z.string(),
    budget: GrantedBudgetSchema(),
    by: z.string(),
    remaining: RemainingSchema(),
  })),
  "signal.raised": lazySchema(() => ({ signal: StopSignalSchema() })),
  "continuation.evaluated": lazySchema(() => ({
    decision: z.enum(["continue", "stop", "compact", "retry"]),
    work: z.array(z.enum(WORK_TYPES)).readonly(),
    vetoedBy: z.string().optional(),
    signals: z.array(StopSignalSchema()).readonly(),
    winner: StopReasonSchema().optional(),
  })),
} as const satisfies {
  // zod's brands show in `$ZodType` only.
  readonly [T in keyof EventBodies]: () => {
    readonly [Field in keyof EventBodies[T]]-?: z.core.$ZodType<EventBodies[T][Field]>;
  };
};
