// The only changes of an agent's state, one function for each. Each is pure: it returns a new state
// and never modifies the given one. Throws `illegal_transition` if the state does not allow the
// change.
//
//   pending ──markStarted──▶ running ──endExecution──▶ completed | stopped | failed | cancelled
//      ▲                      ▲   │                                  │
//      │         resumeExecution  pauseExecution                     │
//      │                      │   ▼                                  │
//      │                     paused                                  │
//      └───────────────────── continueExecution ─────────────────────┘

import { EspalierError } from "../kernel/error.ts";
import { freezeInTests } from "../kernel/freeze-shared.ts";
import type { MeasuredPrefix } from "../model/count-tokens.ts";
import type { AgentId, ExecutionId } from "../protocol/ids.ts";
import type { Message, ToolMessage } from "../protocol/message.ts";
import { addTiming, NO_TIMING, type StepTiming } from "../protocol/step-timing.ts";
import type { ErrorRecord, StopReason, StopSignal, TerminalStatus } from "../protocol/stop.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import { addUsage, NO_USAGE, type Usage } from "../protocol/usage.ts";
import { countFailures, hasFailures } from "../policies/failure-counts.ts";
import { createResultMessage } from "../tools/tool-result.ts";
import {
  replaceMessages,
  tagRest,
  appendMessages,
  findHistoryChange,
  type TagPlace,
} from "./message-tags.ts";
import {
  isRetryAfterOverflow,
  NO_PREFIX,
  createPendingState,
  type AgentState,
  type Deferral,
  type EndedState,
  type FiredParts,
  type MadeSection,
  type OpenStep,
  type PausedState,
  type PendingState,
  type ExecutionLog,
  type RunningState,
  type StepReply,
  type Subtask,
} from "./agent-state.ts";

/** An execution with an open step. */
type InStep = RunningState & { readonly step: OpenStep };

function assertRunning(state: AgentState, change: string): asserts state is RunningState {
  if (state.status !== "running") throw refuseChange(state, change);
}

function assertInStep(state: AgentState, change: string): asserts state is InStep {
  if (state.status !== "running" || state.step === undefined) throw refuseChange(state, change);
}

/** Throws if the model has replied in the open step. */
function assertNoReply(state: AgentState, change: string): asserts state is InStep {
  assertInStep(state, change);
  if (state.step.reply !== undefined) throw refuseChange(state, change);
}

function refuseChange(state: AgentState, change: string): EspalierError {
  const step = state.step === undefined ? "" : " with an open step";
  return new EspalierError({
    code: "illegal_transition",
    message: `Cannot apply ${change} to a ${state.status} execution${step}. See the changes that each status allows in transition.ts.`,
    data: { status: state.status, change },
  });
}

// The execution

interface ExecutionBegin {
  readonly executionId: ExecutionId;
  readonly atMs: number;
  /** Milliseconds for which the account's clock has been paused so far. */
  readonly pausedMs: number;
}

export function markStarted(
  state: AgentState,
  { executionId, atMs, pausedMs }: ExecutionBegin,
): RunningState {
  if (state.status !== "pending") throw refuseChange(state, "markStarted");
  return freezeInTests({
    status: "running",
    executionId,
    conversation: tagRest(state.conversation, { executionId, stepNumber: 0 }),
    log: state.log,
    telemetry: { ...state.telemetry, startedAtMs: atMs, pausedBeforeMs: pausedMs || undefined },
    step: undefined,
  });
}

export function pauseExecution(state: AgentState, reason: StopReason): PausedState {
  assertRunning(state, "pauseExecution");
  return freezeInTests({ ...state, status: "paused", reason });
}

export function resumeExecution(state: AgentState): RunningState {
  if (state.status !== "paused") throw refuseChange(state, "resumeExecution");
  const { reason: _over, ...rest } = state;
  return freezeInTests({ ...rest, status: "running" });
}

export function endExecution(
  state: AgentState,
  ending: {
    readonly status: TerminalStatus;
    readonly reason: StopReason;
    readonly atMs: number;
  },
): EndedState {
  assertRunning(state, "endExecution");
  const { executionId, conversation, log, telemetry, step } = state;
  if (step !== undefined) throw refuseChange(state, "endExecution");
  const { status, reason, atMs } = ending;
  const ended = { ...telemetry, endedAtMs: atMs };
  return freezeInTests({ status, reason, executionId, conversation, log, telemetry: ended });
}

/**
 * Returns the first state of a further execution. The history and the queue remain. Steps, signals,
 * errors, counters and usage are reset. `instructions` replace the earlier ones.
 */
export function continueExecution(
  state: AgentState,
  {
    executionId,
    instructions,
    messages: added,
  }: {
    readonly executionId: ExecutionId;
    readonly instructions: string;
    readonly messages: readonly Message[];
  },
): PendingState {
  if (state.status === "pending" || state.status === "running" || state.status === "paused")
    throw refuseChange(state, "continueExecution");
  let { conversation } = state;
  const [first] = conversation.messages;
  if (first?.role === "system" && first.text !== instructions) {
    const { messages, tags } = conversation;
    const number = conversation.added + 1;
    conversation = {
      ...conversation,
      messages: [{ ...first, text: instructions }, ...messages.slice(1)],
      tags: [{ executionId, stepNumber: 0, number }, ...tags.slice(1)],
      added: number,
      prefix: NO_PREFIX,
    };
  }
  const messages = conversation.messages.concat(added);
  const next = createPendingState({ ...conversation, messages });
  const { subtasks, background } = state.log;
  const isTaskHandled =
    state.log.isTaskHandled ||
    added.some((message) => message.role === "user" && message.origin === "task");
  return freezeInTests({ ...next, log: { ...next.log, subtasks, background, isTaskHandled } });
}

// Steps

/** The facts with which a step is opened. */
type StepOpening = Pick<
  OpenStep,
  "stepId" | "number" | "context" | "messageCount" | "hiddenTools" | "lastStep" | "startedAtMs"
>;

export function openStep(state: AgentState, opening: StepOpening): RunningState {
  assertRunning(state, "openStep");
  const { step: open, log } = state;
  const step: OpenStep = {
    ...opening,
    reply: undefined,
    executions: [],
    deferrals: [],
    limit: undefined,
    hasAppliedResults: false,
    usage: NO_USAGE,
    timing: NO_TIMING,
    error: undefined,
  };
  if (open !== undefined) return reopenStep(state, open, step);
  const resumed = log.isAwaiting ? updateLog(state, { isAwaiting: false }) : state;
  return freezeInTests({ ...resumed, step });
}

/**
 * Opens the step again with a shorter history. The earlier request counts as never shown, but is
 * charged.
 */
function reopenStep(state: RunningState, before: OpenStep, step: OpenStep): RunningState {
  if (!isRetryAfterOverflow(state) || before.error !== undefined)
    throw refuseChange(state, "openStep");
  const afterStep = state.log.steps.length;
  const compactions = state.log.compactions.map((compaction) =>
    compaction.afterStep > afterStep ? { ...compaction, afterStep } : compaction,
  );
  const { startedAtMs, usage, timing } = before;
  const reopened = updateLog(state, { compactions });
  return freezeInTests({ ...reopened, step: { ...step, startedAtMs, usage, timing } });
}

/**
 * Adds usage to the open step. `timing` is how the time was spent, and absent if no time was spent.
 */
export function recordUsage(state: AgentState, added: Usage, timing?: StepTiming): RunningState {
  assertInStep(state, "recordUsage");
  const { step } = state;
  const usage = addUsage(step.usage, added);
  const spent = timing === undefined ? step.timing : addTiming(step.timing, timing);
  return freezeInTests({ ...state, step: { ...step, usage, timing: spent } });
}

export function recordReply(
  state: AgentState,
  reply: StepReply,
  prefix: MeasuredPrefix,
): RunningState {
  assertNoReply(state, "recordReply");
  const { step } = state;
  const replied = updateLog(state, { uselessReplies: 0, overflows: 0 });
  const place = { executionId: state.executionId, stepNumber: step.number };
  return freezeInTests({
    ...replied,
    conversation: { ...appendMessages(state.conversation, [reply.message], place), prefix },
    step: { ...step, reply },
  });
}

/** Counts a useless reply, which is charged but not added to the history. */
export function discardReply(state: AgentState, reply: StepReply): RunningState {
  assertNoReply(state, "discardReply");
  if (reply.message.toolCalls.length > 0) throw refuseChange(state, "discardReply");
  const uselessReplies = state.log.uselessReplies + 1;
  const counted = updateLog(state, { uselessReplies, overflows: 0 });
  return freezeInTests({ ...counted, step: { ...state.step, reply } });
}

/** Records that the model refused the request as too long. */
export function recordOverflow(state: AgentState, error: ErrorRecord): RunningState {
  assertNoReply(state, "recordOverflow");
  const overflowed = updateLog(state, { overflows: state.log.overflows + 1 });
  return freezeInTests({ ...overflowed, step: { ...state.step, error } });
}

/** Records that evaluate has accepted the calls of the reply. */
export function recordEvaluation(state: AgentState): RunningState {
  assertInStep(state, "recordEvaluation");
  return freezeInTests({ ...state, step: { ...state.step, isEvaluated: true } });
}

/** Adds results to the open step in call order, also across a pause. */
export function recordExecutions(
  state: AgentState,
  update: {
    readonly executions: readonly ToolExecution[];
    /**
     * Calls that wait for an answer from outside or for a paused subagent. They replace earlier
     * ones.
     */
    readonly deferrals: readonly Deferral[];
    /** The signal of the limit that refused one of the calls. */
    readonly limitSignal?: StopSignal | undefined;
    /**
     * Number of charged calls.
     *
     * @default 0
     */
    readonly toolCalls?: number;
    /** How the time of the calls was spent. Absent if no time was spent. */
    readonly timing?: StepTiming;
  },
): RunningState {
  assertInStep(state, "recordExecutions");
  const { step } = state;
  const known = new Map<string, ToolExecution>();
  for (const execution of step.executions) known.set(execution.call.callId, execution);
  for (const execution of update.executions) known.set(execution.call.callId, execution);
  const executions: ToolExecution[] = [];
  for (const { callId } of step.reply?.message.toolCalls ?? []) {
    const execution = known.get(callId);
    if (execution !== undefined) executions.push(execution);
  }
  const isNew = executions.length === step.executions.length + update.executions.length;
  if (!isNew || step.hasAppliedResults) throw refuseChange(state, "recordExecutions");
  const { deferrals, limitSignal, toolCalls = 0, timing = NO_TIMING } = update;
  return freezeInTests({
    ...state,
    step: {
      ...step,
      executions,
      deferrals,
      limit: step.limit ?? limitSignal,
      usage: toolCalls === 0 ? step.usage : addUsage(step.usage, { ...NO_USAGE, toolCalls }),
      timing: addTiming(step.timing, timing),
    },
  });
}

/**
 * Adds the results to the history: one for every call, in call order, and none before all are
 * known. Counts the failed calls, exactly once.
 */
export function recordResults(state: AgentState): RunningState {
  assertInStep(state, "recordResults");
  const { step } = state;
  const isComplete = step.executions.length === step.reply?.message.toolCalls.length;
  if (!isComplete || step.hasAppliedResults) throw refuseChange(state, "recordResults");
  const messages: ToolMessage[] = [];
  const subtasks = [...state.log.subtasks];
  const background = [...state.log.background];
  const reportedIds: AgentId[] = [];
  for (const execution of step.executions) {
    messages.push(createResultMessage(execution));
    for (const request of execution.subtasks ?? []) subtasks.push({ request });
    background.push(...(execution.startedAgentIds ?? []));
    reportedIds.push(...(execution.reportedAgentIds ?? []));
  }
  const { failures: before } = state.log;
  const failures = hasFailures(before, step.executions)
    ? countFailures(before, step.executions)
    : before;
  const grown = updateLog(extendHistory(state, messages), { subtasks, background, failures });
  return freezeInTests({
    ...dropReported(grown, reportedIds),
    step: { ...step, hasAppliedResults: true, deferrals: [] },
  });
}

/** Replaces the open step with its record. */
export function recordStep(
  state: AgentState,
  { atMs, elapsedMs }: { readonly atMs: number; readonly elapsedMs: number },
): RunningState {
  assertInStep(state, "recordStep");
  const { step } = state;
  const { reply, error } = step;
  const { text = "", refusal, toolCalls: calls = [] } = reply?.message ?? {};
  const hasCalls = calls.length > 0;
  if (hasCalls && !step.hasAppliedResults) throw refuseChange(state, "recordStep");
  // In a step without calls, the text is the typed result.
  const isResult = !hasCalls && state.log.output !== undefined;
  const record: StepRecord = {
    stepId: step.stepId,
    number: step.number,
    context: step.context,
    io: {
      messageCount: step.messageCount,
      text,
      ...(isResult ? { isResult } : {}),
      ...(refusal === undefined ? {} : { refusal }),
      finishReason: reply?.finishReason ?? "error",
    },
    tools: { calls, executions: step.executions },
    telemetry: {
      usage: step.usage,
      startedAtMs: step.startedAtMs,
      endedAtMs: atMs,
      elapsedMs,
      timing: step.timing,
    },
    ...(error === undefined ? {} : { error }),
  };
  const usage = addUsage(state.telemetry.usage, step.usage);
  return freezeInTests({
    ...updateLog(state, { steps: state.log.steps.concat(record) }),
    telemetry: { ...state.telemetry, usage },
    step: undefined,
  });
}

// History

/** Returns the state with the task in its history. Without messages, the task was dropped. */
export function recordTask(state: AgentState, messages: readonly Message[]): RunningState {
  assertRunning(state, "recordTask");
  if (state.log.isTaskHandled) throw refuseChange(state, "recordTask");
  return freezeInTests(updateLog(extendHistory(state, messages), { isTaskHandled: true }));
}

/**
 * Adds messages to the history. `reportedIds` are the background subagents whose results are among
 * them.
 */
export function addMessages(
  state: AgentState,
  messages: readonly Message[],
  reportedIds: readonly AgentId[] = [],
): RunningState {
  assertRunning(state, "addMessages");
  return freezeInTests(dropReported(extendHistory(state, messages), reportedIds));
}

export function recordVeto(state: AgentState, message: Message): RunningState {
  assertRunning(state, "recordVeto");
  return freezeInTests(
    updateLog(extendHistory(state, [message]), { vetoes: state.log.vetoes + 1 }),
  );
}

/**
 * Records sections created for the execution. `messages` are the persistent ones, which are added
 * to the history.
 */
export function recordSections(
  state: AgentState,
  sections: readonly MadeSection[],
  messages: readonly Message[],
): RunningState {
  assertRunning(state, "recordSections");
  return freezeInTests(updateLog(extendHistory(state, messages), { sections }));
}

/**
 * Replaces the history with a shorter one. `spent` is the usage of shortening it between two steps.
 */
export function replaceHistory(
  state: AgentState,
  messages: readonly Message[],
  spent?: Usage,
): RunningState {
  assertRunning(state, "replaceHistory");
  const conversation = replaceMessages(state.conversation, messages, findPlace(state));
  const { log, step, telemetry } = state;
  // The request of an open step contained the old history.
  const shownTo = log.steps.length + (step === undefined ? 0 : 1);
  const change = findHistoryChange(state.conversation, conversation, shownTo);
  const compactions = change === undefined ? log.compactions : [...log.compactions, change];
  const usage = spent === undefined ? telemetry.usage : addUsage(telemetry.usage, spent);
  return freezeInTests({
    ...updateLog(state, { compactions }),
    conversation: { ...conversation, prefix: NO_PREFIX },
    step: step === undefined ? undefined : { ...step, error: undefined },
    telemetry: { ...telemetry, usage },
  });
}

// Log

/** Records the typed result. `undefined` removes it, because the agent continues. */
export function recordOutput(
  state: AgentState,
  { output, outputParse }: Partial<Pick<ExecutionLog, "output" | "outputParse">>,
): RunningState {
  assertRunning(state, "recordOutput");
  const { outputParse: _former, ...log } = state.log;
  const parse = outputParse === undefined ? {} : { outputParse };
  return freezeInTests({ ...state, log: { ...log, output, ...parse } });
}

/** Counts a text reply given while waiting for subagents instead of the required typed result. */
export function recordWait(state: AgentState): RunningState {
  assertRunning(state, "recordWait");
  return freezeInTests(updateLog(state, { waits: (state.log.waits ?? 0) + 1 }));
}

export function recordSubtasks(state: AgentState, subtasks: readonly Subtask[]): RunningState {
  assertRunning(state, "recordSubtasks");
  return freezeInTests(updateLog(state, { subtasks }));
}

/** Records that the agent has nothing to do but to wait for its background subagents. */
export function awaitSubagents(state: AgentState): RunningState {
  assertRunning(state, "awaitSubagents");
  return freezeInTests(updateLog(state, { isAwaiting: true, uselessReplies: 0 }));
}

/**
 * Removes subagents that have ended or were detached, because their parent stops. Subtasks with a
 * paused subagent are dropped, and the rest of the queue remains. `unread` are the background
 * subagents whose results the agent reads if it is continued later.
 */
export function dropSubagents(state: AgentState, unread: readonly AgentId[]): RunningState {
  assertRunning(state, "dropSubagents");
  const subtasks = state.log.subtasks.filter(({ childId }) => childId === undefined);
  return freezeInTests(updateLog(state, { subtasks, background: unread }));
}

/**
 * Records fired parts of stop conditions, which stay fired. Replaces earlier reasons of the same
 * parts.
 */
export function recordFired(state: AgentState, fired: FiredParts): RunningState {
  assertRunning(state, "recordFired");
  return freezeInTests(updateLog(state, { fired: { ...state.log.fired, ...fired } }));
}

export function recordSignal(state: AgentState, signal: StopSignal): RunningState {
  assertRunning(state, "recordSignal");
  return freezeInTests(updateLog(state, { signals: [...state.log.signals, signal] }));
}

/** Records an error in the log, as a signal and in the open step. */
export function recordError(state: AgentState, error: ErrorRecord): RunningState {
  assertRunning(state, "recordError");
  const { log, step } = state;
  const reason: StopReason = { code: "error", message: error.message, data: { error: error.code } };
  const by = error.data["hook"] ?? error.data["condition"];
  const name = typeof by === "string" ? { name: by } : {};
  const errors = [...log.errors, error];
  const signals = [...log.signals, { source: "loop" as const, reason, ...name }];
  const failed = updateLog(state, { errors, signals });
  return freezeInTests({ ...failed, step: step === undefined ? undefined : { ...step, error } });
}

/** Adds the time that the agent waited for a lease. */
export function addWaitedTime(state: AgentState, waitedMs: number): RunningState {
  assertRunning(state, "addWaitedTime");
  const budgetWaitMs = state.telemetry.budgetWaitMs + waitedMs;
  return freezeInTests({ ...state, telemetry: { ...state.telemetry, budgetWaitMs } });
}

/** Removes subagents whose results the model has received. */
function dropReported(state: RunningState, reportedIds: readonly AgentId[]): RunningState {
  if (reportedIds.length === 0) return state;
  const { background } = state.log;
  return updateLog(state, { background: background.filter((id) => !reportedIds.includes(id)) });
}

function extendHistory(state: RunningState, added: readonly Message[]): RunningState {
  return { ...state, conversation: appendMessages(state.conversation, added, findPlace(state)) };
}

/**
 * Returns the position of a new message: the open step if the model has replied in it, otherwise
 * the last completed step.
 */
function findPlace({ executionId, step, log }: RunningState): TagPlace {
  return { executionId, stepNumber: step?.reply === undefined ? log.steps.length : step.number };
}

function updateLog(state: RunningState, part: Partial<ExecutionLog>): RunningState {
  return { ...state, log: { ...state.log, ...part } };
}
