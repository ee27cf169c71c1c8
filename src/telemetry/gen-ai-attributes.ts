// Every name that espalier gives to OpenTelemetry, and the only place of such names.
// `gen_ai.*` follows the GenAI semantic conventions as of September 2026, all "Development" there.
// `espalier.*` covers the rest: the tree, its limits and its budget.

import type { Usage } from "../protocol/usage.ts";

/** Values of `gen_ai.operation.name`. Each is also the first word of the span name. */
export const OPERATION = {
  /** A run, from its start or resume to its end or pause. The root of its trace. */
  workflow: "invoke_workflow",
  /** An agent, from its start or resume to its end or pause. */
  agent: "invoke_agent",
  /** A model call with its attempts. */
  model: "chat",
  /** A tool call, or a delegation with its subagent. */
  tool: "execute_tool",
} as const;

/** First word of the name of a delegation with a known subagent. Rows of viewers are narrow. */
export const SPAWN = "spawn";

export const GEN_AI = {
  /** Kind of the span. See the operations. */
  operation: "gen_ai.operation.name",
  /** Role of the root. */
  workflowName: "gen_ai.workflow.name",
  /** Id of the session of the run, on all spans of the tree. Absent without a session. */
  conversationId: "gen_ai.conversation.id",
  /** Role of the agent. */
  agentName: "gen_ai.agent.name",
  /** Description of the role. */
  agentDescription: "gen_ai.agent.description",
  /** Provider of the requested model. */
  provider: "gen_ai.provider.name",
  /** Id of the requested model. */
  requestModel: "gen_ai.request.model",
  /** Maximum of output tokens. */
  requestMaxTokens: "gen_ai.request.max_tokens",
  /** Temperature, if requested. */
  requestTemperature: "gen_ai.request.temperature",
  /** `topP`, if requested. */
  requestTopP: "gen_ai.request.top_p",
  /** Seed, if requested. */
  requestSeed: "gen_ai.request.seed",
  /** Stop sequences, if requested. */
  requestStopSequences: "gen_ai.request.stop_sequences",
  /** Whether the reply was requested as a stream. */
  requestStream: "gen_ai.request.stream",
  /** `json` if the model must follow the schema of a typed result, else absent. */
  outputType: "gen_ai.output.type",
  /** Id of the reply, assigned by the provider. */
  responseId: "gen_ai.response.id",
  /** Model that replied, as the provider reports it. */
  responseModel: "gen_ai.response.model",
  /** Finish reason of the reply, as a list with one entry. */
  finishReasons: "gen_ai.response.finish_reasons",
  /** Input tokens of the call, including failed attempts. */
  inputTokens: "gen_ai.usage.input_tokens",
  /** Output tokens of the call, including failed attempts. */
  outputTokens: "gen_ai.usage.output_tokens",
  /** Input tokens that the provider read from its cache. */
  cacheReadInputTokens: "gen_ai.usage.cache_read.input_tokens",
  /** Input tokens that the provider wrote to its cache. */
  cacheWriteInputTokens: "gen_ai.usage.cache_write.input_tokens",
  /** Older name of `gen_ai.usage.cache_write.input_tokens`, which viewers still read. */
  cacheCreationInputTokens: "gen_ai.usage.cache_creation.input_tokens",
  /** Output tokens that were used for reasoning. */
  reasoningOutputTokens: "gen_ai.usage.reasoning.output_tokens",
  /** Name of the tool. */
  toolName: "gen_ai.tool.name",
  /** `function`, the type of all tools in the conventions. */
  toolType: "gen_ai.tool.type",
  /** Description of the tool, which the model reads. */
  toolDescription: "gen_ai.tool.description",
  /** Id of the call. */
  toolCallId: "gen_ai.tool.call.id",
  /** System messages at the start of the request. Only with content. */
  systemInstructions: "gen_ai.system_instructions",
  /** Other messages of the request. Only with content. */
  inputMessages: "gen_ai.input.messages",
  /** Reply of the model. Only with content. */
  outputMessages: "gen_ai.output.messages",
  /** Tools of the request. Only with content. */
  toolDefinitions: "gen_ai.tool.definitions",
  /** Arguments of the call. Only with content. */
  toolCallArguments: "gen_ai.tool.call.arguments",
  /** Result of the call. Only with content. */
  toolCallResult: "gen_ai.tool.call.result",
  /** Only on metrics. See the page on metrics. */
  tokenModality: "gen_ai.token.modality",
  /** Only on metrics of the earlier conventions: `input` or `output`. */
  tokenType: "gen_ai.token.type",
} as const;

/** Attributes of models with an API of OpenAI. */
export const OPENAI = {
  /** API of the request: `chat_completions` or `responses`. */
  apiType: "openai.api.type",
  /** Requested service tier. */
  requestServiceTier: "openai.request.service_tier",
  /** Service tier of the reply. */
  responseServiceTier: "openai.response.service_tier",
} as const;

export const ESPALIER = {
  /** Id of the run. */
  runId: "espalier.run.id",
  /** Number of the event that started the span, in the event log of the run. */
  eventSeq: "espalier.event.seq",
  /** `suspended` on the span of a paused run, else absent. */
  runState: "espalier.run.state",
  /** Segment of a run that was paused and resumed, from 2. */
  runSegment: "espalier.run.segment",
  /** Number of model calls without a known end, on the span of a run whose process crashed. */
  runLostCalls: "espalier.run.lost_calls",
  /** Number of recoveries of the run after a crash. */
  runRecoveries: "espalier.run.recoveries",
  /** Milliseconds for which a resumed run was paused. */
  runPausedMs: "espalier.run.paused_ms",
  /** Number of questions that a paused run waits for. */
  runQuestions: "espalier.run.questions",
  /** Number of answers with which a run was resumed. */
  runAnswers: "espalier.run.answers",
  /** Trace of the same run before its pause. */
  resumedFromTraceId: "espalier.resumed_from.trace_id",
  /** Number of a further trace of a large run, from 2. */
  tracePart: "espalier.trace.part",
  /** Trace in which a large trace continues. */
  continuesInTraceId: "espalier.continues_in.trace_id",
  /** Previous trace of a large run. */
  continuesFromTraceId: "espalier.continues_from.trace_id",
  /** Trace with the answer, on a wait that ended when the run was resumed. */
  answeredInTraceId: "espalier.answered_in.trace_id",
  /** Id of the run that was forked. */
  forkOf: "espalier.fork.of",
  /** Step of the root after which the fork continues. */
  forkStep: "espalier.fork.step",
  /** Trace of the forked run. */
  forkedFromTraceId: "espalier.forked_from.trace_id",
  /** Number of background subagents that have reported to the agent. The first 100 are linked. */
  awaitsCount: "espalier.awaits.count",
  /** Type of a link. See the links. */
  linkType: "espalier.link.type",
  /**
   * True on a span that the recovering process recorded again, because its process crashed first.
   */
  replayed: "espalier.replayed",
  /** Span id in the events, if the provider did not accept that id. */
  replacesSpanId: "espalier.replaces.span_id",
  /** Number of subagents that the run started. */
  runSubagents: "espalier.run.subagents",
  /** Number of refused subagents. */
  runRefusals: "espalier.run.refusals",
  /** `maxDepth` of the run. */
  limitsMaxDepth: "espalier.limits.max_depth",
  /** `maxBreadthPerParent` of the run. */
  limitsMaxBreadthPerParent: "espalier.limits.max_breadth_per_parent",
  /** `maxTotalSubagents` of the run. */
  limitsMaxTotalSubagents: "espalier.limits.max_total_subagents",
  /** Id of the agent. */
  agentId: "espalier.agent.id",
  /** Id of the parent. Absent on the root. */
  agentParentId: "espalier.agent.parent_id",
  /** Path of the agent in the tree, such as `lead/researcher#2`. */
  agentPath: "espalier.agent.path",
  /** Depth of the agent. The root has 0. */
  agentDepth: "espalier.agent.depth",
  /** Number of completed steps. */
  agentSteps: "espalier.agent.steps",
  /** Id of the execution of the agent. */
  executionId: "espalier.execution.id",
  /** Id of the step of the call. */
  stepId: "espalier.step.id",
  /** Outcome of the span. See the table of outcomes in the page on Jaeger. */
  outcome: "espalier.outcome",
  /** Code of the stop reason or pause reason of the run or agent. */
  stopReason: "espalier.stop.reason",
  /** Number of messages in the request. */
  requestMessages: "espalier.request.messages",
  /** Number of tools in the request. */
  requestTools: "espalier.request.tools",
  /** Finish reason in the provider's words. Only with content. */
  finishReasonRaw: "espalier.model.finish_reason_raw",
  /** Requested reasoning effort. */
  reasoningEffort: "espalier.model.reasoning_effort",
  /** Number of attempts of the call. */
  attempts: "espalier.attempt.count",
  /** Requested model, if another model of a fallback replied. */
  fallbackFrom: "espalier.model.fallback_from",
  /** Milliseconds for which a call waited for its rate limit, or a run for its slot. */
  queueWaitMs: "espalier.queue.wait_ms",
  /** Resource of a wait: a slot for a `model` call or a `tool`, or `budget`. */
  queueName: "espalier.queue.name",
  /** Cost of the call in US dollars, if its price is known. */
  costUsd: "espalier.cost.usd",
  /** True if no provider reported the tokens. */
  usageEstimated: "espalier.usage.estimated",
  /** `function`, `delegation`, `external` or `finish`. */
  toolKind: "espalier.tool.kind",
  /** True if the arguments were invalid JSON and a small error was repaired. */
  toolArgumentsMended: "espalier.tool.arguments_mended",
  /** Length of the whole result. */
  toolResultCharacters: "espalier.tool.result_characters",
  /** Severity of the failure. */
  toolErrorSeverity: "espalier.tool.error.severity",
  /** Role of the started subagent. If there are several, these attributes describe the last one. */
  spawnRole: "espalier.spawn.role",
  /** `foreground` or `background`. */
  spawnMode: "espalier.spawn.mode",
  /** Number of the execution of a continued subagent, from 2. */
  spawnExecution: "espalier.spawn.execution",
  /** Id of the subagent. */
  spawnAgentId: "espalier.spawn.agent.id",
  /** Path of the subagent in the tree. */
  spawnAgentPath: "espalier.spawn.agent.path",
  /** Number of messages inherited from the parent. */
  spawnInheritedMessages: "espalier.spawn.inherited_messages",
  /** Number of other messages that the subagent received. */
  spawnInjectedMessages: "espalier.spawn.injected_messages",
  /** Keys of the metadata that the subagent received. */
  spawnMetadataKeys: "espalier.spawn.metadata_keys",
  /** Hash of the inherited messages. */
  spawnInheritedHash: "espalier.spawn.inherited_hash",
  /** Hash of the other messages. */
  spawnInjectedHash: "espalier.spawn.injected_hash",
  /** Subagents whose results it received as summaries. */
  spawnSiblingResults: "espalier.spawn.sibling_results",
  /** Subagents whose results it received in full. */
  spawnResults: "espalier.spawn.results",
  /** Number of failed tool calls of the parent that it is told about. */
  spawnFailedAttempts: "espalier.spawn.failed_attempts",
  /** True if it received the constraints of its parent. */
  spawnParentConstraints: "espalier.spawn.parent_constraints",
  /** Tools of its role that were removed. */
  spawnRemovedTools: "espalier.spawn.removed_tools",
  /** Rule that removed each tool, in the same order. */
  spawnRemovalRules: "espalier.spawn.removal_rules",
  /** Agent or limit that removed each tool, in the same order. */
  spawnRemovalSources: "espalier.spawn.removal_sources",
  /** Limits of its role that are replaced by tighter ones of its ancestors. */
  spawnTightened: "espalier.spawn.tightened",
  /** Outcome of the subagent for its parent. */
  spawnOutcome: "espalier.spawn.outcome",
  /** Code of a refused subagent. */
  refusalCode: "espalier.refusal.code",
  /** Limit that refused it. */
  refusalMaximum: "espalier.refusal.maximum",
  /** Current value for that limit. */
  refusalCurrent: "espalier.refusal.current",
  /** Number of the failed attempt, from 1. */
  retryAttempt: "espalier.retry.attempt",
  /** Milliseconds before the next attempt. */
  retryDelayMs: "espalier.retry.delay_ms",
  /** Model of the next attempt, if a fallback continues with another one. */
  retryNextModel: "espalier.retry.next_model",
  /** Axis of the budget that a call exceeds. */
  refusedAxis: "espalier.budget.refused.axis",
  /** Agent whose budget it is. */
  refusedAccountPath: "espalier.budget.refused.account_path",
  /** Limit of that budget. */
  refusedMaximum: "espalier.budget.refused.maximum",
  /** Amount already spent. */
  refusedSpent: "espalier.budget.refused.spent",
  /** Amount that the call requested. */
  refusedRequested: "espalier.budget.refused.requested",
  /** Amount that the agent reserves for itself. */
  refusedReserve: "espalier.budget.refused.reserve",
  /** Axis of the limit. */
  thresholdAxis: "espalier.budget.threshold.axis",
  /** Agent whose limit it is. */
  thresholdAccountPath: "espalier.budget.threshold.account_path",
  /** Share of the limit: 0.8 or 0.95. */
  thresholdReached: "espalier.budget.threshold.reached",
  /** Amount already spent. */
  thresholdSpent: "espalier.budget.threshold.spent",
  /** Limit. */
  thresholdMaximum: "espalier.budget.threshold.maximum",
  /** Agent whose limits were raised. */
  grantedAccountPath: "espalier.budget.granted.account_path",
  /** Axes of the raised limits. */
  grantedAxes: "espalier.budget.granted.axes",
  /** Axis of a limit. Only on metrics. */
  budgetAxis: "espalier.budget.axis",
  /** Id of the question. */
  approvalId: "espalier.approval.id",
  /** `approval` or `external`. */
  approvalKind: "espalier.approval.kind",
  /** Answer to the question. */
  approvalDecision: "espalier.approval.decision",
  /** Kind of the decider, never a person: `approver`, `caller`, `deadline`, `nobody` or `end`. */
  approvalDecidedByKind: "espalier.approval.decided_by_kind",
  /** Milliseconds from the question to the answer. */
  approvalWaitMs: "espalier.approval.wait_ms",
  /** `requested` or `decided`. A question has a span for each. */
  approvalState: "espalier.approval.state",
  /** Origin of the message. */
  messageOrigin: "espalier.message.origin",
  /** Length of the message. */
  messageCharacters: "espalier.message.characters",
  /** Agent that sent the message, or whose result it is. */
  messageFromAgentId: "espalier.message.from_agent_id",
  /** Number of messages before the compaction. */
  compactionMessagesBefore: "espalier.compaction.messages_before",
  /** Number of messages after the compaction. */
  compactionMessagesAfter: "espalier.compaction.messages_after",
  /** Tokens of the history before the compaction. */
  compactionTokensBefore: "espalier.compaction.tokens_before",
  /** Tokens of the history after the compaction. */
  compactionTokensAfter: "espalier.compaction.tokens_after",
  /** Source of the cancellation. */
  signalSource: "espalier.signal.source",
  /** Number of spans that were lost before this run ended. */
  droppedSpans: "espalier.telemetry.dropped_spans",
  /** Names of the truncated attributes of the span. */
  truncated: "espalier.truncated",
} as const;

/**
 * Usage of an agent and its descendants, on `invoke_agent`. The names differ from `gen_ai.usage.*`,
 * so that no backend counts usage twice.
 */
export const SUBTREE = {
  /** Model calls. */
  modelCalls: "espalier.subtree.model_calls",
  /** Steps. */
  steps: "espalier.subtree.steps",
  /** Tool calls. */
  toolCalls: "espalier.subtree.tool_calls",
  /** Input tokens. */
  inputTokens: "espalier.subtree.input_tokens",
  /** Input tokens that were read from a cache. */
  cachedInputTokens: "espalier.subtree.cached_input_tokens",
  /** Output tokens. */
  outputTokens: "espalier.subtree.output_tokens",
  /** Output tokens that were used for reasoning. */
  reasoningTokens: "espalier.subtree.reasoning_tokens",
  /** Input tokens plus output tokens. */
  totalTokens: "espalier.subtree.total_tokens",
  /** Cost in US dollars of the calls with a known price. */
  costUsd: "espalier.subtree.cost.usd",
  /** Calls without a known price. */
  unpricedCalls: "espalier.subtree.unpriced_calls",
  /** Calls with estimated tokens. */
  estimatedCalls: "espalier.subtree.estimated_calls",
} as const satisfies Readonly<Record<keyof Usage, string>>;

/** Values of `espalier.link.type`. */
export const LINK = {
  /** This segment of a run continues the linked one. */
  resumes: "resumes",
  /** This run was forked from the linked one. */
  forkedFrom: "forked_from",
  /** The agent received the result of the linked background subagent. */
  awaits: "awaits",
  /** The linked agent sent a message to this agent. */
  messageFrom: "message_from",
  /** The trace is full and continues in the linked one. */
  continuesIn: "continues_in",
  /** This trace continues the linked one. */
  continuesFrom: "continues_from",
  /** The question that was asked here was answered in the linked trace. */
  answeredIn: "answered_in",
} as const;

/** Names of span events. */
export const SPAN_EVENT = {
  /** An attempt of a model or tool call failed and is repeated. */
  retry: "espalier.retry",
  /** A call exceeded a budget. */
  budgetRefused: "espalier.budget.refused",
  /** A share of a limit is spent. */
  budgetThreshold: "espalier.budget.threshold_reached",
  /** Limits were raised. */
  budgetGranted: "espalier.budget.granted",
  /** The agent was cancelled. */
  cancelled: "espalier.cancelled",
  /** A subagent was refused. */
  spawnRefused: "espalier.spawn.refused",
  /** A question was asked. */
  approvalRequested: "espalier.approval.requested",
  /** A question was answered. */
  approvalDecided: "espalier.approval.decided",
  /** A message from outside was added to the history. */
  messageReceived: "espalier.message.received",
  /** The history was shortened. */
  compacted: "espalier.compacted",
  /** On the span of a run: its process crashed, and another one continues it. */
  recovered: "espalier.recovered",
  /** Work of the span has ended. The span itself lasts until its last child ends. */
  over: "espalier.over",
} as const;

/**
 * Class of a failure, with few values. The only attribute name outside of `gen_ai.*` and
 * `espalier.*`.
 */
export const ERROR_TYPE = "error.type";

/** Values of `error.type` for failures without a code. */
export const FAILURE = { agent: "agent_error", tool: "tool_error", crash: "crashed" } as const;

/**
 * How a span shows an `espalier.outcome` in a row of a viewer: by its status, or as a suffix of its
 * name. docs/jaeger.md has the same table.
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

/** Values of `espalier.outcome` that no event contains. */
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

/** Replaces a tool name that a model invented, which is content and has unlimited values. */
export const UNKNOWN_TOOL = "unknown_tool";

export const SERVER = {
  /** Host of the model's server. */
  address: "server.address",
  /** Port of the model's server. */
  port: "server.port",
} as const;

export const SERVICE_NAME = "service.name";

/** Attributes of the resource, which identify the process and its versions. */
export const RESOURCE = {
  /** Process that recorded the span. */
  processId: "process.pid",
  /** `nodejs`. */
  runtimeName: "process.runtime.name",
  /** Version of Node. */
  runtimeVersion: "process.runtime.version",
  /** Machine of the process. */
  hostName: "host.name",
  /** `espalier`. */
  distroName: "telemetry.distro.name",
  /** Version of espalier. */
  distroVersion: "telemetry.distro.version",
} as const;

/**
 * Returns the attribute for the amount that an agent can spend at its start on an axis. For
 * example, `totalTokens` becomes `espalier.budget.limit.total_tokens`.
 */
export function buildBudgetLimitKey(axis: string): string {
  return `espalier.budget.limit.${axis.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`;
}

/**
 * Returns the name of a span: verb first, without ids. Subagents are numbered among their siblings.
 * `gen_ai.agent.name` is equal for all agents of a role.
 */
export function buildSpanName(operation: string, target: string): string {
  return `${operation} ${target}`;
}
