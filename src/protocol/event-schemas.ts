// Schemas of event bodies, one for each entry of `EventBodies`. Used for stored and received
// events.

import { BUDGET_AXES, BudgetAmountsSchema, GrantedBudgetSchema } from "./account.ts";
import { ContextManifestSchema } from "./context-manifest.ts";
import { HashSchema } from "./definition.ts";
import { EVENT_SCHEMA_VERSION, WORK_TYPES, type EventBodies } from "./event-bodies.ts";
import { FinishReasonSchema } from "./finish-reason.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  LeaseIdSchema,
  QuestionIdSchema,
  RunIdSchema,
  SessionIdSchema,
} from "./ids.ts";
import { JsonObjectSchema, JsonValueSchema } from "./json-value.ts";
import { lazySchema, z } from "./lazy-schema.ts";
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
import { ToolFailureSchema } from "./tool-error-record.ts";
import { ToolOutcomeTypeSchema } from "./tool-failure.ts";
import { ModelUsageSchema, UsageReportSchema, UsageSchema } from "./usage.ts";

const count = lazySchema(() => z.int().nonnegative());
const ordinal = lazySchema(() => z.int().positive());
const text = lazySchema(() => z.string());
const milliseconds = lazySchema(() => z.number());
const CountsSchema = lazySchema(() => z.record(text(), count()).readonly());
const ToolKindSchema = lazySchema(() => z.enum(["function", "delegation", "external", "finish"]));
const StopSignalsSchema = lazySchema(() => z.array(StopSignalSchema()).readonly());
const GuardDecisionSchema = lazySchema(() => z.enum(["allow", "ask", "deny"]));
const ServerSchema = lazySchema(() =>
  z.strictObject({ address: text(), port: count().optional() }),
);
const ModelNameSchema = lazySchema(() => z.strictObject({ provider: text(), model: text() }));

/** Returns one schema for several fields. */
function repeatSchema<Schema, Name extends string>(
  schema: Schema,
  ...names: readonly Name[]
): Readonly<Record<Name, Schema>>;
function repeatSchema(schema: unknown, ...names: readonly string[]): object {
  return Object.fromEntries(names.map((name) => [name, schema]));
}

// Fields that several events share.
const runBeginning = lazySchema(() => ({
  schemaVersion: z.literal(EVENT_SCHEMA_VERSION),
  ...repeatSchema(text(), "role", "task"),
  limits: z.strictObject(
    repeatSchema(count(), "maxDepth", "maxBreadthPerParent", "maxTotalSubagents"),
  ),
  budget: BudgetAmountsSchema(),
  sessionId: SessionIdSchema().optional(),
  queuedMs: milliseconds().optional(),
  traceparent: text().optional(),
}));
const agentBeginning = lazySchema(() => ({
  ...repeatSchema(text(), "role", "provider", "model", "task"),
  description: text().optional(),
  spawnCallId: CallIdSchema().nullable(),
  budget: BudgetAmountsSchema(),
}));
const ending = lazySchema(() => ({
  status: TerminalStatusSchema(),
  reason: StopReasonSchema(),
  error: ErrorRecordSchema().optional(),
  signals: StopSignalsSchema(),
  usage: UsageReportSchema(),
  durationMs: milliseconds(),
}));
const retrial = lazySchema(() => ({
  attempt: ordinal(),
  error: ErrorRecordSchema(),
  delayMs: milliseconds(),
}));
const refusedSpawn = lazySchema(() => ({
  role: text(),
  isKnownRole: z.literal(true).exactOptional(),
  error: SpawnRefusalSchema(),
}));
const limit = lazySchema(() => ({
  axis: z.enum(BUDGET_AXES),
  accountPath: text(),
  ...repeatSchema(z.number(), "maximum", "spent"),
}));
const calledTool = lazySchema(() => ({
  ...repeatSchema(text(), "toolName", "description"),
  kind: ToolKindSchema(),
  index: count(),
}));
const startedTool = lazySchema(() => ({
  ...calledTool(),
  isRepaired: z.literal(true).exactOptional(),
}));
const subagent = lazySchema(() => ({
  childId: AgentIdSchema(),
  ...repeatSchema(text(), "childPath", "role"),
}));
const startedSubagent = lazySchema(() => ({
  ...subagent(),
  childDepth: ordinal(),
  task: text(),
  isBackground: z.boolean(),
}));

export const EVENT_SCHEMAS = {
  "run.started": () => ({
    ...runBeginning(),
    forkedFrom: z
      .strictObject({
        runId: RunIdSchema(),
        stepNumber: count(),
        traceId: text(),
        spanId: text().optional(),
        isSampled: z.boolean().optional(),
      })
      .optional(),
  }),
  "run.ended": () => ({
    ...ending(),
    ...repeatSchema(CountsSchema(), "subagentsByDepth", "refusalsByCode"),
  }),
  "run.paused": () => ({
    reason: StopReasonSchema(),
    questions: z.array(QuestionSchema()).readonly(),
    usage: UsageReportSchema(),
    durationMs: milliseconds(),
  }),
  "run.resumed": () => ({
    ...runBeginning(),
    ...repeatSchema(count(), "pauseCount", "answerCount"),
    pausedMs: milliseconds(),
    previousTraceId: text(),
    previousSpanId: text().optional(),
    wasSampled: z.boolean().optional(),
    recovery: z.strictObject({ lostCallCount: count(), isSpanOpen: z.boolean() }).optional(),
  }),
  "agent.started": agentBeginning,
  "agent.paused": () => ({
    role: text(),
    reason: StopReasonSchema(),
    stepCount: count(),
    usage: UsageReportSchema(),
  }),
  "agent.resumed": agentBeginning,
  "agent.ended": () => ({
    ...ending(),
    ...repeatSchema(text(), "role", "text"),
    stepCount: count(),
  }),
  "step.started": () => ({
    number: ordinal(),
    ...repeatSchema(HashSchema(), "promptHash", "toolsHash"),
  }),
  "step.completed": () => ({
    number: ordinal(),
    usage: UsageSchema(),
    timing: StepTimingSchema(),
    toolCallCount: count(),
    error: ErrorRecordSchema().optional(),
  }),
  "model.requested": () => ({
    ...repeatSchema(text(), "provider", "model"),
    server: ServerSchema().optional(),
    ...repeatSchema(count(), "messageCount", "estimatedInputTokens", "maxOutputTokens"),
    ...repeatSchema(z.boolean(), "isEstimated", "streaming"),
    toolNames: z.array(text()).readonly(),
    ...repeatSchema(z.number().optional(), "temperature", "queuedMs"),
    settings: ModelSettingsSchema().readonly().optional(),
    toolChoice: ToolChoiceSchema().optional(),
    outputType: z.literal("json").optional(),
    apiType: z.enum(["chat_completions", "responses"]).optional(),
    serviceTier: text().optional(),
    prefix: z
      .strictObject({
        isUnchanged: z.boolean(),
        messageCount: count(),
        changed: z.enum(["tools", "messages"]).optional(),
      })
      .optional(),
  }),
  "model.retried": () => ({
    ...retrial(),
    queuedMs: milliseconds().optional(),
    nextModel: ModelNameSchema().optional(),
  }),
  "model.warned": () => ({ warning: text() }),
  "model.replied": () => ({
    finishReason: FinishReasonSchema(),
    toolCallCount: count(),
    usage: UsageSchema(),
    cacheWriteInputTokens: count().optional(),
    attemptCount: ordinal(),
    ...repeatSchema(text().optional(), "responseId", "responseModel", "serviceTier"),
    repliedBy: ModelNameSchema()
      .extend({
        insteadOf: text(),
        server: ServerSchema().optional(),
      })
      .optional(),
    queuedMs: milliseconds(),
  }),
  "model.failed": () => ({
    error: ErrorRecordSchema(),
    isRetryable: z.boolean(),
    usage: UsageSchema(),
    attemptCount: ordinal(),
    queuedMs: milliseconds(),
  }),
  "tool.started": startedTool,
  "tool.rejected": () => ({
    ...calledTool(),
    outcome: ToolOutcomeTypeSchema().exclude(["succeeded"]),
    error: ToolFailureSchema(),
    ...repeatSchema(text().exactOptional(), "blockedBy", "reason"),
    spawn: z.strictObject(refusedSpawn()).exactOptional(),
    resultCharacters: count(),
    shownCharacters: count().exactOptional(),
  }),
  "tool.paused": () => ({ toolName: text() }),
  "tool.resumed": startedTool,
  "tool.ended": () => ({
    toolName: text(),
    outcome: ToolOutcomeTypeSchema(),
    success: z.boolean(),
    error: ToolFailureSchema().optional(),
    resultCharacters: count(),
    ...repeatSchema(count().optional(), "shownCharacters", "attachmentCount"),
    ...repeatSchema(milliseconds(), "durationMs", "queuedMs"),
    usage: UsageSchema().optional(),
  }),
  "tool.guarded": () => ({
    toolName: text(),
    decision: GuardDecisionSchema(),
    answers: z
      .array(
        z.strictObject({ guard: text(), answer: GuardDecisionSchema(), reason: text().optional() }),
      )
      .readonly(),
  }),
  "tool.retried": () => ({ toolName: text(), ...retrial() }),
  "tool.progressed": () => ({
    toolName: text(),
    ...repeatSchema(z.number().optional(), "done", "total"),
    message: text().optional(),
  }),
  "result.summarized": () => ({
    toolName: text(),
    ...repeatSchema(count(), "resultCharacters", "shownCharacters"),
    usage: UsageSchema(),
  }),
  "tools.filtered": () => ({
    removed: z.array(z.strictObject({ toolName: text(), filter: text() })).readonly(),
  }),
  "reply.filtered": () => ({ toolName: text(), characters: count() }),
  "question.asked": () =>
    QuestionSchema().omit({ agentId: true, agentPath: true, callId: true }).shape,
  "question.answered": () => ({
    questionId: QuestionIdSchema(),
    toolName: text(),
    answer: AnswerTypeSchema(),
    source: z.enum(["approver", "caller", "deadline", "nobody", "end"]),
    ...repeatSchema(text().optional(), "by", "reason"),
    arguments: JsonObjectSchema().optional(),
    waitedMs: milliseconds(),
  }),
  "hook.applied": () => ({
    point: text(),
    changedBy: z
      .array(z.strictObject({ hook: text(), fields: z.array(text()).readonly() }))
      .readonly(),
    ...repeatSchema(JsonValueSchema().optional(), "before", "after"),
  }),
  "request.repaired": () => ({
    repairCount: count(),
    types: z.array(text()).readonly().optional(),
  }),
  "conversation.compacted": () => ({
    ...repeatSchema(count(), "messagesBefore", "messagesAfter", "tokensBefore", "tokensAfter"),
    summaryCharacters: count().optional(),
    usage: UsageSchema().optional(),
  }),
  "section.cleared": () => ({ name: text(), count: count() }),
  "message.delivered": () => ({
    origin: z.enum(["steering", "subtask", "report"]),
    characters: count(),
    fromAgentId: AgentIdSchema().optional(),
  }),
  "subagent.spawned": () => ({
    ...startedSubagent(),
    inherited: ContextManifestSchema(),
    subagentsByDepth: CountsSchema(),
  }),
  "subagent.continued": () => ({ ...startedSubagent(), execution: z.int().min(2) }),
  "subagent.detached": subagent,
  "subagent.refused": () => ({ ...refusedSpawn(), childDepth: ordinal() }),
  "subagent.ended": () => ({
    ...subagent(),
    childDepth: ordinal(),
    outcome: SubagentOutcomeSchema(),
    status: TerminalStatusSchema(),
    reason: StopReasonSchema(),
    usage: UsageReportSchema(),
  }),
  "budget.queued": () => ({ accountPath: text() }),
  "budget.dequeued": () => ({ outcome: z.enum(["granted", "refused", "cancelled"]) }),
  "budget.reserved": () => ({
    leaseId: LeaseIdSchema(),
    ...repeatSchema(count(), "inputTokens", "maxOutputTokens"),
    waitedMs: milliseconds(),
  }),
  "budget.settled": () => ({
    leaseId: LeaseIdSchema(),
    usage: UsageSchema(),
    otherModels: z.array(ModelUsageSchema().readonly()).readonly().optional(),
    ...repeatSchema(BudgetAmountsSchema(), "remaining", "runRemaining"),
    lostCall: ModelNameSchema().optional(),
  }),
  "budget.released": () => ({ leaseId: LeaseIdSchema() }),
  "budget.refused": () => ({ ...limit(), requested: z.number(), reserve: z.number().optional() }),
  "budget.threshold_reached": () => ({ ...limit(), threshold: z.number() }),
  "budget.granted": () => ({
    ...repeatSchema(text(), "accountPath", "by"),
    budget: GrantedBudgetSchema(),
    remaining: BudgetAmountsSchema(),
  }),
  "signal.raised": () => ({ signal: StopSignalSchema() }),
  "continuation.evaluated": () => ({
    decision: z.enum(["continue", "stop", "compact", "retry"]),
    work: z.array(z.enum(WORK_TYPES)).readonly(),
    vetoedBy: text().optional(),
    signals: StopSignalsSchema(),
    reason: StopReasonSchema().optional(),
  }),
} as const satisfies {
  // The brands of zod are visible in `$ZodType` only.
  readonly [T in keyof EventBodies]: () => {
    readonly [Field in keyof EventBodies[T]]-?: z.core.$ZodType<EventBodies[T][Field]>;
  };
};
