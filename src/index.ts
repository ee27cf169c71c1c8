// The public surface of espalier. Whatever is exported here is a promise; everything is named.

// Define
export { defineAgent, type AgentDefinition, type AgentRole } from "./agent/agent-role.ts";
export {
  defineTool,
  type FunctionTool,
  type Tool,
  type ToolContext,
  type ToolDefinition,
  type ToolReturn,
} from "./tools/tool.ts";
export type { Budget, BudgetAxis } from "./policies/budget.ts";
export type { SubagentContextPolicy } from "./policies/subagent-context-policy.ts";
export { DEFAULT_SUBAGENT_LIMITS, type SubagentLimits } from "./policies/subagent-limits.ts";
export { toolWasCalled, type StopCondition, type StopFacts } from "./policies/stop-conditions.ts";

// Models
export { openai, type OpenAiOptions } from "./model/openai/openai-model.ts";
export type { MaxTokensField } from "./model/openai/to-openai.ts";
export type { ModelPrice } from "./model/model-price.ts";

// Run
export {
  Orchestrator,
  type OrchestratorOptions,
  type StartOptions,
} from "./orchestrator/orchestrator.ts";
export type { EventsOptions, Run } from "./orchestrator/run.ts";
export type { Phase, PhaseReport } from "./agent/run-agent.ts";
export type { AgentState, EndedState, PendingState, RunningState } from "./agent/agent-state.ts";
export type { Account } from "./orchestrator/ledger-core.ts";
export type { AgentReport, RunResult, RunUsage } from "./orchestrator/run-result.ts";
export type { Concurrency } from "./orchestrator/scheduler.ts";
export type { TextPiece } from "./orchestrator/supervisor.ts";
export type { RetryPolicy } from "./model/retry.ts";

// Observe
export {
  checkEvent,
  EVENT_SCHEMA_VERSION,
  type Correlation,
  type EspalierEvent,
  type EventBody,
  type EventType,
  type TraceIds,
} from "./protocol/event.ts";
export type { EventDraft, EventSink, Tracing } from "./protocol/event-sink.ts";
export type {
  SpawnOutcome,
  SpawnRefusal,
  SpawnRefusalCode,
  SpawnRequest,
  SubagentResult,
} from "./protocol/subagent.ts";
export type { StepRecord } from "./protocol/step-record.ts";
export {
  STOP_CODES,
  type ErrorRecord,
  type Status,
  type StopCode,
  type StopReason,
  type StopSignal,
  type TerminalStatus,
} from "./protocol/stop.ts";
export type { ToolExecution, ToolOutcomeType } from "./protocol/tool-outcome.ts";
export type { Usage, UsageReport } from "./protocol/usage.ts";

// Extend
export type {
  FinishReason,
  GenerateOptions,
  Model,
  ModelReply,
  ModelRequest,
  ToolSpec,
} from "./model/model.ts";
export type { TokenUsage } from "./model/token-usage.ts";
export { ModelError, type ModelErrorOptions } from "./model/model-error.ts";
export type {
  AssistantMessage,
  Message,
  MessageOrigin,
  SystemMessage,
  ToolCall,
  ToolMessage,
  UserMessage,
} from "./protocol/message.ts";
export type { AgentId, CallId, ExecutionId, LeaseId, RunId, StepId } from "./protocol/ids.ts";
export { CallIdSchema } from "./protocol/ids.ts";
export type { Clock } from "./kernel/clock.ts";
export type { IdSource } from "./kernel/id-source.ts";
export type { CancelReason } from "./kernel/cancel.ts";
export {
  EspalierError,
  type ErrorCode,
  type EspalierErrorOptions,
  type ModelErrorCode,
} from "./kernel/error.ts";
export type { JsonObject, JsonValue } from "./kernel/json.ts";
