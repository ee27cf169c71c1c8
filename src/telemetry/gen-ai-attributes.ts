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

/** First word of the name of a call that delegates, once its subagent is known: a row of a viewer has no room for more. */
export const SPAWN = "spawn";

export const GEN_AI = {
  operation: "gen_ai.operation.name",
  workflowName: "gen_ai.workflow.name",
  /** The session on which a run runs: the same on all spans of the tree. Never made up. */
  conversationId: "gen_ai.conversation.id",
  agentName: "gen_ai.agent.name",
  agentDescription: "gen_ai.agent.description",
  provider: "gen_ai.provider.name",
  requestModel: "gen_ai.request.model",
  requestMaxTokens: "gen_ai.request.max_tokens",
  requestTemperature: "gen_ai.request.temperature",
  requestTopP: "gen_ai.request.top_p",
  requestSeed: "gen_ai.request.seed",
  requestStopSequences: "gen_ai.request.stop_sequences",
  requestStream: "gen_ai.request.stream",
  /** Only where a model is held to the schema of a typed result: `json`. */
  outputType: "gen_ai.output.type",
  responseId: "gen_ai.response.id",
  responseModel: "gen_ai.response.model",
  finishReasons: "gen_ai.response.finish_reasons",
  inputTokens: "gen_ai.usage.input_tokens",
  outputTokens: "gen_ai.usage.output_tokens",
  cacheReadInputTokens: "gen_ai.usage.cache_read.input_tokens",
  /** One thing under its new and its old name: viewers read the old one. */
  cacheWriteInputTokens: "gen_ai.usage.cache_write.input_tokens",
  cacheCreationInputTokens: "gen_ai.usage.cache_creation.input_tokens",
  reasoningOutputTokens: "gen_ai.usage.reasoning.output_tokens",
  toolName: "gen_ai.tool.name",
  toolType: "gen_ai.tool.type",
  toolDescription: "gen_ai.tool.description",
  toolCallId: "gen_ai.tool.call.id",
  /** Content, which is only there if it was asked for: see content.ts. */
  systemInstructions: "gen_ai.system_instructions",
  inputMessages: "gen_ai.input.messages",
  outputMessages: "gen_ai.output.messages",
  toolDefinitions: "gen_ai.tool.definitions",
  toolCallArguments: "gen_ai.tool.call.arguments",
  toolCallResult: "gen_ai.tool.call.result",
  /** Only on metrics; see metric-names.ts. */
  tokenModality: "gen_ai.token.modality",
  tokenType: "gen_ai.token.type",
} as const;

/** What only models by OpenAI's interfaces have. */
export const OPENAI = {
  apiType: "openai.api.type",
  requestServiceTier: "openai.request.service_tier",
  responseServiceTier: "openai.response.service_tier",
} as const;

export const ESPALIER = {
  runId: "espalier.run.id",
  /** Number of the event with which the span began, in the event log of the run. */
  eventSeq: "espalier.event.seq",
  /** Only on the span of a run that was paused; see `RUN_STATE`. */
  runState: "espalier.run.state",
  /** From 2: which segment of a run that was paused and resumed. */
  runSegment: "espalier.run.segment",
  /** Only on the span of a run whose process had died: model calls whose end is unknown. */
  runLostCalls: "espalier.run.lost_calls",
  runRecoveries: "espalier.run.recoveries",
  /** How long a run that was resumed had been paused. */
  runPausedMs: "espalier.run.paused_ms",
  /** Questions that a paused run waits for. */
  runQuestions: "espalier.run.questions",
  /** Answers with which a run was resumed. */
  runAnswers: "espalier.run.answers",
  /** The trace of the same run up to its pause. */
  resumedFromTraceId: "espalier.resumed_from.trace_id",
  /** Only on the span around a further trace of a run: from 2. */
  tracePart: "espalier.trace.part",
  /** A trace that grew too large continues in another one, and came from one. */
  continuesInTraceId: "espalier.continues_in.trace_id",
  continuesFromTraceId: "espalier.continues_from.trace_id",
  /** A wait that ended at a resume is a trace of its own; this one has the answer. */
  answeredInTraceId: "espalier.answered_in.trace_id",
  forkOf: "espalier.fork.of",
  forkStep: "espalier.fork.step",
  forkedFromTraceId: "espalier.forked_from.trace_id",
  /** How many subagents in the background have reported to an agent; the first 100 of them are linked. */
  awaitsCount: "espalier.awaits.count",
  /** On links; see `LINK`. */
  linkType: "espalier.link.type",
  /** Only on a span whose process died before it ended: it was recorded again by the process that recovered the run. */
  replayed: "espalier.replayed",
  /** The id under which events speak of such a span, where the provider did not let it have that. */
  replacesSpanId: "espalier.replaces.span_id",
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
  /** Why the model stopped, in the provider's own word. */
  finishReasonRaw: "espalier.model.finish_reason_raw",
  /** As it was asked for. */
  reasoningEffort: "espalier.model.reasoning_effort",
  attempts: "espalier.attempt.count",
  /** Only on a call that another model of a fallback answered: the one that was asked for. */
  fallbackFrom: "espalier.model.fallback_from",
  queueWaitMs: "espalier.queue.wait_ms",
  /** What was waited for: a slot for a `model` call or a `tool`, or `budget`. */
  queueName: "espalier.queue.name",
  costUsd: "espalier.cost.usd",
  usageEstimated: "espalier.usage.estimated",
  toolKind: "espalier.tool.kind",
  toolArgumentsMended: "espalier.tool.arguments_mended",
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
  /** Only where an attempt goes on: with which model of a fallback. */
  retryNextModel: "espalier.retry.next_model",
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
  /** Only on a metric: which limit. */
  budgetAxis: "espalier.budget.axis",
  approvalId: "espalier.approval.id",
  approvalKind: "espalier.approval.kind",
  approvalDecision: "espalier.approval.decision",
  /** Never a person: `approver`, `caller`, `deadline`, `nobody` or `end`. */
  approvalDecidedByKind: "espalier.approval.decided_by_kind",
  approvalWaitMs: "espalier.approval.wait_ms",
  /** `requested` or `decided`: a question has a span for each. */
  approvalState: "espalier.approval.state",
  messageOrigin: "espalier.message.origin",
  messageCharacters: "espalier.message.characters",
  messageFromAgentId: "espalier.message.from_agent_id",
  compactionMessagesBefore: "espalier.compaction.messages_before",
  compactionMessagesAfter: "espalier.compaction.messages_after",
  compactionTokensBefore: "espalier.compaction.tokens_before",
  compactionTokensAfter: "espalier.compaction.tokens_after",
  signalSource: "espalier.signal.source",
  droppedSpans: "espalier.telemetry.dropped_spans",
  /** Names of the attributes of a span that are not whole. */
  truncated: "espalier.truncated",
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

/** Values of `espalier.link.type`: what a link means. */
export const LINK = {
  resumes: "resumes",
  forkedFrom: "forked_from",
  awaits: "awaits",
  messageFrom: "message_from",
  continuesIn: "continues_in",
  continuesFrom: "continues_from",
  answeredIn: "answered_in",
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
  /** On the span of a run: its process had died, and another one goes on with it. */
  recovered: "espalier.recovered",
  /** Only on a span that ends later, with the last one within it: when what it shows was over. */
  over: "espalier.over",
} as const;

/**
 * The one attribute name that is neither `gen_ai.*` nor ours: a class of failure, with few values.
 */
export const ERROR_TYPE = "error.type";

/** Values of `error.type` for failures that bring no code of their own. */
export const FAILURE = { agent: "agent_error", tool: "tool_error", crash: "crashed" } as const;

/**
 * How a span shows an `espalier.outcome`, so that it is seen in a row of a viewer: by its status, or behind its name. The table of
 * docs/jaeger.md.
 */
export const SHOWN_AS: Readonly<Record<string, "nothing" | "error" | "name">> = {
  completed: "nothing",
  succeeded: "nothing",
  failed: "error",
  retry: "error",
  crashed: "error",
  refused: "name",
  denied: "name",
  stopped: "name",
  cancelled: "name",
  not_executed: "name",
  suspended: "name",
  abandoned: "name",
};

/** Values of `espalier.outcome` that are in no event. */
export const OUTCOME = {
  abandoned: "abandoned",
  cancelled: "cancelled",
  crashed: "crashed",
  denied: "denied",
  failed: "failed",
  suspended: "suspended",
} as const;

/** The value of `espalier.run.state`. */
export const RUN_STATE = { suspended: "suspended" } as const;

/** Stands for a name that a model invented: it is content, and has any number of values. */
export const UNKNOWN_TOOL = "unknown_tool";

export const SERVER = { address: "server.address", port: "server.port" } as const;

export const SERVICE_NAME = "service.name";

/** Attributes of the resource: which process recorded a span, where, and as which version. */
export const RESOURCE = {
  processId: "process.pid",
  runtimeName: "process.runtime.name",
  runtimeVersion: "process.runtime.version",
  hostName: "host.name",
  distroName: "telemetry.distro.name",
  distroVersion: "telemetry.distro.version",
} as const;

/**
 * What an agent could spend at its start, on one axis: `totalTokens` gives
 * `espalier.budget.limit.total_tokens`.
 */
export function budgetLimit(axis: string): string {
  return `espalier.budget.limit.${axis.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`;
}

/**
 * The name of a span: verb first, and never an id. Subagents have their number among their siblings; `gen_ai.agent.name` is the same
 * for all of a role.
 */
export function spanName(operation: string, target: string): string {
  return `${operation} ${target}`;
}
