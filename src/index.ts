// The public surface of espalier. What it takes to define agents, to run and observe them, and to handle errors; hooks stand in
// `espalier/hooks`, ports and parts of what is here in `espalier/extend`. Whatever is exported is a promise; everything is named, in one entry.

import { checkNode } from "./kernel/check-node.ts";

checkNode();

// Define
export type { AgentRole, InferContext, InferOutput } from "./agent/agent-role.ts";
export { defineAgent, type AgentDefinition } from "./agent/define-agent.ts";
export type { DynamicRoleBounds } from "./agent/dynamic-role-bounds.ts";
export type { Compaction } from "./agent/compaction.ts";
export type { RequestSection, SectionContext } from "./agent/request-sections.ts";
export {
  defineDelegation,
  defineTool,
  type DelegationDefinition,
  type ExternalToolDefinition,
  type ToolDefinition,
} from "./tools/define-tool.ts";
export type { JsonSchemaInput } from "./tools/arguments/input-schema.ts";
export type { DelegationTool, FunctionTool, Tool } from "./tools/tool.ts";
export type { DelegationContext, DelegationOutcome, ToolContext } from "./tools/tool-context.ts";
export type { ToolDefaults } from "./tools/tool-settings.ts";
export { ToolError, ToolRetryError } from "./tools/tool-error.ts";
export { isToolTimeout } from "./tools/tool-timeout.ts";
export { toolResult, type ToolResult } from "./tools/tool-result.ts";
export { withApproval } from "./tools/wrappers/with-approval.ts";
export { rateLimit, withRateLimit, type RateLimit } from "./tools/wrappers/rate-limit.ts";
export { withRetries } from "./tools/wrappers/with-retries.ts";
export { withTimeout } from "./tools/wrappers/with-timeout.ts";
export { combineTools, filterTools, prefixTools, renameTools } from "./tools/toolsets.ts";
export {
  toolGuard,
  type GuardDecision,
  type GuardContext,
  type GuardedCall,
  type ToolGuard,
} from "./tools/tool-guard.ts";
export { toolFilter, type FilterContext, type ToolFilter } from "./tools/tool-filter.ts";
export type { ErrorBudget, ErrorPolicy } from "./policies/error-budget.ts";
export type { Budget } from "./policies/budget.ts";
export type { DelegationPolicy } from "./policies/delegation-policy.ts";
export type { SubagentContextPolicy } from "./policies/subagent-context-policy.ts";
export type { SubagentLimits } from "./policies/subagent-limits.ts";
export {
  allOf,
  anyOf,
  hasFinishReason,
  not,
  hasToolCall,
  isStepCount,
  type StopCondition,
  type StopContext,
} from "./policies/stop-conditions.ts";
export type { ModelSettings, ToolChoice } from "./protocol/model-settings.ts";

// Models
export { openai, type OpenAiOptions } from "./model/openai/openai-model.ts";
export { modelLimits, type ModelLimits } from "./model/model-limits.ts";
export { withFallback } from "./model/with-fallback.ts";
export type { Model } from "./model/model.ts";
export { ModelError } from "./model/model-error.ts";
export type { ModelPrice } from "./model/model-price.ts";
export { lookUpModelPrice } from "./model/prices.ts";

// Run
export { Orchestrator } from "./orchestrator/orchestrator.ts";
export type { OrchestratorOptions } from "./orchestrator/tree/orchestrator-settings.ts";
export type { StartOptions } from "./orchestrator/run/run-options.ts";
export type {
  ForkOptions,
  ResumeLostRunsOptions,
  StoredResumeOptions,
  ResumeOptions,
} from "./orchestrator/run/run-options.ts";
export type { RunQuestion, RunQuestions } from "./orchestrator/run/list-questions.ts";
export type { ResumedRuns } from "./orchestrator/run/resume-lost-runs.ts";
export type { Run } from "./orchestrator/run/run.ts";
export { toSse } from "./orchestrator/run/to-sse.ts";
export type { PhaseReport } from "./agent/phase-report.ts";
export type {
  CompletedRunResult,
  PausedRunResult,
  RunResult,
} from "./orchestrator/run/run-result.ts";
export type { AgentReport, AgentSummary } from "./orchestrator/tree/agent-report.ts";
export type { StreamPart } from "./protocol/stream-part.ts";
export type { RetryPolicy } from "./model/retry-policy.ts";
export { memoryStore } from "./store/memory-store.ts";

// Pause and resume
export { readPausedRun, type PausedRun } from "./orchestrator/durability/paused-run.ts";
export type { Approver } from "./agent/approver.ts";
export {
  approve,
  deny,
  provideResult,
  provideError,
  type Answer,
  type Question,
} from "./protocol/question.ts";

// Sessions
export type { Session } from "./orchestrator/sessions/session.ts";
export type { SessionOptions } from "./orchestrator/sessions/session-options.ts";

// Observe
export { assertEvent, type EspalierEvent, type EventType } from "./protocol/event.ts";
export type { EventSink } from "./protocol/event.ts";
export { getCorrelationIds } from "./protocol/correlation.ts";
export { sumUsage } from "./protocol/event.ts";
export type { Usage } from "./protocol/usage.ts";
export type { StepRecord } from "./protocol/step-record.ts";
export type { SpawnOutcome, SpawnRequest, SubagentResult } from "./protocol/subagent.ts";
export type { ImportedMessage, Message, StoredMessage } from "./protocol/message.ts";
export type { Attachment } from "./protocol/attachment.ts";
export type { ContentPart } from "./protocol/message-content.ts";
export type { AgentId, RunId } from "./protocol/ids.ts";
export type { JsonObject, JsonValue } from "./kernel/json.ts";

// Errors, and why a run ended
export { EspalierError, type ErrorCode } from "./kernel/error.ts";
export { RunError } from "./orchestrator/run/run-error.ts";
export type {
  ErrorRecord,
  SettledStatus,
  StopCode,
  StopReason,
  StopSignal,
} from "./protocol/stop.ts";
