// Entry `espalier/extend`: the ports, for authors of a model, a store, a tracing, a sink, a clock or a wrapper of tools, with what helps
// them; and the parts of what `espalier` exports that are seldom written down.

// Models
export type {
  GenerateOptions,
  ModelReply,
  ModelRequest,
  OutputSchema,
  ToolSpec,
} from "./model/model.ts";
export type { FinishReason } from "./protocol/finish-reason.ts";
export type { ReportedInput, TokenUsage } from "./model/token-usage.ts";
export { buildReplyMessage, getReplyPieces, type ReplyPiece } from "./protocol/reply-message.ts";
export { toStrictSchema } from "./model/strict-schema.ts";
export { getContentParts } from "./model/recipient-messages.ts";
export { toCallId } from "./model/call-id.ts";
export { toRunId } from "./orchestrator/run/run-options.ts";
export type { ModelErrorOptions } from "./model/model-error.ts";
export type { FallbackOptions } from "./model/fallback.ts";
export type { Prices } from "./model/prices.ts";
export type { OpenAiModelOptions } from "./model/openai/answer-options.ts";
export type {
  AssistantMessage,
  MessageOrigin,
  ReplyPart,
  SystemMessage,
  ToolCall,
  ToolMessage,
  UserMessage,
  SpanContent,
} from "./protocol/message.ts";

// Stores
export type { Store } from "./store/store.ts";
export type {
  ClaimOptions,
  JournalBatch,
  Ownership,
  Mail,
  RunOwner,
  RunStore,
  StoredRun,
  RunFilter,
  StoredStatus,
} from "./store/run-store.ts";
export type { SessionStore, StoredSession } from "./store/session-store.ts";
export type { MemoryStoreOptions } from "./store/memory-store.ts";

// Tracing, sinks, clocks and ids
export type { LostSpan, Tracing } from "./protocol/tracing.ts";
export type { SpanClosing, SpanMoment, SpanNote, SpanOpening } from "./protocol/span-tree.ts";
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
export type { EventBodies } from "./protocol/event-bodies.ts";

// Tools: what wraps them, and what they get
export type { ToolBasics } from "./tools/define-tool.ts";
export type { Bound, ExternalTool, FinishTool, FunctionUse, ToolDescriptor } from "./tools/tool.ts";
export type { ToolsetTool } from "./tools/toolsets.ts";
export type { ArgumentProblem } from "./tools/arguments/argument-problems.ts";
export type { ToolRuntime } from "./tools/tool-context.ts";
export type {
  AskOutcome,
  AskRequest,
  ContinueRequest,
  SubagentRequest,
  DelegationReply,
  SubagentInfo,
  SubagentService,
  ToolProgress,
} from "./tools/tool-context.ts";
export type { ToolSettings } from "./tools/tool-settings.ts";
export type { ToolErrorOptions } from "./tools/tool-error.ts";
export type { ToolResultOptions } from "./tools/tool-result.ts";
export type { RateLimitOptions } from "./tools/wrappers/rate-limit.ts";
export type { ToolScope } from "./tools/tool-scope.ts";

// Parts of records and options
export type { BudgetShare } from "./policies/budget-share.ts";
export { DEFAULT_SUBAGENT_LIMITS } from "./policies/subagent-limits.ts";
export type { PauseCode, TerminalStatus } from "./protocol/stop.ts";
export type { StopConditionReason } from "./policies/stop-conditions.ts";
export type { AttachmentKind } from "./protocol/attachment.ts";
export type { MessageContent } from "./protocol/message-content.ts";
export type { Account, AccountGrant } from "./protocol/account.ts";
export type {
  AgentError,
  IncompleteRunResult,
  RunResultBase,
  RunUsage,
} from "./orchestrator/run/run-result.ts";
export type { QuestionRef } from "./protocol/question.ts";
export type { Concurrency } from "./run-services/run-limiter.ts";
export type { InheritanceRecord } from "./protocol/context-manifest.ts";
export { hashText, type Definitions } from "./protocol/definition.ts";
export type { SteerReceipt } from "./agent/mailbox.ts";
export type { CancelReason } from "./kernel/cancel-signal.ts";
export type { EspalierErrorOptions, ModelErrorCode, RunErrorCode } from "./kernel/error.ts";
export type { EventsOptions, GrantOptions } from "./orchestrator/run/run.ts";
export type { ExecutionBoundary } from "./orchestrator/sessions/session-changes.ts";
export type { InferInput, ToolInput } from "./tools/arguments/input-schema.ts";
export type { PlacedSection } from "./agent/request-sections.ts";
export type { ModelDelta, StreamPartBody } from "./protocol/stream-part.ts";
export type { StreamOptions } from "./orchestrator/run/run.ts";
export type { AppliedPrice } from "./budget/prices-used.ts";
export type { RebuiltRequest } from "./agent/shown-messages.ts";
export type { RemovedTool } from "./protocol/tool-rule.ts";
export type { OptionsWithContext, ResumeGrant } from "./orchestrator/run/run-options.ts";
export {
  type DynamicRole,
  type SpawnRefusal,
  type SubagentOutcome,
  type SubagentReceipt,
} from "./protocol/subagent.ts";
export type { SessionExecution, SessionFork } from "./orchestrator/sessions/session-record.ts";
export type { SessionOutcome, SessionResult } from "./orchestrator/sessions/session-outcome.ts";
export type { StepContext } from "./protocol/step-context.ts";
export type { StepTiming } from "./protocol/step-timing.ts";
export type { ToolErrorRecord, ToolFailure } from "./protocol/tool-error-record.ts";
export {
  type ToolErrorSeverity,
  type ToolOutcomeType,
  SPAWN_REFUSAL_CODES,
  type SpawnRefusalCode,
  type ToolFailureCode,
} from "./protocol/tool-failure.ts";
export type { ToolExecution } from "./protocol/tool-outcome.ts";
export type { ModelUsage, UsageReport } from "./protocol/usage.ts";
