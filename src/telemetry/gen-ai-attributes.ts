// Every name that espalier gives to OpenTelemetry, and the only place of such names.
// `gen_ai.*` follows the GenAI semantic conventions as of September 2026, all "Development" there;
// `espalier.*` is what they have no word for: the tree, its limits, its budget.

/** Names under which spans are made. */
export const INSTRUMENTATION = { name: "espalier", version: "0.1.0" } as const;

/** Values of `gen_ai.operation.name`; each is also the first word of its spans' names. */
export const OPERATION = {
  workflow: "invoke_workflow",
  agent: "invoke_agent",
  model: "chat",
  tool: "execute_tool",
} as const;

export const GEN_AI = {
  operation: "gen_ai.operation.name",
  workflowName: "gen_ai.workflow.name",
  agentName: "gen_ai.agent.name",
  agentDescription: "gen_ai.agent.description",
  provider: "gen_ai.provider.name",
  requestModel: "gen_ai.request.model",
  requestMaxTokens: "gen_ai.request.max_tokens",
  requestTemperature: "gen_ai.request.temperature",
  requestStream: "gen_ai.request.stream",
  responseId: "gen_ai.response.id",
  responseModel: "gen_ai.response.model",
  finishReasons: "gen_ai.response.finish_reasons",
  inputTokens: "gen_ai.usage.input_tokens",
  outputTokens: "gen_ai.usage.output_tokens",
  cacheReadInputTokens: "gen_ai.usage.cache_read.input_tokens",
  reasoningOutputTokens: "gen_ai.usage.reasoning.output_tokens",
  toolName: "gen_ai.tool.name",
  toolType: "gen_ai.tool.type",
  toolDescription: "gen_ai.tool.description",
  toolCallId: "gen_ai.tool.call.id",
} as const;

export const ESPALIER = {
  runId: "espalier.run.id",
  /** Number of the event with which the span began, in the event log of the run. */
  eventSeq: "espalier.event.seq",
  /** Only on the span of a run that was paused; see `RUN_STATE`. */
  runState: "espalier.run.state",
  /** From 2: which stretch of a run that was paused and resumed. */
  runSegment: "espalier.run.segment",
  /** How long a run that was resumed had been paused. */
  runPausedMs: "espalier.run.paused_ms",
  /** Questions that a paused run waits for. */
  runQuestions: "espalier.run.questions",
  /** Answers with which a run was resumed. */
  runAnswers: "espalier.run.answers",
  /** The trace of the same run up to its pause. */
  resumedFromTraceId: "espalier.resumed_from.trace_id",
  runSubagents: "espalier.run.subagents",
  runRefusals: "espalier.run.refusals",
  limitsMaxDepth: "espalier.limits.max_depth",
  limitsMaxBreadthPerParent: "espalier.limits.max_breadth_per_parent",
  limitsMaxTotalSubagents: "espalier.limits.max_total_subagents",
  agentId: "espalier.agent.id",
  agentParentId: "espalier.agent.parent_id",
  agentPath: "espalier.agent.path",
  agentDepth: "espalier.agent.depth",
  agentSteps: "espalier.agent.steps",
  executionId: "espalier.execution.id",
  stepId: "espalier.step.id",
  outcome: "espalier.outcome",
  stopReason: "espalier.stop.reason",
  requestMessages: "espalier.request.messages",
  requestTools: "espalier.request.tools",
  attempts: "espalier.attempt.count",
  queueWaitMs: "espalier.queue.wait_ms",
  costUsd: "espalier.cost.usd",
  usageEstimated: "espalier.usage.estimated",
  toolKind: "espalier.tool.kind",
  toolResultCharacters: "espalier.tool.result_characters",
  toolErrorSeverity: "espalier.tool.error.severity",
  spawnRole: "espalier.spawn.role",
  spawnMode: "espalier.spawn.mode",
  spawnExecution: "espalier.spawn.execution",
  spawnAgentId: "espalier.spawn.agent.id",
  spawnAgentPath: "espalier.spawn.agent.path",
  spawnInheritedMessages: "espalier.spawn.inherited_messages",
  spawnInjectedMessages: "espalier.spawn.injected_messages",
  spawnMetadataKeys: "espalier.spawn.metadata_keys",
  spawnInheritedHash: "espalier.spawn.inherited_hash",
  spawnInjectedHash: "espalier.spawn.injected_hash",
  spawnSiblingResults: "espalier.spawn.sibling_results",
  spawnResults: "espalier.spawn.results",
  spawnFailedAttempts: "espalier.spawn.failed_attempts",
  spawnParentConstraints: "espalier.spawn.parent_constraints",
  spawnRemovedTools: "espalier.spawn.removed_tools",
  spawnRemovalRules: "espalier.spawn.removal_rules",
  spawnRemovalSources: "espalier.spawn.removal_sources",
  spawnTightened: "espalier.spawn.tightened",
  spawnOutcome: "espalier.spawn.outcome",
  refusalCode: "espalier.refusal.code",
  refusalMaximum: "espalier.refusal.maximum",
  refusalCurrent: "espalier.refusal.current",
  retryAttempt: "espalier.retry.attempt",
  retryDelayMs: "espalier.retry.delay_ms",
  deniedAxis: "espalier.budget.denied.axis",
  deniedAccountPath: "espalier.budget.denied.account_path",
  deniedMaximum: "espalier.budget.denied.maximum",
  deniedSpent: "espalier.budget.denied.spent",
  deniedAsked: "espalier.budget.denied.asked",
  deniedKept: "espalier.budget.denied.kept",
  thresholdAxis: "espalier.budget.threshold.axis",
  thresholdAccountPath: "espalier.budget.threshold.account_path",
  thresholdReached: "espalier.budget.threshold.reached",
  thresholdSpent: "espalier.budget.threshold.spent",
  thresholdMaximum: "espalier.budget.threshold.maximum",
  grantedAccountPath: "espalier.budget.granted.account_path",
  grantedAxes: "espalier.budget.granted.axes",
  approvalId: "espalier.approval.id",
  approvalKind: "espalier.approval.kind",
  approvalDecision: "espalier.approval.decision",
  /** Never a person: the approver, the caller, the deadline or nobody. */
  approvalDecidedByKind: "espalier.approval.decided_by_kind",
  approvalWaitMs: "espalier.approval.wait_ms",
  messageOrigin: "espalier.message.origin",
  messageCharacters: "espalier.message.characters",
  compactionMessagesBefore: "espalier.compaction.messages_before",
  compactionMessagesAfter: "espalier.compaction.messages_after",
  compactionTokensBefore: "espalier.compaction.tokens_before",
  compactionTokensAfter: "espalier.compaction.tokens_after",
  signalSource: "espalier.signal.source",
  droppedSpans: "espalier.telemetry.dropped_spans",
} as const;

/**
 * What an agent and all its descendants consumed: on `invoke_agent`, so that nothing counts
 * `gen_ai.usage.*` twice.
 */
export const SUBTREE = {
  modelCalls: "espalier.subtree.model_calls",
  steps: "espalier.subtree.steps",
  toolCalls: "espalier.subtree.tool_calls",
  inputTokens: "espalier.subtree.input_tokens",
  cachedInputTokens: "espalier.subtree.cached_input_tokens",
  outputTokens: "espalier.subtree.output_tokens",
  reasoningTokens: "espalier.subtree.reasoning_tokens",
  totalTokens: "espalier.subtree.total_tokens",
  costUsd: "espalier.subtree.cost.usd",
  unpricedCalls: "espalier.subtree.unpriced_calls",
  estimatedCalls: "espalier.subtree.estimated_calls",
} as const;

/** Names of span events. */
export const SPAN_EVENT = {
  retry: "espalier.retry",
  budgetDenied: "espalier.budget.denied",
  budgetThreshold: "espalier.budget.threshold_reached",
  budgetGranted: "espalier.budget.granted",
  cancelled: "espalier.cancelled",
  spawnRefused: "espalier.spawn.refused",
  approvalRequested: "espalier.approval.requested",
  approvalDecided: "espalier.approval.decided",
  messageReceived: "espalier.message.received",
  compacted: "espalier.compacted",
} as const;

/**
 * The one attribute name that is neither `gen_ai.*` nor ours: a class of failure, with few values.
 */
export const ERROR_TYPE = "error.type";

/** Values of `error.type` for failures that bring no code of their own. */
export const FAILURE = { agent: "agent_error", tool: "tool_error" } as const;

/** Values of `espalier.outcome` that no event says. */
export const OUTCOME = {
  abandoned: "abandoned",
  cancelled: "cancelled",
  failed: "failed",
  suspended: "suspended",
} as const;

/** The value of `espalier.run.state`. */
export const RUN_STATE = { suspended: "suspended" } as const;

/** Stands for a name that a model invented: it is content, and has any number of values. */
export const UNKNOWN_TOOL = "unknown_tool";

export const SERVICE_NAME = "service.name";

/**
 * What an agent could spend at its start, on one axis: `totalTokens` gives
 * `espalier.budget.limit.total_tokens`.
 */
export function budgetLimit(axis: string): string {
  return `espalier.budget.limit.${axis.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`;
}

/**
 * The name of a span: verb first, and never an id, so that spans of a kind are counted together.
 */
export function spanName(operation: string, target: string): string {
  return `${operation} ${target}`;
}
