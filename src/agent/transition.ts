// The only way an agent's state moves. Pure and total: every change on every state gives a new state or a coded error.
//
//   pending ──markStarted──▶ running ──end──▶ completed | stopped | failed | cancelled ──nextExecution──▶ pending
//                            ▲     │
//                         resume  pause
//                            │     ▼
//                            paused

import { EspalierError } from "../kernel/error.ts";
import { defined } from "../kernel/json.ts";
import { shared } from "../kernel/shared.ts";
import type { MeasuredPrefix } from "../model/count-tokens.ts";
import type { AgentId, ExecutionId } from "../protocol/ids.ts";
import type { Message, ToolMessage } from "../protocol/message.ts";
import { addTiming, NO_TIMING, type StepTiming } from "../protocol/step-timing.ts";
import type { ErrorRecord, StopReason, StopSignal, TerminalStatus } from "../protocol/stop.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import { addUsage, NO_USAGE, type Usage } from "../protocol/usage.ts";
import { countFailures, hasFailures } from "../policies/failure-counts.ts";
import { resultMessage } from "../tools/tool-result.ts";
import { replaced, tagRest, withAdded, historyChange, type TagPlace } from "./message-tags.ts";
import {
  isRetryAfterOverflow,
  NO_PREFIX,
  pendingState,
  type AgentState,
  type Conversation,
  type Deferral,
  type EndedState,
  type FiredParts,
  type MadeSection,
  type OpenStep,
  type PausedState,
  type RunLog,
  type RunningState,
  type StepReply,
  type Subtask,
} from "./agent-state.ts";
import type { StepRecord } from "../protocol/step-record.ts";

/** What may happen to a state, by its type. */
interface Changes {
  readonly markStarted: { readonly executionId: ExecutionId; readonly atMs: number };
  readonly openStep: Pick<
    OpenStep,
    "stepId" | "number" | "context" | "messageCount" | "hiddenTools" | "lastStep"
  > & { readonly atMs: number };
  /** The task goes into the history; without a message: it was refused. */
  readonly brief: { readonly messages: readonly Message[] };
  /** `timing`: what the time went into; left out: it took none. */
  readonly addUsage: { readonly usage: Usage; readonly timing?: StepTiming };
  readonly recordReply: { readonly reply: StepReply; readonly prefix: MeasuredPrefix };
  readonly discardReply: { readonly reply: StepReply };
  readonly recordOverflow: { readonly error: ErrorRecord };
  readonly recordExecutions: {
    readonly executions: readonly ToolExecution[];
    /** Calls that wait for an answer from outside; they take the place of earlier ones. */
    readonly deferrals: readonly Deferral[];
    /** The limit that refused one of the calls. */
    readonly limit?: StopSignal | undefined;
    /** How many calls were charged for them. Default 0. */
    readonly toolCalls?: number;
    /** What the time of the calls went into. Default: they took none. */
    readonly timing?: StepTiming;
  };
  readonly incorporate: unknown;
  readonly recordOutput: Pick<RunLog, "output" | "outputParse">;
  readonly recordStep: { readonly atMs: number; readonly elapsedMs: number };
  readonly recordVeto: { readonly message: Message };
  /** With its text the agent waits for its subagents, though a typed result is due. */
  readonly recordWait: unknown;
  readonly recordSubtasks: { readonly subtasks: readonly Subtask[] };
  readonly addMessages: {
    readonly messages: readonly Message[];
    /** Subagents in the background whose results are among them. */
    readonly reportedIds?: readonly AgentId[];
  };
  /** The agent has answered, or has nothing to say, and waits for its subagents in the background. */
  readonly awaitSubagents: unknown;
  /**
   * The agent ends: its subagents in the background have ended, or are not its own any more. `unread`: those that have ended and whose
   * results it has not read; it gets them if it continues one day.
   */
  readonly dropSubagents: { readonly unread: readonly AgentId[] };
  readonly compact: {
    readonly messages: readonly Message[];
    /** What it took to make them, between two steps. */
    readonly usage?: Usage;
  };
  /** Sections were made for the execution; those that stay go into the history. */
  readonly recordSections: {
    readonly sections: readonly MadeSection[];
    readonly messages: readonly Message[];
  };
  /** Parts of stop conditions that fired, and stay so; those that had fired before are replaced. */
  readonly recordFired: { readonly fired: FiredParts };
  readonly addSignal: { readonly signal: StopSignal };
  readonly addTime: { readonly waitedMs: number };
  readonly failWith: { readonly error: ErrorRecord };
  readonly pause: { readonly reason: StopReason };
  readonly resume: unknown;
  readonly end: {
    readonly status: TerminalStatus;
    readonly reason: StopReason;
    readonly atMs: number;
  };
  /** `executionId`: of the execution that begins. `instructions`: what holds in it in place of earlier instructions. */
  readonly nextExecution: {
    readonly executionId: ExecutionId;
    readonly instructions: string;
    readonly messages: readonly Message[];
  };
}

/** What may happen to a state. */
export type Change<T extends keyof Changes = keyof Changes> = {
  [K in T]: { readonly type: K } & Changes[K];
}[T];

/** Moves a state. Throws `illegal_transition` where the change is not allowed in the state; the given state is never changed. */
export function transition(state: AgentState, change: Change<"end">): EndedState;
export function transition(state: AgentState, change: Change): AgentState;
export function transition(state: AgentState, change: Change): AgentState {
  switch (state.status) {
    case "pending":
      if (change.type === "markStarted") return shared(markStarted(state, change));
      throw illegal(state, change);
    case "running":
      return shared(moveRunning(state, change));
    case "paused":
      if (change.type === "resume") return shared(resume(state));
      throw illegal(state, change);
    case "completed":
    case "stopped":
    case "failed":
    case "cancelled":
      if (change.type === "nextExecution") return nextExecution(state, change);
      throw illegal(state, change);
  }
}

function moveRunning<T extends keyof Changes>(state: RunningState, change: Change<T>): AgentState {
  return MOVES[change.type](state, change);
}

/** What each change makes of an execution that runs. */
const MOVES: {
  readonly [T in keyof Changes]: (state: RunningState, change: Change<T>) => AgentState;
} = {
  markStarted: refuse,
  openStep,
  brief: (state, change) => {
    if (state.log.isBriefed) throw illegal(state, change);
    return withLog(withMessages(state, change.messages), { isBriefed: true });
  },
  addUsage: (state, change) => {
    const step = stepIn(state, change);
    const usage = addUsage(step.usage, change.usage);
    const timing = change.timing ? addTiming(step.timing, change.timing) : step.timing;
    return { ...state, step: { ...step, usage, timing } };
  },
  recordReply,
  discardReply,
  recordOverflow: (state, change) => {
    const step = unansweredStepIn(state, change);
    const overflowed = withLog(state, { overflows: state.log.overflows + 1 });
    return { ...overflowed, step: { ...step, error: change.error } };
  },
  recordExecutions,
  incorporate,
  recordOutput,
  recordStep,
  recordVeto: (state, { message }) =>
    withLog(withMessages(state, [message]), { vetoes: state.log.vetoes + 1 }),
  recordWait: (state) => withLog(state, { waits: (state.log.waits ?? 0) + 1 }),
  recordSubtasks: (state, { subtasks }) => withLog(state, { subtasks }),
  addMessages: (state, { messages, reportedIds = [] }) =>
    withoutReported(withMessages(state, messages), reportedIds),
  awaitSubagents: (state) => withLog(state, { isAwaiting: true, uselessReplies: 0 }),
  dropSubagents: (state, { unread }) =>
    withLog(state, { subtasks: unstarted(state), background: unread }),
  compact: compacted,
  recordSections: (state, { messages, sections }) =>
    withLog(withMessages(state, messages), { sections }),
  recordFired: (state, { fired }) => withLog(state, { fired: { ...state.log.fired, ...fired } }),
  addSignal: (state, { signal }) => withLog(state, { signals: [...state.log.signals, signal] }),
  addTime: (state, change) => {
    const waitedMs = state.telemetry.waitedMs + change.waitedMs;
    return { ...state, telemetry: { ...state.telemetry, waitedMs } };
  },
  failWith: (state, { error }) => failWith(state, error),
  pause: (state, { reason }) => ({ ...state, status: "paused", reason }),
  resume: refuse,
  end,
  nextExecution: refuse,
};

function refuse(state: RunningState, change: Change): never {
  throw illegal(state, change);
}

/** The open step; all that happens in a step needs one. */
function stepIn(state: RunningState, change: Change): OpenStep {
  if (state.step === undefined) throw illegal(state, change);
  return state.step;
}

/** The open step, to which the model has not replied. */
function unansweredStepIn(state: RunningState, change: Change): OpenStep {
  const step = stepIn(state, change);
  if (step.reply !== undefined) throw illegal(state, change);
  return step;
}

function markStarted(state: AgentState, change: Change<"markStarted">): RunningState {
  const telemetry = { ...state.telemetry, startedAtMs: change.atMs };
  const { executionId } = change;
  const { conversation, log } = state;
  return {
    status: "running",
    executionId,
    conversation: tagRest(conversation, { executionId, stepNumber: 0 }),
    log,
    telemetry,
    step: undefined,
  };
}

function resume({ reason: _over, ...state }: PausedState): RunningState {
  return { ...state, status: "running" };
}

function openStep(state: RunningState, change: Change<"openStep">): RunningState {
  const { step, log } = state;
  if (step !== undefined) return reopenStep(state, step, change);
  const awake = log.isAwaiting ? withLog(state, { isAwaiting: false }) : state;
  return { ...awake, step: newStep(change) };
}

function newStep({ type: _type, atMs, ...opened }: Change<"openStep">): OpenStep {
  return {
    ...opened,
    startedAtMs: atMs,
    reply: undefined,
    executions: [],
    deferrals: [],
    limit: undefined,
    isIncorporated: false,
    usage: NO_USAGE,
    timing: NO_TIMING,
    error: undefined,
  };
}

/** The step shows the model a shorter history: what it had shown before counts as never shown, but is paid for. */
function reopenStep(state: RunningState, open: OpenStep, change: Change<"openStep">): RunningState {
  if (!isRetryAfterOverflow(state) || open.error !== undefined) throw illegal(state, change);
  const afterStep = state.log.steps.length;
  const compactions = state.log.compactions.map((one) =>
    one.afterStep > afterStep ? { ...one, afterStep } : one,
  );
  const { startedAtMs, usage, timing } = open;
  return {
    ...withLog(state, { compactions }),
    step: { ...newStep(change), startedAtMs, usage, timing },
  };
}

function recordReply(state: RunningState, change: Change<"recordReply">): RunningState {
  const step = unansweredStepIn(state, change);
  const { message } = change.reply;
  return {
    ...withLog(state, { uselessReplies: 0, overflows: 0 }),
    conversation: {
      ...withAdded(state.conversation, [message], {
        executionId: state.executionId,
        stepNumber: step.number,
      }),
      prefix: change.prefix,
    },
    step: { ...step, reply: change.reply },
  };
}

/** A reply that is of no use is paid for and counted, and stays out of the history. */
function discardReply(state: RunningState, change: Change<"discardReply">): RunningState {
  const step = unansweredStepIn(state, change);
  if (change.reply.message.toolCalls.length > 0) throw illegal(state, change);
  const counted = withLog(state, { uselessReplies: state.log.uselessReplies + 1, overflows: 0 });
  return { ...counted, step: { ...step, reply: change.reply } };
}

/** Results come in as they are known and are kept in call order, also over a pause (R32). */
function recordExecutions(state: RunningState, change: Change<"recordExecutions">): RunningState {
  const step = stepIn(state, change);
  const known = new Map<string, ToolExecution>();
  for (const one of step.executions) known.set(one.call.callId, one);
  for (const one of change.executions) known.set(one.call.callId, one);
  const executions: ToolExecution[] = [];
  for (const { callId } of step.reply?.message.toolCalls ?? []) {
    const execution = known.get(callId);
    if (execution !== undefined) executions.push(execution);
  }
  const isNew = executions.length === step.executions.length + change.executions.length;
  if (!isNew || step.isIncorporated) throw illegal(state, change);
  const { deferrals, limit, toolCalls = 0, timing = NO_TIMING } = change;
  return {
    ...state,
    step: {
      ...step,
      executions,
      deferrals,
      limit: step.limit ?? limit,
      usage: toolCalls === 0 ? step.usage : addUsage(step.usage, { ...NO_USAGE, toolCalls }),
      timing: addTiming(step.timing, timing),
    },
  };
}

/** One result for every call, in call order, and not one before all are known (L3). What failed is counted here, and once. */
function incorporate(state: RunningState, change: Change<"incorporate">): RunningState {
  const step = stepIn(state, change);
  const isComplete = step.executions.length === step.reply?.message.toolCalls.length;
  if (!isComplete || step.isIncorporated) throw illegal(state, change);
  const messages: ToolMessage[] = [];
  const subtasks = [...state.log.subtasks];
  const background = [...state.log.background];
  const reportedIds: AgentId[] = [];
  for (const execution of step.executions) {
    messages.push(resultMessage(execution));
    for (const request of execution.subtasks ?? []) subtasks.push({ request });
    background.push(...(execution.startedIds ?? []));
    reportedIds.push(...(execution.reportedIds ?? []));
  }
  const { failures: before } = state.log;
  const failures = hasFailures(before, step.executions)
    ? countFailures(before, step.executions)
    : before;
  const grown = withLog(withMessages(state, messages), { subtasks, background, failures });
  return {
    ...withoutReported(grown, reportedIds),
    step: { ...step, isIncorporated: true, deferrals: [] },
  };
}

/** What is queued, without those whose subagents were paused: they have been ended. */
function unstarted({ log }: RunningState): readonly Subtask[] {
  return log.subtasks.filter(({ childId }) => childId === undefined);
}

/** Without subagents whose results the model has been given. */
function withoutReported(state: RunningState, reportedIds: readonly AgentId[]): RunningState {
  if (reportedIds.length === 0) return state;
  const { background } = state.log;
  return withLog(state, { background: background.filter((one) => !reportedIds.includes(one)) });
}

function recordOutput(state: RunningState, change: Change<"recordOutput">): RunningState {
  const { output, outputParse } = change;
  const { outputParse: _former, ...log } = state.log;
  return { ...state, log: { ...log, output, ...defined({ outputParse }) } };
}

function recordStep(state: RunningState, change: Change<"recordStep">): RunningState {
  const step = stepIn(state, change);
  const hasCalls = (step.reply?.message.toolCalls.length ?? 0) > 0;
  if (hasCalls && !step.isIncorporated) throw illegal(state, change);
  // A typed result of a step without calls is its text.
  const isResult = !hasCalls && state.log.output !== undefined;
  const record = stepRecord(step, isResult, change);
  const usage = addUsage(state.telemetry.usage, record.telemetry.usage);
  return {
    ...withLog(state, { steps: state.log.steps.concat(record) }),
    telemetry: { ...state.telemetry, usage },
    step: undefined,
  };
}

function failWith(state: RunningState, error: ErrorRecord): RunningState {
  const reason: StopReason = { code: "error", message: error.message, data: { error: error.code } };
  const { hook, condition } = error.data;
  const by = hook ?? condition;
  const name = typeof by === "string" ? { name: by } : {};
  const failed = withLog(state, {
    errors: [...state.log.errors, error],
    signals: [...state.log.signals, { source: "loop", reason, ...name }],
  });
  return { ...failed, step: state.step === undefined ? undefined : { ...state.step, error } };
}

function end(state: RunningState, change: Change<"end">): EndedState {
  if (state.step !== undefined) throw illegal(state, change);
  return {
    status: change.status,
    reason: change.reason,
    executionId: state.executionId,
    conversation: state.conversation,
    log: state.log,
    telemetry: { ...state.telemetry, endedAtMs: change.atMs },
  };
}

/** History and queue stay; steps, signals, errors, counters and usage begin anew (R40, R158). */
function nextExecution(state: EndedState, change: Change<"nextExecution">): AgentState {
  const conversation = instructed(state.conversation, change);
  const { messages: added } = change;
  const { subtasks, background } = state.log;
  const messages = conversation.messages.concat(added);
  const next = pendingState({ ...conversation, messages });
  const isBriefed = state.log.isBriefed || added.some(isTask);
  return shared({ ...next, log: { ...next.log, subtasks, background, isBriefed } });
}

/** The history under other instructions. With the same, the same. */
function instructed(
  conversation: Conversation,
  { executionId, instructions: text }: Change<"nextExecution">,
): Conversation {
  const { messages, tags, added } = conversation;
  const [first] = messages;
  if (first?.role !== "system" || first.text === text) return conversation;
  const number = added + 1;
  return {
    ...conversation,
    messages: [{ ...first, text }, ...messages.slice(1)],
    tags: [{ executionId, stepNumber: 0, number }, ...tags.slice(1)],
    added: number,
    prefix: NO_PREFIX,
  };
}

function isTask(message: Message): boolean {
  return message.role === "user" && message.origin === "task";
}

function withMessages(state: RunningState, added: readonly Message[]): RunningState {
  return { ...state, conversation: withAdded(state.conversation, added, placeOf(state)) };
}

function compacted(state: RunningState, { messages, usage }: Change<"compact">): RunningState {
  const conversation = replaced(state.conversation, messages, placeOf(state));
  const { log, step } = state;
  // An open step was shown the history as it was.
  const shownTo = log.steps.length + (step === undefined ? 0 : 1);
  const change = historyChange(state.conversation, conversation, shownTo);
  const compactions = change === undefined ? log.compactions : [...log.compactions, change];
  const shorter = {
    ...withLog(state, { compactions }),
    conversation: { ...conversation, prefix: NO_PREFIX },
    step: step === undefined ? undefined : { ...step, error: undefined },
  };
  if (usage === undefined) return shorter;
  const { telemetry } = state;
  return { ...shorter, telemetry: { ...telemetry, usage: addUsage(telemetry.usage, usage) } };
}

/** Where a message comes in now: in the open step once the model has replied in it, else after the last one. */
function placeOf({ executionId, step, log }: RunningState): TagPlace {
  return { executionId, stepNumber: step?.reply === undefined ? log.steps.length : step.number };
}

function withLog(state: RunningState, part: Partial<RunLog>): RunningState {
  return { ...state, log: { ...state.log, ...part } };
}

function illegal(state: AgentState, change: Change): EspalierError {
  const step = state.step === undefined ? "" : " with an open step";
  return new EspalierError({
    code: "illegal_transition",
    message: `Expected a change that a ${state.status} execution${step} allows, got ${change.type}. See the changes of each status in transition.ts.`,
    data: { status: state.status, change: change.type },
  });
}

// What is kept of a step that is over.

/** The record of a step that is over: nothing of it is kept but what is in there. */
function stepRecord(
  step: OpenStep,
  isResult: boolean,
  { atMs, elapsedMs }: Change<"recordStep">,
): StepRecord {
  const { reply, error } = step;
  const { text = "", refusal, toolCalls: calls = [] } = reply?.message ?? {};
  return {
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
}
