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
import { lazySchema, repeatSchema, z } from "./lazy-schema.ts";
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
const CountsSchema = lazySchema(() => z.record(text(), count()).readonly());
const GuardDecisionSchema = lazySchema(() => z.enum(["allow", "ask", "deny"]));
const ModelNameSchema = lazySchema(() => z.strictObject({ provider: text(), model: text() }));

/** Schemas of fields by name. A field has the same schema in each event that picks it. */
const FIELDS = lazySchema(() => ({
  ...repeatSchema(text(), "role", "task", "description", "text", "provider", "model", "toolName"),
  ...repeatSchema(text(), "serviceTier", "responseId", "responseModel", "message", "warning"),
  ...repeatSchema(text(), "accountPath", "childPath", "traceparent", "by", "name", "point"),
  ...repeatSchema(text(), "previousTraceId", "previousSpanId", "traceId", "spanId", "vetoedBy"),
  ...repeatSchema(count(), "stepCount", "toolCallCount", "messageCount", "repairCount", "count"),
  ...repeatSchema(count(), "pauseCount", "answerCount", "attachmentCount", "stepNumber", "index"),
  ...repeatSchema(count(), "inputTokens", "estimatedInputTokens", "cacheWriteInputTokens"),
  ...repeatSchema(count(), "maxOutputTokens", "resultCharacters", "shownCharacters", "characters"),
  ...repeatSchema(count(), "messagesBefore", "messagesAfter", "tokensBefore", "tokensAfter"),
  ...repeatSchema(count(), "summaryCharacters"),
  ...repeatSchema(ordinal(), "number", "attempt", "attemptCount", "childDepth"),
  ...repeatSchema(z.number(), "durationMs", "queuedMs", "delayMs", "waitedMs", "pausedMs"),
  ...repeatSchema(z.number(), "maximum", "spent", "requested", "reserve", "threshold"),
  ...repeatSchema(z.number(), "temperature", "done", "total"),
  ...repeatSchema(z.boolean(), "isSampled", "wasSampled", "isEstimated", "streaming", "success"),
  ...repeatSchema(z.boolean(), "isRetryable", "isBackground"),
  ...repeatSchema(z.literal(true).exactOptional(), "isRepaired", "isKnownRole"),
  ...repeatSchema(HashSchema(), "promptHash", "toolsHash"),
  ...repeatSchema(CountsSchema(), "subagentsByDepth", "refusalsByCode"),
  ...repeatSchema(BudgetAmountsSchema(), "budget", "remaining", "runRemaining"),
  ...repeatSchema(JsonValueSchema(), "before", "after"),
  ...repeatSchema(AgentIdSchema(), "childId", "fromAgentId"),
  schemaVersion: z.literal(EVENT_SCHEMA_VERSION),
  limits: z.strictObject(
    repeatSchema(count(), "maxDepth", "maxBreadthPerParent", "maxTotalSubagents"),
  ),
  sessionId: SessionIdSchema(),
  runId: RunIdSchema(),
  leaseId: LeaseIdSchema(),
  questionId: QuestionIdSchema(),
  spawnCallId: CallIdSchema().nullable(),
  status: TerminalStatusSchema(),
  reason: StopReasonSchema(),
  error: ErrorRecordSchema(),
  signal: StopSignalSchema(),
  signals: z.array(StopSignalSchema()).readonly(),
  usage: UsageSchema(),
  timing: StepTimingSchema(),
  axis: z.enum(BUDGET_AXES),
  kind: z.enum(["function", "delegation", "external", "finish"]),
  outcome: ToolOutcomeTypeSchema(),
  finishReason: FinishReasonSchema(),
  settings: ModelSettingsSchema().readonly(),
  toolChoice: ToolChoiceSchema(),
  toolNames: z.array(text()).readonly(),
  types: z.array(text()).readonly(),
  server: z.strictObject({ address: text(), port: count().optional() }),
  nextModel: ModelNameSchema(),
  lostCall: ModelNameSchema(),
  otherModels: z.array(ModelUsageSchema().readonly()).readonly(),
  inherited: ContextManifestSchema(),
}));
type Fields = ReturnType<typeof FIELDS>;

/** Returns the schemas of fields. */
function pick<Name extends keyof Fields>(...names: readonly Name[]): Pick<Fields, Name>;
function pick(...names: readonly (keyof Fields)[]): object {
  return Object.fromEntries(names.map((name) => [name, FIELDS()[name]]));
}

/** Returns the schemas of fields that may be absent. */
function pickOptional<Name extends keyof Fields>(
  ...names: readonly Name[]
): { readonly [Field in Name]: z.ZodOptional<Fields[Field]> };
function pickOptional(...names: readonly (keyof Fields)[]): object {
  return Object.fromEntries(names.map((name) => [name, FIELDS()[name].optional()]));
}

// Fields that several events share.
const pickRunBeginning = () => ({
  ...pick("schemaVersion", "role", "task", "limits", "budget"),
  ...pickOptional("sessionId", "queuedMs", "traceparent"),
});
const pickAgentBeginning = () => ({
  ...pick("role", "provider", "model", "task", "spawnCallId", "budget"),
  ...pickOptional("description"),
});
const pickEnding = () => ({
  ...pick("status", "reason", "signals", "durationMs"),
  ...pickOptional("error"),
  usage: UsageReportSchema(),
});
const pickRefusedSpawn = () => ({ ...pick("role", "isKnownRole"), error: SpawnRefusalSchema() });
const pickStartedTool = () => pick("toolName", "description", "kind", "index", "isRepaired");
const pickStartedSubagent = () =>
  pick("childId", "childPath", "role", "childDepth", "task", "isBackground");

export const EVENT_SCHEMAS = {
  "run.started": () => ({
    ...pickRunBeginning(),
    forkedFrom: z
      .strictObject({
        ...pick("runId", "stepNumber", "traceId"),
        ...pickOptional("spanId", "isSampled"),
      })
      .optional(),
  }),
  "run.ended": () => ({ ...pickEnding(), ...pick("subagentsByDepth", "refusalsByCode") }),
  "run.paused": () => ({
    ...pick("reason", "durationMs"),
    questions: z.array(QuestionSchema()).readonly(),
    usage: UsageReportSchema(),
  }),
  "run.resumed": () => ({
    ...pickRunBeginning(),
    ...pick("pauseCount", "answerCount", "pausedMs", "previousTraceId"),
    ...pickOptional("previousSpanId", "wasSampled"),
    recovery: z.strictObject({ lostCallCount: count(), isSpanOpen: z.boolean() }).optional(),
  }),
  "agent.started": pickAgentBeginning,
  "agent.paused": () => ({ ...pick("role", "reason", "stepCount"), usage: UsageReportSchema() }),
  "agent.resumed": pickAgentBeginning,
  "agent.ended": () => ({ ...pickEnding(), ...pick("role", "text", "stepCount") }),
  "step.started": () => pick("number", "promptHash", "toolsHash"),
  "step.completed": () => ({
    ...pick("number", "usage", "timing", "toolCallCount"),
    ...pickOptional("error"),
  }),
  "model.requested": () => ({
    ...pick("provider", "model", "messageCount", "estimatedInputTokens", "maxOutputTokens"),
    ...pick("isEstimated", "streaming", "toolNames"),
    ...pickOptional("server", "temperature", "queuedMs", "settings", "toolChoice", "serviceTier"),
    outputType: z.literal("json").optional(),
    apiType: z.enum(["chat_completions", "responses"]).optional(),
    prefix: z
      .strictObject({
        isUnchanged: z.boolean(),
        messageCount: count(),
        changed: z.enum(["tools", "messages"]).optional(),
      })
      .optional(),
  }),
  "model.retried": () => ({
    ...pick("attempt", "error", "delayMs"),
    ...pickOptional("queuedMs", "nextModel"),
  }),
  "model.warned": () => pick("warning"),
  "model.replied": () => ({
    ...pick("finishReason", "toolCallCount", "usage", "attemptCount", "queuedMs"),
    ...pickOptional("cacheWriteInputTokens", "responseId", "responseModel", "serviceTier"),
    repliedBy: ModelNameSchema()
      .extend({ insteadOf: text(), ...pickOptional("server") })
      .optional(),
  }),
  "model.failed": () => pick("error", "isRetryable", "usage", "attemptCount", "queuedMs"),
  "tool.started": pickStartedTool,
  "tool.rejected": () => ({
    ...pick("toolName", "description", "kind", "index", "resultCharacters"),
    outcome: ToolOutcomeTypeSchema().exclude(["succeeded"]),
    error: ToolFailureSchema(),
    ...repeatSchema(text().exactOptional(), "blockedBy", "reason"),
    spawn: z.strictObject(pickRefusedSpawn()).exactOptional(),
    shownCharacters: count().exactOptional(),
  }),
  "tool.paused": () => pick("toolName"),
  "tool.resumed": pickStartedTool,
  "tool.ended": () => ({
    ...pick("toolName", "outcome", "success", "resultCharacters", "durationMs", "queuedMs"),
    ...pickOptional("shownCharacters", "attachmentCount", "usage"),
    error: ToolFailureSchema().optional(),
  }),
  "tool.guarded": () => ({
    ...pick("toolName"),
    decision: GuardDecisionSchema(),
    answers: z
      .array(
        z.strictObject({ guard: text(), answer: GuardDecisionSchema(), reason: text().optional() }),
      )
      .readonly(),
  }),
  "tool.retried": () => pick("toolName", "attempt", "error", "delayMs"),
  "tool.progressed": () => ({ ...pick("toolName"), ...pickOptional("done", "total", "message") }),
  "result.summarized": () => pick("toolName", "resultCharacters", "shownCharacters", "usage"),
  "tools.filtered": () => ({
    removed: z.array(z.strictObject({ toolName: text(), filter: text() })).readonly(),
  }),
  "reply.filtered": () => pick("toolName", "characters"),
  "question.asked": () =>
    QuestionSchema().omit({ agentId: true, agentPath: true, callId: true }).shape,
  "question.answered": () => ({
    ...pick("questionId", "toolName", "waitedMs"),
    ...pickOptional("by"),
    answer: AnswerTypeSchema(),
    source: z.enum(["approver", "caller", "deadline", "nobody", "end"]),
    reason: text().optional(),
    arguments: JsonObjectSchema().optional(),
  }),
  "hook.applied": () => ({
    ...pick("point"),
    ...pickOptional("before", "after"),
    changedBy: z
      .array(z.strictObject({ hook: text(), fields: z.array(text()).readonly() }))
      .readonly(),
  }),
  "request.repaired": () => ({ ...pick("repairCount"), ...pickOptional("types") }),
  "conversation.compacted": () => ({
    ...pick("messagesBefore", "messagesAfter", "tokensBefore", "tokensAfter"),
    ...pickOptional("summaryCharacters", "usage"),
  }),
  "section.cleared": () => pick("name", "count"),
  "message.delivered": () => ({
    ...pick("characters"),
    ...pickOptional("fromAgentId"),
    origin: z.enum(["steering", "subtask", "report"]),
  }),
  "subagent.spawned": () => ({
    ...pickStartedSubagent(),
    ...pick("inherited", "subagentsByDepth"),
  }),
  "subagent.continued": () => ({ ...pickStartedSubagent(), execution: z.int().min(2) }),
  "subagent.detached": () => pick("childId", "childPath", "role"),
  "subagent.refused": () => ({ ...pickRefusedSpawn(), ...pick("childDepth") }),
  "subagent.ended": () => ({
    ...pick("childId", "childPath", "role", "childDepth", "status", "reason"),
    outcome: SubagentOutcomeSchema(),
    usage: UsageReportSchema(),
  }),
  "budget.queued": () => pick("accountPath"),
  "budget.dequeued": () => ({ outcome: z.enum(["granted", "refused", "cancelled"]) }),
  "budget.reserved": () => pick("leaseId", "inputTokens", "maxOutputTokens", "waitedMs"),
  "budget.settled": () => ({
    ...pick("leaseId", "usage", "remaining", "runRemaining"),
    ...pickOptional("otherModels", "lostCall"),
  }),
  "budget.released": () => pick("leaseId"),
  "budget.refused": () => ({
    ...pick("axis", "accountPath", "maximum", "spent", "requested"),
    ...pickOptional("reserve"),
  }),
  "budget.threshold_reached": () => pick("axis", "accountPath", "maximum", "spent", "threshold"),
  "budget.granted": () => ({
    ...pick("accountPath", "by", "remaining"),
    budget: GrantedBudgetSchema(),
  }),
  "signal.raised": () => pick("signal"),
  "continuation.evaluated": () => ({
    ...pick("signals"),
    ...pickOptional("vetoedBy", "reason"),
    decision: z.enum(["continue", "stop", "compact", "retry"]),
    work: z.array(z.enum(WORK_TYPES)).readonly(),
  }),
} as const satisfies {
  // The brands of zod are visible in `$ZodType` only.
  readonly [T in keyof EventBodies]: () => {
    readonly [Field in keyof EventBodies[T]]-?: z.core.$ZodType<EventBodies[T][Field]>;
  };
};
