// Entry `espalier/extend`: the ports, for authors of a model, a store, a tracing, a sink, a clock or a wrapper of tools, with what helps
// them; and the parts of what `espalier` exports that are seldom written down.

// Models
export type {
  CacheKey,
  GenerateOptions,
  Model,
  ModelReply,
  ModelRequest,
  ModelServer,
  OutputSchema,
  ToolSpec,
} from "./model/model.ts";
export { FINISH_REASONS, type FinishReason } from "./protocol/finish-reason.ts";
export type { ReportedInput, TokenUsage } from "./model/token-usage.ts";
export { replyMessage, replyPieces, type ReplyPiece } from "./protocol/reply-message.ts";
export { strictSchema, withoutAddedNulls, type StrictSchema } from "./model/strict-schema.ts";
export { textOnly } from "./model/written-by.ts";
export { contentParts, type ContentMessage } from "./model/written-by.ts";
export { toCallId } from "./model/call-id.ts";
export { toRunId } from "./orchestrator/run/start-options.ts";
export { ModelError, type ModelErrorOptions } from "./model/model-error.ts";
export type { ModelLimitsOptions } from "./model/model-limits.ts";
export type { FallbackOptions } from "./model/fallback.ts";
export type { KnownPrice } from "./model/prices.ts";
export type { ModelRates, PriceTier } from "./model/model-price.ts";
export type { PricedModel, Prices } from "./model/prices.ts";
export type { OpenAiAnswerOptions } from "./model/openai/answer-options.ts";
export type { OpenAiApi } from "./model/openai/answer-options.ts";
export type { ReasoningField } from "./model/openai/answer-options.ts";
export type { MaxTokensField } from "./model/openai/to-openai.ts";
export {
  MESSAGE_ORIGINS,
  type AssistantMessage,
  type MessageNote,
  type MessageOrigin,
  type MessageTag,
  type ProviderData,
  type ReplyPart,
  type SystemMessage,
  type ToolCall,
  type ToolMessage,
  type UserMessage,
  type OfferedTool,
  type SpanContent,
} from "./protocol/message.ts";

// Stores
export type { Store } from "./store/store.ts";
export type {
  ClaimOptions,
  JournalBatch,
  Ownership,
  Post,
  RunOwner,
  RunStore,
  StoredRun,
  RunFilter,
  StoredStatus,
} from "./store/run-store.ts";
export type { SessionStore, StoredSession } from "./store/session-store.ts";
export type { StoreFailure } from "./store/store-errors.ts";
export type { MemoryStoreOptions } from "./store/memory-store.ts";

// Tracing, sinks, clocks and ids
export type { FurtherTrace, LostSpan, Tracing } from "./protocol/tracing.ts";
export type {
  EventMoment,
  SpanClosing,
  SpanMoment,
  SpanNote,
  SpanOpening,
} from "./protocol/span-tree.ts";
export type { EventBody, EventDraft, EventScope, TraceIds } from "./protocol/event.ts";
export type { Clock } from "./kernel/clock.ts";
export type { IdSource } from "./kernel/id-source.ts";
export type {
  CallId,
  ExecutionId,
  LeaseId,
  MessageId,
  QuestionId,
  SessionId,
  StepId,
} from "./protocol/ids.ts";
export type { BudgetEventBodies } from "./protocol/budget-event-bodies.ts";
export { WORK_TYPES, type EventBodies, type WorkType } from "./protocol/event-bodies.ts";
export { SPEND_AXES, type SpendAxis } from "./protocol/account.ts";

// Tools: what wraps them, and what they get
export type { ToolBasics } from "./tools/define-tool.ts";
export type {
  Bound,
  ExternalTool,
  FinishTool,
  FunctionUse,
  ToolDescriptor,
  ToolReturn,
} from "./tools/tool.ts";
export type { ToolsetTool } from "./tools/toolsets.ts";
export type { ArgumentProblem } from "./tools/arguments/argument-problems.ts";
export type { ToolRetryNote, ToolRuntime } from "./tools/tool-context.ts";
export type {
  AskOutcome,
  AskRequest,
  ContinueRequest,
  SubagentRequest,
  DelegationAnswer,
  SubagentInfo,
  SubagentService,
  ToolProgress,
  WaitRequest,
} from "./tools/tool-context.ts";
export type { LongResults, ToolSettings } from "./tools/tool-settings.ts";
export type { ToolErrorOptions } from "./tools/tool-error.ts";
export type { ToolResultOptions } from "./tools/tool-result.ts";
export type { ApprovalOptions } from "./tools/wrappers/with-approval.ts";
export type { RateLimitOptions } from "./tools/wrappers/rate-limit.ts";
export type { RetriesOptions } from "./tools/wrappers/with-retries.ts";
export type { TimeoutOptions } from "./tools/wrappers/with-timeout.ts";
export type { ToolScope, ToolScopeOptions } from "./tools/tool-scope.ts";
export type { GuardCheck } from "./tools/tool-guard.ts";
export type { FilterCheck } from "./tools/tool-filter.ts";

// Parts of records and options
export type { AttachmentKind } from "./protocol/attachment.ts";
export type { MessageContent } from "./protocol/message-content.ts";
export type { Account, AccountGrant } from "./protocol/account.ts";
export type {
  AgentError,
  CompletedRunResult,
  IncompleteRunResult,
  PausedRunResult,
  RunResultBase,
  RunUsage,
} from "./orchestrator/run/run-result.ts";
export type { AnswerType, QuestionKind, QuestionRef } from "./protocol/question.ts";
export type { ParentEndPolicy, FailurePolicy } from "./policies/delegation-policy.ts";
export type { BudgetAxis } from "./policies/budget.ts";
export type { CompactionStrategy } from "./agent/compaction.ts";
export type { Concurrency } from "./run-services/limiter.ts";
export type { ContextManifest, Tightening } from "./protocol/context-manifest.ts";
export { textHash, type Definitions } from "./protocol/definition.ts";
export type { SteerReceipt } from "./agent/mailbox.ts";
export type { EspalierErrorOptions, ModelErrorCode } from "./kernel/error.ts";
export type { EventsOptions, GrantOptions, ReleaseOptions } from "./orchestrator/run/run.ts";
export type { ExecutionBoundary } from "./orchestrator/sessions/session-changes.ts";
export type { DelayedRecovery, FailedRecovery } from "./orchestrator/run/recover-all.ts";
export type { InputOf, ToolInput } from "./tools/arguments/input-schema.ts";
export type { LeftOut, TaggedHistory } from "./agent/message-tags.ts";
export type { MessageSelection } from "./policies/inherited-messages.ts";
export type {
  FailedExecutionPolicy,
  SessionForkOptions,
} from "./orchestrator/sessions/session-options.ts";
export type { OpenStepReport } from "./agent/phase-report.ts";
export type { OutputMode } from "./agent/agent-role.ts";
export type { PlacedSection, SectionLifeCycle, SectionText } from "./agent/request-sections.ts";
export type {
  ModelDelta,
  StreamPartBody,
  StreamPartSource,
  ResetReason,
} from "./protocol/stream-piece.ts";
export type { StreamOptions } from "./orchestrator/run/run.ts";
export type { PriceUsed } from "./budget/prices-used.ts";
export type { RebuildOptions } from "./orchestrator/run/rebuild-request.ts";
export type { RebuiltRequest } from "./agent/shown-messages.ts";
export type { RemovedTool, ToolRule } from "./protocol/tool-rule.ts";
export type { ResumeGrant } from "./orchestrator/run/start-options.ts";
export type { RetainedMessages } from "./policies/retention-policy.ts";
export {
  SPAWN_REFUSAL_CODES,
  SUBAGENT_OUTCOMES,
  type DynamicRole,
  type SpawnRefusal,
  type SpawnRefusalCode,
  type SubagentOutcome,
  type SubagentReceipt,
} from "./protocol/subagent.ts";
export type { SessionExecution, SessionFork } from "./orchestrator/sessions/session-record.ts";
export type { SessionOutcome, SessionResult } from "./orchestrator/sessions/session-outcome.ts";
export type { ShownPart, StepContext } from "./protocol/step-context.ts";
export type { StepTiming } from "./protocol/step-timing.ts";
export type { StopConditionAnswer } from "./policies/stop-conditions.ts";
export type { ToolErrorRecord, ToolErrorSeverity } from "./protocol/tool-error-record.ts";
export {
  TOOL_OUTCOME_TYPES,
  type ToolExecution,
  type ToolOutcomeType,
} from "./protocol/tool-outcome.ts";
export type { ToolFailureCode } from "./protocol/tool-failure.ts";
export type { UnansweredPolicy } from "./agent/approver.ts";
export type { ModelUsage, UsageReport } from "./protocol/usage.ts";
