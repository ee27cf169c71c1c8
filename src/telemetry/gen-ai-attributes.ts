// Every name that espalier gives to OpenTelemetry, and the only place of such names.
// `gen_ai.*` follows the GenAI semantic conventions as of September 2026, all "Development" there;
// `espalier.*` is what they have no word for: the tree, its limits, its budget.

/** Values of `gen_ai.operation.name`; each is also the first word of its spans' names. */
export const OPERATION = {
  /** A run, from its start or resumption to its end or pause: the root of its trace. */
  workflow: "invoke_workflow",
  /** An agent, from its start or resumption to its end or pause. */
  agent: "invoke_agent",
  /** A model call, its attempts included. */
  model: "chat",
  /** A tool call, or a delegation, below which its subagent stands. */
  tool: "execute_tool",
} as const;

/** First word of the name of a call that delegates, once its subagent is known: a row of a viewer has no room for more. */
export const SPAWN = "spawn";

export const GEN_AI = {
  /** Which kind of span it is: see the operations. */
  operation: "gen_ai.operation.name",
  /** The role of the root. */
  workflowName: "gen_ai.workflow.name",
  /** The session on which a run runs: the same on all spans of the tree. Never made up. */
  conversationId: "gen_ai.conversation.id",
  /** The role of the agent. */
  agentName: "gen_ai.agent.name",
  /** The description of the role. */
  agentDescription: "gen_ai.agent.description",
  /** The provider of the model that was asked. */
  provider: "gen_ai.provider.name",
  /** The id of the model that was asked. */
  requestModel: "gen_ai.request.model",
  /** The cap on output tokens. */
  requestMaxTokens: "gen_ai.request.max_tokens",
  /** The temperature, if one was asked for. */
  requestTemperature: "gen_ai.request.temperature",
  /** `topP`, if it was asked for. */
  requestTopP: "gen_ai.request.top_p",
  /** The seed, if one was asked for. */
  requestSeed: "gen_ai.request.seed",
  /** The texts at which the model is to stop. */
  requestStopSequences: "gen_ai.request.stop_sequences",
  /** Whether the reply was asked for as a stream. */
  requestStream: "gen_ai.request.stream",
  /** Only where a model is held to the schema of a typed result: `json`. */
  outputType: "gen_ai.output.type",
  /** The id that the provider gave the reply. */
  responseId: "gen_ai.response.id",
  /** The model that answered, in the provider's word. */
  responseModel: "gen_ai.response.model",
  /** Why the reply ended: a list of one. */
  finishReasons: "gen_ai.response.finish_reasons",
  /** Input tokens of the call, failed attempts included. */
  inputTokens: "gen_ai.usage.input_tokens",
  /** Output tokens of the call, failed attempts included. */
  outputTokens: "gen_ai.usage.output_tokens",
  /** Part of the input that the provider read from its cache. */
  cacheReadInputTokens: "gen_ai.usage.cache_read.input_tokens",
  /** One thing under its new and its old name: viewers read the old one. */
  cacheWriteInputTokens: "gen_ai.usage.cache_write.input_tokens",
  /** The same as `gen_ai.usage.cache_write.input_tokens`. */
  cacheCreationInputTokens: "gen_ai.usage.cache_creation.input_tokens",
  /** Part of the output that went into reasoning. */
  reasoningOutputTokens: "gen_ai.usage.reasoning.output_tokens",
  /** The name of the tool. */
  toolName: "gen_ai.tool.name",
  /** `function`: what a tool is in the words of the conventions. */
  toolType: "gen_ai.tool.type",
  /** What the model reads about the tool. */
  toolDescription: "gen_ai.tool.description",
  /** The id of the call. */
  toolCallId: "gen_ai.tool.call.id",
  /** Content: the instructions. Only if it was asked for. */
  systemInstructions: "gen_ai.system_instructions",
  /** Content: what the model was shown, or the task of an agent. Only if it was asked for. */
  inputMessages: "gen_ai.input.messages",
  /** Content: the reply, or the answer of an agent. Only if it was asked for. */
  outputMessages: "gen_ai.output.messages",
  /** Content: the tools that were offered. Only if it was asked for. */
  toolDefinitions: "gen_ai.tool.definitions",
  /** Content: the arguments of the call. Only if it was asked for. */
  toolCallArguments: "gen_ai.tool.call.arguments",
  /** Content: the result of the call. Only if it was asked for. */
  toolCallResult: "gen_ai.tool.call.result",
  /** Only on metrics; see metric-names.ts. */
  tokenModality: "gen_ai.token.modality",
  /** Only on metrics of old names: `input` or `output`. */
  tokenType: "gen_ai.token.type",
} as const;

/** What only models by OpenAI's interfaces have. */
export const OPENAI = {
  /** The interface over which it was asked: `chat_completions` or `responses`. */
  apiType: "openai.api.type",
  /** How fast it was to be served. */
  requestServiceTier: "openai.request.service_tier",
  /** How fast it was served. */
  responseServiceTier: "openai.response.service_tier",
} as const;

export const ESPALIER = {
  /** The id of the run. */
  runId: "espalier.run.id",
  /** Number of the event with which the span began, in the event log of the run. */
  eventSeq: "espalier.event.seq",
  /** Only on the span of a run that was paused; see `RUN_STATE`. */
  runState: "espalier.run.state",
  /** From 2: which segment of a run that was paused and resumed. */
  runSegment: "espalier.run.segment",
  /** Only on the span of a run whose process had died: model calls whose end is unknown. */
  runLostCalls: "espalier.run.lost_calls",
  /** How often the run was recovered after its process had died. */
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
  /** On the span around a further trace: the one before. */
  continuesFromTraceId: "espalier.continues_from.trace_id",
  /** A wait that ended at a resume is a trace of its own; this one has the answer. */
  answeredInTraceId: "espalier.answered_in.trace_id",
  /** The run from which this one was forked. */
  forkOf: "espalier.fork.of",
  /** The step of its root after which the fork goes its own way. */
  forkStep: "espalier.fork.step",
  /** The trace of that run. */
  forkedFromTraceId: "espalier.forked_from.trace_id",
  /** How many subagents in the background have reported to an agent; the first 100 of them are linked. */
  awaitsCount: "espalier.awaits.count",
  /** On links; see `LINK`. */
  linkType: "espalier.link.type",
  /** Only on a span whose process died before it ended: it was recorded again by the process that recovered the run. */
  replayed: "espalier.replayed",
  /** The id under which events speak of such a span, where the provider did not let it have that. */
  replacesSpanId: "espalier.replaces.span_id",
  /** How many subagents the run has started. */
  runSubagents: "espalier.run.subagents",
  /** How many subagents were refused. */
  runRefusals: "espalier.run.refusals",
  /** The limit of the run on depth. */
  limitsMaxDepth: "espalier.limits.max_depth",
  /** The limit of the run on subagents of one agent. */
  limitsMaxBreadthPerParent: "espalier.limits.max_breadth_per_parent",
  /** The limit of the run on subagents in all. */
  limitsMaxTotalSubagents: "espalier.limits.max_total_subagents",
  /** The id of the agent. */
  agentId: "espalier.agent.id",
  /** The id of its parent; not on a root. */
  agentParentId: "espalier.agent.parent_id",
  /** Its place in the tree: `lead/researcher#2`. */
  agentPath: "espalier.agent.path",
  /** Its depth, 0 for the root. */
  agentDepth: "espalier.agent.depth",
  /** How many steps it has completed. */
  agentSteps: "espalier.agent.steps",
  /** Which execution of the agent it is. */
  executionId: "espalier.execution.id",
  /** The step to which the call belongs. */
  stepId: "espalier.step.id",
  /** How it ended: see the table of outcomes in the page on Jaeger. */
  outcome: "espalier.outcome",
  /** The code of the reason for which the run or the agent ended, or is paused. */
  stopReason: "espalier.stop.reason",
  /** How many messages the model was shown. */
  requestMessages: "espalier.request.messages",
  /** How many tools the model was offered. */
  requestTools: "espalier.request.tools",
  /** Why the model stopped, as text of the provider. Only where content is recorded. */
  finishReasonRaw: "espalier.model.finish_reason_raw",
  /** As it was asked for. */
  reasoningEffort: "espalier.model.reasoning_effort",
  /** How many attempts the call took. */
  attempts: "espalier.attempt.count",
  /** Only on a call that another model of a fallback answered: the one that was asked for. */
  fallbackFrom: "espalier.model.fallback_from",
  /** Milliseconds in which the call waited for a place, or the run for its slot. */
  queueWaitMs: "espalier.queue.wait_ms",
  /** What was waited for: a slot for a `model` call or a `tool`, or `budget`. */
  queueName: "espalier.queue.name",
  /** US dollars that the call cost, if its price is known. */
  costUsd: "espalier.cost.usd",
  /** True if no provider reported the tokens. */
  usageEstimated: "espalier.usage.estimated",
  /** `function`, `delegation`, `external` or `finish`. */
  toolKind: "espalier.tool.kind",
  /** True if the arguments were no JSON until a small slip in them was mended. */
  toolArgumentsMended: "espalier.tool.arguments_mended",
  /** Length of the whole result. */
  toolResultCharacters: "espalier.tool.result_characters",
  /** What the failure means for what follows. */
  toolErrorSeverity: "espalier.tool.error.severity",
  /** The role of the subagent that the call started; this and what follows: of the last, if there are several. */
  spawnRole: "espalier.spawn.role",
  /** Whether it works in the foreground or in the background. */
  spawnMode: "espalier.spawn.mode",
  /** From 2, of a subagent that is continued: which execution it is. */
  spawnExecution: "espalier.spawn.execution",
  /** The id of the subagent. */
  spawnAgentId: "espalier.spawn.agent.id",
  /** The place of the subagent in the tree. */
  spawnAgentPath: "espalier.spawn.agent.path",
  /** How many messages of its parent it was given. */
  spawnInheritedMessages: "espalier.spawn.inherited_messages",
  /** How many messages it was given besides. */
  spawnInjectedMessages: "espalier.spawn.injected_messages",
  /** Keys of the metadata that it got. */
  spawnMetadataKeys: "espalier.spawn.metadata_keys",
  /** Fingerprint of the messages of its parent. */
  spawnInheritedHash: "espalier.spawn.inherited_hash",
  /** Fingerprint of the messages besides. */
  spawnInjectedHash: "espalier.spawn.injected_hash",
  /** Subagents whose results it was shown in short. */
  spawnSiblingResults: "espalier.spawn.sibling_results",
  /** Subagents whose results it was given word for word. */
  spawnResults: "espalier.spawn.results",
  /** How many failed tool calls of its parent it reads of. */
  spawnFailedAttempts: "espalier.spawn.failed_attempts",
  /** True if it reads what binds its parent. */
  spawnParentConstraints: "espalier.spawn.parent_constraints",
  /** Tools of its role that it does not have. */
  spawnRemovedTools: "espalier.spawn.removed_tools",
  /** By which rule, in the same order. */
  spawnRemovalRules: "espalier.spawn.removal_rules",
  /** Whose policy or limit it was, in the same order. */
  spawnRemovalSources: "espalier.spawn.removal_sources",
  /** Limits of its role that do not hold, since those above are tighter. */
  spawnTightened: "espalier.spawn.tightened",
  /** What the result of the subagent is worth. */
  spawnOutcome: "espalier.spawn.outcome",
  /** Why a subagent was not started. */
  refusalCode: "espalier.refusal.code",
  /** The limit behind it. */
  refusalMaximum: "espalier.refusal.maximum",
  /** Where that limit stood. */
  refusalCurrent: "espalier.refusal.current",
  /** Which attempt failed, from 1. */
  retryAttempt: "espalier.retry.attempt",
  /** Milliseconds that were waited before the next one. */
  retryDelayMs: "espalier.retry.delay_ms",
  /** Only where an attempt continues: with which model of a fallback. */
  retryNextModel: "espalier.retry.next_model",
  /** The axis of the budget that a call did not fit. */
  deniedAxis: "espalier.budget.denied.axis",
  /** Whose budget it was. */
  deniedAccountPath: "espalier.budget.denied.account_path",
  /** Its limit. */
  deniedMaximum: "espalier.budget.denied.maximum",
  /** What of it was spent. */
  deniedSpent: "espalier.budget.denied.spent",
  /** What the call would have taken. */
  deniedRequested: "espalier.budget.denied.requested",
  /** What of the rest the agent keeps for itself. */
  deniedReserve: "espalier.budget.denied.reserve",
  /** The axis of the limit. */
  thresholdAxis: "espalier.budget.threshold.axis",
  /** The agent whose limit it is. */
  thresholdAccountPath: "espalier.budget.threshold.account_path",
  /** A part of the limit: 0.8 or 0.95. */
  thresholdReached: "espalier.budget.threshold.reached",
  /** What of it is spent. */
  thresholdSpent: "espalier.budget.threshold.spent",
  /** The limit. */
  thresholdMaximum: "espalier.budget.threshold.maximum",
  /** The agent whose limits were raised. */
  grantedAccountPath: "espalier.budget.granted.account_path",
  /** On which axes. */
  grantedAxes: "espalier.budget.granted.axes",
  /** Only on a metric: which limit. */
  budgetAxis: "espalier.budget.axis",
  /** The id of the question. */
  approvalId: "espalier.approval.id",
  /** `approval` or `external`. */
  approvalKind: "espalier.approval.kind",
  /** What came of the question. */
  approvalDecision: "espalier.approval.decision",
  /** Never a person: `approver`, `caller`, `deadline`, `nobody` or `end`. */
  approvalDecidedByKind: "espalier.approval.decided_by_kind",
  /** Milliseconds from the question to the answer. */
  approvalWaitMs: "espalier.approval.wait_ms",
  /** `requested` or `decided`: a question has a span for each. */
  approvalState: "espalier.approval.state",
  /** Where the message came from. */
  messageOrigin: "espalier.message.origin",
  /** Length of the message. */
  messageCharacters: "espalier.message.characters",
  /** The agent that sent it, or whose result it is. */
  messageFromAgentId: "espalier.message.from_agent_id",
  /** Length of the history before. */
  compactionMessagesBefore: "espalier.compaction.messages_before",
  /** Length of the history after. */
  compactionMessagesAfter: "espalier.compaction.messages_after",
  /** Tokens of the history before. */
  compactionTokensBefore: "espalier.compaction.tokens_before",
  /** Tokens of the history after. */
  compactionTokensAfter: "espalier.compaction.tokens_after",
  /** Who cancelled it. */
  signalSource: "espalier.signal.source",
  /** How many spans of the run never reached their backend. */
  droppedSpans: "espalier.telemetry.dropped_spans",
  /** Names of the attributes of a span that are not whole. */
  truncated: "espalier.truncated",
} as const;

/**
 * What an agent and all its descendants consumed: on `invoke_agent`, so that nothing counts
 * `gen_ai.usage.*` twice.
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
  /** Part of them that was read from a cache. */
  cachedInputTokens: "espalier.subtree.cached_input_tokens",
  /** Output tokens. */
  outputTokens: "espalier.subtree.output_tokens",
  /** Part of them that went into reasoning. */
  reasoningTokens: "espalier.subtree.reasoning_tokens",
  /** Input plus output. */
  totalTokens: "espalier.subtree.total_tokens",
  /** US dollars, of the calls whose price is known. */
  costUsd: "espalier.subtree.cost.usd",
  /** Calls whose price is not known. */
  unpricedCalls: "espalier.subtree.unpriced_calls",
  /** Calls whose tokens are estimated. */
  estimatedCalls: "espalier.subtree.estimated_calls",
} as const;

/** Values of `espalier.link.type`: what a link means. */
export const LINK = {
  /** This segment of a run continues that one. */
  resumes: "resumes",
  /** This run was forked from that one. */
  forkedFrom: "forked_from",
  /** The agent was given the result of that one, which worked in the background. */
  awaits: "awaits",
  /** The agent was sent a message by that one. */
  messageFrom: "message_from",
  /** The trace grew too large, and continues there. */
  continuesIn: "continues_in",
  /** This trace continues that one. */
  continuesFrom: "continues_from",
  /** The wait that began here was answered there. */
  answeredIn: "answered_in",
} as const;

/** Names of span events. */
export const SPAN_EVENT = {
  /** An attempt of a model call, or of a tool, failed and is made again. */
  retry: "espalier.retry",
  /** A call did not fit a budget. */
  budgetDenied: "espalier.budget.denied",
  /** So much of a limit is spent. */
  budgetThreshold: "espalier.budget.threshold_reached",
  /** Limits were raised. */
  budgetGranted: "espalier.budget.granted",
  /** The agent was cancelled. */
  cancelled: "espalier.cancelled",
  /** A subagent was not started. */
  spawnRefused: "espalier.spawn.refused",
  /** A question was asked. */
  approvalRequested: "espalier.approval.requested",
  /** A question was answered. */
  approvalDecided: "espalier.approval.decided",
  /** A message from outside was put into the history. */
  messageReceived: "espalier.message.received",
  /** The history was made shorter. */
  compacted: "espalier.compacted",
  /** On the span of a run: its process had died, and another one continues it. */
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

export const SERVER = {
  /** The host at which the model is served. */
  address: "server.address",
  /** Its port. */
  port: "server.port",
} as const;

export const SERVICE_NAME = "service.name";

/** Attributes of the resource: which process recorded a span, where, and as which version. */
export const RESOURCE = {
  /** The process that recorded the span. */
  processId: "process.pid",
  /** `nodejs`. */
  runtimeName: "process.runtime.name",
  /** The version of Node. */
  runtimeVersion: "process.runtime.version",
  /** The machine. */
  hostName: "host.name",
  /** `espalier`. */
  distroName: "telemetry.distro.name",
  /** The version of espalier. */
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
