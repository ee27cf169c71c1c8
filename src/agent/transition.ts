// The only way an agent's state moves: one function for each change. Each is pure: it returns a new state, or throws
// `illegal_transition` if the state does not allow the change. The given state is never changed.
//
//   pending ──markStarted──▶ running ──endExecution──▶ completed | stopped | failed | cancelled ──continueExecution──▶ pending
//                            ▲     │
//              resumeExecution  pauseExecution
//                            │     ▼
//                            paused

import { EspalierError } from "../kernel/error.ts";
import { freezeInTests } from "../kernel/shared.ts";
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

/** An execution with an open step: everything that happens in a step needs one. */
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
  /** Time for which the account's clock has been paused so far. */
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
  given: {
    readonly status: TerminalStatus;
    readonly reason: StopReason;
    readonly atMs: number;
  },
): EndedState {
  assertRunning(state, "endExecution");
  const { executionId, conversation, log, telemetry, step } = state;
  if (step !== undefined) throw refuseChange(state, "endExecution");
  const { status, reason, atMs } = given;
  const ended = { ...telemetry, endedAtMs: atMs };
  return freezeInTests({ status, reason, executionId, conversation, log, telemetry: ended });
}

/**
 * Returns the first state of a further execution. History and queue stay. Steps, signals, errors, counters and
 * usage begin anew. `instructions` replace the earlier ones.
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

// Its steps

export function openStep(
  state: AgentState,
  given: Pick<
    OpenStep,
    "stepId" | "number" | "context" | "messageCount" | "hiddenTools" | "lastStep" | "startedAtMs"
  >,
): RunningState {
  assertRunning(state, "openStep");
  const { step: open, log } = state;
  const step: OpenStep = {
    ...given,
    reply: undefined,
    executions: [],
    deferrals: [],
    limit: undefined,
    hasAppliedResults: false,
    usage: NO_USAGE,
    timing: NO_TIMING,
    error: undefined,
  };
  const resumed = log.isAwaiting ? updateLog(state, { isAwaiting: false }) : state;
  if (open === undefined) return freezeInTests({ ...resumed, step });
  // The step shows the model a shorter history. What it showed before counts as never shown, but is paid for.
  if (!isRetryAfterOverflow(state) || open.error !== undefined)
    throw refuseChange(state, "openStep");
  const afterStep = log.steps.length;
  const compactions = log.compactions.map((one) =>
    one.afterStep > afterStep ? { ...one, afterStep } : one,
  );
  const { startedAtMs, usage, timing } = open;
  const reopened = updateLog(state, { compactions });
  return freezeInTests({ ...reopened, step: { ...step, startedAtMs, usage, timing } });
}

/** `timing`: what the time went into. Left out if it took none. */
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

/** A useless reply is paid for and counted, and stays out of the history. */
export function discardReply(state: AgentState, reply: StepReply): RunningState {
  assertNoReply(state, "discardReply");
  if (reply.message.toolCalls.length > 0) throw refuseChange(state, "discardReply");
  const uselessReplies = state.log.uselessReplies + 1;
  const counted = updateLog(state, { uselessReplies, overflows: 0 });
  return freezeInTests({ ...counted, step: { ...state.step, reply } });
}

/** The model refused the request as too long. */
export function recordOverflow(state: AgentState, error: ErrorRecord): RunningState {
  assertNoReply(state, "recordOverflow");
  const overflowed = updateLog(state, { overflows: state.log.overflows + 1 });
  return freezeInTests({ ...overflowed, step: { ...state.step, error } });
}

/** Notes that evaluate has let the calls of the reply through. */
export function recordEvaluation(state: AgentState): RunningState {
  assertInStep(state, "recordEvaluation");
  return freezeInTests({ ...state, step: { ...state.step, isEvaluated: true } });
}

/** Results come in as they are known and are kept in call order, also over a pause. */
export function recordExecutions(
  state: AgentState,
  given: {
    readonly executions: readonly ToolExecution[];
    /** Calls that wait for an answer from outside. They replace earlier ones. */
    readonly deferrals: readonly Deferral[];
    /** The limit that refused one of the calls. */
    readonly limit?: StopSignal | undefined;
    /** How many calls were charged for them. @default 0 */
    readonly toolCalls?: number;
    /** What the time of the calls went into. Left out if they took none. */
    readonly timing?: StepTiming;
  },
): RunningState {
  assertInStep(state, "recordExecutions");
  const { step } = state;
  const known = new Map<string, ToolExecution>();
  for (const one of step.executions) known.set(one.call.callId, one);
  for (const one of given.executions) known.set(one.call.callId, one);
  const executions: ToolExecution[] = [];
  for (const { callId } of step.reply?.message.toolCalls ?? []) {
    const execution = known.get(callId);
    if (execution !== undefined) executions.push(execution);
  }
  const isNew = executions.length === step.executions.length + given.executions.length;
  if (!isNew || step.hasAppliedResults) throw refuseChange(state, "recordExecutions");
  const { deferrals, limit, toolCalls = 0, timing = NO_TIMING } = given;
  return freezeInTests({
    ...state,
    step: {
      ...step,
      executions,
      deferrals,
      limit: step.limit ?? limit,
      usage: toolCalls === 0 ? step.usage : addUsage(step.usage, { ...NO_USAGE, toolCalls }),
      timing: addTiming(step.timing, timing),
    },
  });
}

/**
 * Adds the results to the history: one for every call, in call order, and none before all are known. Failures are
 * counted here, and once.
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

/** Replaces the open step with its record: nothing else of the step is kept. */
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
  // The typed result of a step without calls is its text.
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

// Its history

/** Returns the state with the task in its history. Without a message the task was dropped. */
export function recordTask(state: AgentState, messages: readonly Message[]): RunningState {
  assertRunning(state, "recordTask");
  if (state.log.isTaskHandled) throw refuseChange(state, "recordTask");
  return freezeInTests(updateLog(extendHistory(state, messages), { isTaskHandled: true }));
}

/** `reportedIds`: background subagents whose results are among the messages. */
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

/** Records sections that were made for the execution. Those that stay go into the history. */
export function recordSections(
  state: AgentState,
  sections: readonly MadeSection[],
  messages: readonly Message[],
): RunningState {
  assertRunning(state, "recordSections");
  return freezeInTests(updateLog(extendHistory(state, messages), { sections }));
}

/** Replaces the history by a shorter one. `spent`: usage between two steps, by which it was made. */
export function replaceHistory(
  state: AgentState,
  messages: readonly Message[],
  spent?: Usage,
): RunningState {
  assertRunning(state, "replaceHistory");
  const conversation = replaceMessages(state.conversation, messages, findPlace(state));
  const { log, step, telemetry } = state;
  // An open step was shown the history as it was.
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

// Its log

/** `undefined` removes the typed result of an agent that continues. */
export function recordOutput(
  state: AgentState,
  { output, outputParse }: Partial<Pick<ExecutionLog, "output" | "outputParse">>,
): RunningState {
  assertRunning(state, "recordOutput");
  const { outputParse: _former, ...log } = state.log;
  const parse = outputParse === undefined ? {} : { outputParse };
  return freezeInTests({ ...state, log: { ...log, output, ...parse } });
}

/** The agent waits for its subagents with its text, though a typed result is due. */
export function recordWait(state: AgentState): RunningState {
  assertRunning(state, "recordWait");
  return freezeInTests(updateLog(state, { waits: (state.log.waits ?? 0) + 1 }));
}

export function recordSubtasks(state: AgentState, subtasks: readonly Subtask[]): RunningState {
  assertRunning(state, "recordSubtasks");
  return freezeInTests(updateLog(state, { subtasks }));
}

/** The agent has answered, or has nothing to say, and waits for its background subagents. */
export function awaitSubagents(state: AgentState): RunningState {
  assertRunning(state, "awaitSubagents");
  return freezeInTests(updateLog(state, { isAwaiting: true, uselessReplies: 0 }));
}

/**
 * Removes subagents that have ended, or were detached, as their parent stops. Subtasks whose subagents were paused are dropped, and the
 * rest of the queue stays. `unread`: background subagents whose results it has not read. It gets them if it continues one day.
 */
export function dropSubagents(state: AgentState, unread: readonly AgentId[]): RunningState {
  assertRunning(state, "dropSubagents");
  const subtasks = state.log.subtasks.filter(({ childId }) => childId === undefined);
  return freezeInTests(updateLog(state, { subtasks, background: unread }));
}

/** Records parts of stop conditions that fired and stay so. They replace earlier reasons. */
export function recordFired(state: AgentState, fired: FiredParts): RunningState {
  assertRunning(state, "recordFired");
  return freezeInTests(updateLog(state, { fired: { ...state.log.fired, ...fired } }));
}

export function recordSignal(state: AgentState, signal: StopSignal): RunningState {
  assertRunning(state, "recordSignal");
  return freezeInTests(updateLog(state, { signals: [...state.log.signals, signal] }));
}

/** The error becomes a signal as well, and part of the open step. */
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

/** Adds time that the agent waited for a lease. */
export function addWaitedTime(state: AgentState, waitedMs: number): RunningState {
  assertRunning(state, "addWaitedTime");
  const budgetWaitMs = state.telemetry.budgetWaitMs + waitedMs;
  return freezeInTests({ ...state, telemetry: { ...state.telemetry, budgetWaitMs } });
}

/** Removes subagents whose results the model has been given. */
function dropReported(state: RunningState, reportedIds: readonly AgentId[]): RunningState {
  if (reportedIds.length === 0) return state;
  const { background } = state.log;
  return updateLog(state, { background: background.filter((one) => !reportedIds.includes(one)) });
}

function extendHistory(state: RunningState, added: readonly Message[]): RunningState {
  return { ...state, conversation: appendMessages(state.conversation, added, findPlace(state)) };
}

/** Returns where a message comes in now: in the open step once the model has replied in it, else after the last one. */
function findPlace({ executionId, step, log }: RunningState): TagPlace {
  return { executionId, stepNumber: step?.reply === undefined ? log.steps.length : step.number };
}

function updateLog(state: RunningState, part: Partial<ExecutionLog>): RunningState {
  return { ...state, log: { ...state.log, ...part } };
}
