// The public surface of espalier. Whatever is exported here is a promise; everything is named.

// Define
export type { AgentRole, ContextOf, OutputOf } from "./agent/agent-role.ts";
export { defineAgent, type AgentDefinition } from "./agent/define-agent.ts";
export type { Compaction, CompactionStrategy } from "./agent/compaction.ts";
export type {
  PlacedSection,
  RequestSection,
  SectionContext,
  SectionLifeCycle,
  SectionText,
} from "./agent/request-sections.ts";
export type { DynamicRoleBounds } from "./agent/dynamic-role-bounds.ts";
export {
  defineDelegation,
  defineTool,
  type DelegationDefinition,
  type ExternalToolDefinition,
  type ToolDefinition,
} from "./tools/define-tool.ts";
export { type ArgumentProblem } from "./tools/arguments/argument-problems.ts";
export type { InputOf, JsonSchemaInput, ToolInput } from "./tools/arguments/input-schema.ts";
export type {
  Bound,
  DelegationTool,
  ExternalTool,
  FinishTool,
  FunctionTool,
  FunctionUse,
  Tool,
  ToolReturn,
} from "./tools/tool.ts";
export type {
  ContinueRequest,
  DelegationAnswer,
  DelegationContext,
  DelegationOutcome,
  SubagentInfo,
  SubagentService,
  ToolContext,
  ToolProgress,
  WaitRequest,
} from "./tools/tool-context.ts";
export type { LongResults, ToolDefaults, ToolSettings } from "./tools/tool-settings.ts";
export type { ToolRetryNote, ToolRuntime } from "./tools/tool-runtime.ts";
export { ToolError, ToolRetryError, type ToolErrorOptions } from "./tools/tool-error.ts";
export { isToolTimeout } from "./tools/tool-timeout.ts";
export { toolResult, type ToolResult, type ToolResultOptions } from "./tools/tool-result.ts";
export { withApproval, type ApprovalOptions } from "./tools/wrappers/with-approval.ts";
export { rateLimit, type RateLimit, type RateLimitOptions } from "./tools/wrappers/rate-limit.ts";
export { withRateLimit } from "./tools/wrappers/with-rate-limit.ts";
export { withRetries, type RetriesOptions } from "./tools/wrappers/with-retries.ts";
export { withTimeout, type TimeoutOptions } from "./tools/wrappers/with-timeout.ts";
export {
  combineTools,
  filterTools,
  prefixTools,
  renameTools,
  type ToolsetTool,
} from "./tools/toolsets.ts";
export {
  toolGuard,
  type GuardAnswer,
  type GuardCheck,
  type GuardContext,
  type GuardedCall,
  type GuardOptions,
  type ToolGuard,
} from "./tools/tool-guard.ts";
export {
  toolFilter,
  type FilterCheck,
  type FilterFacts,
  type FilterOptions,
  type ToolFilter,
} from "./tools/tool-filter.ts";
export {
  DEFAULT_ERROR_BUDGET,
  type ErrorBudget,
  type ErrorPolicy,
} from "./policies/error-budget.ts";
export { BUDGET_THRESHOLDS, type Budget, type BudgetAxis } from "./policies/budget.ts";
export type { BudgetShare } from "./policies/budget-share.ts";
export type { AtEnd, DelegationPolicy, OnFailure } from "./policies/delegation-policy.ts";
export type { MessageSelection } from "./policies/inherited-messages.ts";
export type { SubagentContextPolicy } from "./policies/subagent-context-policy.ts";
export { DEFAULT_SUBAGENT_LIMITS, type SubagentLimits } from "./policies/subagent-limits.ts";
export {
  allOf,
  anyOf,
  finishReasonWas,
  not,
  toolWasCalled,
  type StopCondition,
  type StopConditionAnswer,
  type StopFacts,
} from "./policies/stop-conditions.ts";

// Hooks
export {
  observe,
  processStep,
  transform,
  wrapModelCall,
  wrapToolCall,
  type Hook,
  type ModelCall,
  type ModelWrapHook,
  type ObserverContext,
  type ToolWrapHook,
  type TransformHandler,
  type WrappedToolCall,
} from "./hooks/hook.ts";
export type { HookOptions, TransformOptions, WrapToolOptions } from "./hooks/hook-options.ts";
export type {
  AllowedPatch,
  HookContext,
  HookSelf,
  PointContext,
  PointInput,
  PointPatch,
  TransformPoint,
} from "./hooks/hook-points.ts";

// Models
export { openai, type OpenAiOptions } from "./model/openai/openai-model.ts";
export type { OpenAiAnswerOptions } from "./model/openai/answer-options.ts";
export type { OpenAiApi } from "./model/openai/wire-api.ts";
export type { MaxTokensField } from "./model/openai/to-openai.ts";
export type { ModelPrice } from "./model/model-price.ts";
export { knownPrice, type KnownPrice } from "./model/known-price.ts";
export { PRICES_AS_OF } from "./model/price-table.ts";

// Run
export { Orchestrator } from "./orchestrator/orchestrator.ts";
export {
  rebuildRecordedRequest,
  rebuildRequest,
  type RebuildOptions,
} from "./orchestrator/run/rebuild-request.ts";
export type { RebuiltRequest } from "./agent/kept-request.ts";
export { memoryStore, type MemoryStoreOptions } from "./store/memory-store.ts";
export type {
  ClaimOptions,
  JournalBatch,
  Ownership,
  RunOwner,
  RunStore,
  StoredRun,
  StoredStatus,
} from "./store/run-store.ts";
export type { SessionStore, StoredSession } from "./store/session-store.ts";
export type { Store } from "./store/store.ts";
export type { StoreFailure } from "./store/store-errors.ts";
export type { OrchestratorOptions } from "./orchestrator/tree/orchestrator-options.ts";
export type {
  ForkOptions,
  LostRun,
  RecoverAllOptions,
  ResumeGrant,
  RecoverOptions,
  ResumeOptions,
} from "./orchestrator/run/run-options.ts";
export type { OptionsWith, StartOptions } from "./orchestrator/run/start-options.ts";
export type { FailedRecovery, RecoveredRuns } from "./orchestrator/run/recover.ts";
export type { EventsOptions, GrantOptions, Run } from "./orchestrator/run/run.ts";
export type { Phase, PhaseReport } from "./agent/run-ports.ts";
export type {
  AgentState,
  Conversation,
  Deferral,
  EndedState,
  OpenStep,
  PausedState,
  PendingState,
  RestingState,
  RunLog,
  RunningState,
  RunTelemetry,
  StepReply,
  Subtask,
} from "./agent/agent-state.ts";
export type { LastStep } from "./agent/budget-gate.ts";
export type { Delivery } from "./agent/mailbox.ts";
export type { Account, AccountGrant } from "./protocol/account.ts";
export type { PriceUsed } from "./orchestrator/budget/prices-used.ts";
export { RunError } from "./orchestrator/run/run-error.ts";
export type { AgentReport } from "./orchestrator/tree/agent-report.ts";
export type { AgentError, RunResult, RunUsage } from "./orchestrator/run/run-result.ts";
export type { Concurrency } from "./orchestrator/tree/limiter.ts";
export type { TextPiece } from "./agent/run-ports.ts";
export type { RetryPolicy } from "./model/retry-policy.ts";

// Pause and resume
export {
  PAUSED_RUN_VERSION,
  readPausedRun,
  type PausedRun,
} from "./orchestrator/durability/paused-run.ts";
export type { Approver, Unanswered } from "./agent/approver.ts";
export {
  approve,
  deny,
  giveResult,
  reportFailure,
  type Answer,
  type AnswerType,
  type Question,
  type QuestionKind,
} from "./protocol/question.ts";

// Observe
export {
  checkEvent,
  type EventScope,
  type EspalierEvent,
  type EventBody,
  type EventDraft,
  type EventType,
  type TraceIds,
} from "./protocol/event.ts";
export { EVENT_SCHEMA_VERSION, type EventBodies, type WorkType } from "./protocol/event-bodies.ts";
export { correlation, type CorrelationIds } from "./protocol/correlation.ts";
export type { EventSink } from "./protocol/event-sink.ts";
export type { LostSpan, Tracing } from "./protocol/tracing.ts";
export type { OfferedTool, SpanContent } from "./protocol/span-content.ts";
export type {
  SpawnOutcome,
  DynamicRole,
  SpawnRefusal,
  SpawnRefusalCode,
  SpawnRequest,
  SubagentOutcome,
  SubagentReceipt,
  SubagentResult,
} from "./protocol/subagent.ts";
export type { ContextManifest, Tightening } from "./protocol/context-manifest.ts";
export type { RemovedTool, ToolRule } from "./protocol/tool-rule.ts";
export type { StepRecord } from "./protocol/step-record.ts";
export type { ShownPart, StepContext } from "./protocol/step-context.ts";
export type { StepTiming } from "./protocol/step-timing.ts";
export { textHash, type Definitions } from "./protocol/definition.ts";
export {
  PAUSE_CODES,
  STOP_CODES,
  type ErrorRecord,
  type PauseCode,
  type RestStatus,
  type Status,
  type StopCode,
  type StopReason,
  type StopSignal,
  type TerminalStatus,
} from "./protocol/stop.ts";
export type { ToolErrorRecord, ToolErrorSeverity } from "./protocol/tool-error-record.ts";
export type { ToolExecution, ToolOutcomeType } from "./protocol/tool-outcome.ts";
export type { Attachment } from "./protocol/attachment.ts";
export type { ToolFailureCode } from "./protocol/tool-failure.ts";
export type { Usage, UsageReport } from "./protocol/usage.ts";
export { usageOf } from "./protocol/usage-of-events.ts";

// Extend
export type {
  CacheKey,
  FinishReason,
  GenerateOptions,
  Model,
  ModelReply,
  ModelRequest,
  ToolSpec,
} from "./model/model.ts";
export type { ModelSettings, ToolChoice } from "./protocol/model-settings.ts";
export type { TokenUsage } from "./model/token-usage.ts";
export { replyMessage, type ReplyPiece } from "./model/reply-message.ts";
export { replyPieces } from "./model/reply-pieces.ts";
export { strictSchema, withoutAddedNulls, type StrictSchema } from "./model/strict-schema.ts";
export { textOnly } from "./model/written-by.ts";
export { ModelError, type ModelErrorOptions } from "./model/model-error.ts";
export type {
  AssistantMessage,
  Message,
  MessageNote,
  MessageOrigin,
  MessageTag,
  ProviderData,
  ReplyPart,
  StoredMessage,
  SystemMessage,
  ToolCall,
  ToolMessage,
  UserMessage,
} from "./protocol/message.ts";
export type {
  AgentId,
  CallId,
  ExecutionId,
  LeaseId,
  QuestionId,
  MessageId,
  RunId,
  SessionId,
  StepId,
} from "./protocol/ids.ts";
export { CallIdSchema } from "./protocol/ids.ts";
export type { Clock } from "./kernel/clock.ts";
export type { IdSource } from "./kernel/id-source.ts";
export type { CancelReason } from "./kernel/cancel.ts";
export {
  EspalierError,
  type ErrorCode,
  type EspalierErrorOptions,
  type ModelErrorCode,
  type RunErrorCode,
} from "./kernel/error.ts";
export type { JsonObject, JsonValue } from "./kernel/json.ts";

// Sessions
export type { Session } from "./orchestrator/sessions/session.ts";
export type {
  OnFailedExecution,
  SessionForkOptions,
  SessionOptions,
} from "./orchestrator/sessions/session-options.ts";
export type { SessionOutcome, SessionResult } from "./orchestrator/sessions/session-outcome.ts";
export type { SessionExecution, SessionFork } from "./orchestrator/sessions/session-record.ts";
export type { ExecutionBoundary } from "./orchestrator/sessions/session-changes.ts";
export {
  DEFAULT_MESSAGE_RETENTION,
  messageRetention,
  retainMessages,
  type MessageRetentionPolicy,
  type RetainedMessages,
} from "./policies/retention-policy.ts";
export { removeMessages } from "./policies/remove-messages.ts";
export type { LeftOut, TaggedHistory } from "./agent/message-tags.ts";
