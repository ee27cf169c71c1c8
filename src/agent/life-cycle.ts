// Begins and ends executions, and opens and completes their steps.

import type { ModelRequest } from "../model/model.ts";
import { getTerminalStatus, findWinningSignal } from "../policies/stop-signals.ts";
import type { MessageContent } from "../protocol/message-content.ts";
import { createUserMessage } from "../protocol/message.ts";
import type { EventBody } from "../protocol/event.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { ErrorRecord } from "../protocol/stop.ts";
import type { HiddenTool } from "../tools/tool-filter.ts";
import type { EffectPosition } from "./agent-identity.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import {
  getBackgroundChildren,
  getEventPosition,
  isRetryAfterOverflow,
  getLastText,
  type AgentState,
  type EndedState,
  type PausedState,
  type PendingState,
  type SettledState,
  getPausedChildren,
  type MadeSection,
} from "./agent-state.ts";
import type { Lease, LastStep } from "../budget/lease.ts";
import type { MailboxMessage } from "./mailbox.ts";
import { releaseLeases } from "./model-call.ts";
import { dropQuestions, settlePaused } from "./pause-agent.ts";
import { createStepContext } from "./create-step-context.ts";
import { addSignal, failWith, handleStopRequests, recordOvershoots } from "./stop-requests.ts";
import {
  dropSubagents,
  endExecution,
  markStarted,
  openStep,
  recordStep,
  recordTask,
  resumeExecution,
} from "./transition.ts";
import { settleRemainingCalls } from "./tool-calls/cancelled-calls.ts";

/** The model call of a step, with the lease that pays for it. */
export interface PreparedCall {
  /** Position of the step that the call opens. */
  readonly effectPosition: EffectPosition;
  readonly request: ModelRequest;
  readonly lease: Lease;
  /**
   * True if the request contains the history unchanged, so that the provider's token count is a
   * valid prefix.
   */
  readonly isFaithful: boolean;
  /** Number of history messages in the request, if it contains the history unchanged. */
  readonly historyLength: number;
  /** Estimated tokens of the other messages in the request. */
  readonly ephemeralTokens: number;
  /** True if the token count is an estimate, at least in part. */
  readonly isEstimated: boolean;
  /** Number of messages at the end of the request that no later request contains. */
  readonly ephemeralCount: number;
  /** Tools that are hidden from the model. */
  readonly hiddenTools: readonly HiddenTool[];
  /** Set if this request announces that no step can follow. */
  readonly lastStep: LastStep | undefined;
  /** Messages to the agent that this request is the first to contain. */
  readonly mail: readonly MailboxMessage[];
}

/**
 * The result of prepare. `call` is `undefined` if no request may follow: the state has a signal, is
 * paused or still has subtasks, or a stop request is pending, which may have cancelled the wait for
 * the lease.
 */
export interface Prepared {
  readonly state: AgentState;
  readonly call: PreparedCall | undefined;
}

/** Changes the state to `running`, at the beginning or after a pause. */
export function beginExecution(agent: AgentRuntime, from: PendingState | PausedState): AgentState {
  const atMs = agent.run.clock.nowMs();
  const type = from.status === "paused" ? "agent.resumed" : "agent.started";
  if (!agent.run.recorder.countUnread(type)) agent.record(describeBeginning(agent, type));
  const background = from.step === undefined ? from.log.background : getBackgroundChildren(from);
  if (background.length > 0) agent.run.supervisor.reactivate(agent, background);
  if (from.status === "paused") return resumeExecution(from);
  const { executionId } = agent.identity;
  return markStarted(from, { executionId, atMs, pausedMs: agent.account.pausedMs });
}

function describeBeginning(
  { role, model, taskText: task, facts, account }: AgentRuntime,
  type: "agent.started" | "agent.resumed",
): EventBody<"agent.started" | "agent.resumed"> {
  return {
    type,
    role: role.name,
    ...(role.description === undefined ? {} : { description: role.description }),
    provider: model.provider,
    model: model.id,
    task,
    spawnCallId: facts.spawnCallId ?? null,
    budget: account.remaining(),
  };
}

/** Returns the state with the task added to its history. */
export function addTask(state: AgentState, task: MessageContent): AgentState {
  return recordTask(state, [createUserMessage(task, "task")]);
}

/** True if no request may follow, because the agent has to end, stop or wait. */
export function mustNotCallModel(agent: AgentRuntime, { log, status }: AgentState): boolean {
  return agent.isEnding || log.signals.length > 0 || status !== "running";
}

/**
 * Opens the step of a model call, or reopens it after a context overflow. A step that was opened
 * before a crash does not change.
 */
export function beginStep(agent: AgentRuntime, state: AgentState, call: PreparedCall): AgentState {
  const { request, hiddenTools, lastStep, effectPosition } = call;
  const { stepId, stepNumber: number } = effectPosition;
  const isOpen = state.step !== undefined;
  if (isOpen && !isRetryAfterOverflow(state)) return state;
  const context = createStepContext(agent, state, call);
  const { promptHash, toolsHash } = context;
  if (!isOpen && !agent.run.recorder.countUnread("step.started"))
    agent.record({ type: "step.started", number, promptHash, toolsHash }, { stepId });
  const opened = openStep(state, {
    stepId,
    number,
    context,
    messageCount: request.messages.length,
    hiddenTools,
    lastStep,
    startedAtMs: agent.run.clock.nowMs(),
  });
  agent.persistence?.onStepOpened(opened);
  return opened;
}

/**
 * Returns the milliseconds since the start of the execution, without waits for answers and pauses.
 */
export function computeElapsedMs(agent: AgentRuntime, state: AgentState, nowMs: number): number {
  const { startedAtMs = nowMs, pausedBeforeMs = 0 } = state.telemetry;
  return Math.max(0, nowMs - startedAtMs - (agent.account.pausedMs - pausedBeforeMs));
}

/**
 * Completes the open step, if there is one. Calls without a result get one here, and the step gets
 * its record.
 */
export function completeStep(agent: AgentRuntime, state: AgentState): AgentState {
  if (state.status !== "running" || state.step === undefined) return state;
  const { stepId, limit, hasAppliedResults, deferrals, reply } = state.step;
  // A skip request that came too late for this step must not skip the calls of the next.
  agent.mailbox?.takeSkip();
  const atMs = agent.run.clock.nowMs();
  if (deferrals.length > 0) dropQuestions(agent, state);
  const limited = limit === undefined || hasAppliedResults ? state : addSignal(agent, state, limit);
  const elapsedMs = computeElapsedMs(agent, state, atMs);
  const isComplete = hasAppliedResults || (reply?.message.toolCalls.length ?? 0) === 0;
  const complete = isComplete
    ? limited
    : settleRemainingCalls(agent, limited, { atMs, code: findStopCode(limited) });
  const completed = recordStep(complete, { atMs, elapsedMs });
  const record = completed.log.steps.at(-1);
  if (record !== undefined && !agent.run.recorder.countUnread("step.completed"))
    agent.record(describeStep(record), { stepId });
  return completed;
}

function findStopCode({ log }: AgentState): string {
  return findWinningSignal(log.signals)?.reason.code ?? "unknown";
}

function describeStep(record: StepRecord): EventBody<"step.completed"> {
  const { number, telemetry, tools, error } = record;
  const { usage, timing } = telemetry;
  const failure = error === undefined ? {} : { error };
  const toolCallCount = tools.calls.length;
  return { type: "step.completed", number, usage, timing, toolCallCount, ...failure };
}

/**
 * Leaves the loop: paused, or ended with the status of the winning signal. A paused agent settles
 * after its background subagents have settled. An agent that ends does so after all its subagents
 * have ended.
 */
export async function settle(agent: AgentRuntime, state: AgentState): Promise<SettledState> {
  if (state.status === "paused") return await settlePaused(agent, state);
  const { recorder, clock } = agent.run;
  const dismissing = agent.persistence?.dismissOrphans();
  if (dismissing !== undefined) await dismissing;
  const { step, log } = state;
  const hasLeft = step !== undefined || log.background.length > 0 || log.subtasks.length > 0;
  const alone = hasLeft ? await leaveSubagents(agent, state) : state;
  // Signals may have been raised while its subagents ended. They do not replace an answer.
  const hasAnswered = findWinningSignal(alone.log.signals)?.reason.code === "completed";
  const signalled = hasAnswered ? alone : handleStopRequests(agent, alone);
  const completed = recordOvershoots(agent, completeStep(agent, signalled));
  releaseLeases(agent);
  const { signals, sections } = completed.log;
  const reason = findWinningSignal(signals)?.reason;
  if (reason === undefined) return await settle(agent, failWith(agent, completed, UNEXPLAINED));
  if (!recorder.countUnread("continuation.evaluated")) {
    const stopped = { decision: "stop", work: [], signals, reason } as const;
    agent.record({ type: "continuation.evaluated", ...stopped }, getEventPosition(completed));
  }
  if (sections !== undefined) clearSections(agent, sections);
  const status = getTerminalStatus(reason);
  const ended = endExecution(completed, { status, reason, atMs: clock.nowMs() });
  // The terminal event is the last of the execution (L2).
  if (!recorder.countUnread("agent.ended")) agent.record(describeEnd(agent, ended));
  // Settles synchronously: an agent whose end is recorded must not count as running.
  agent.settle(ended);
  return ended;
}

function describeEnd({ role, account }: AgentRuntime, ended: EndedState): EventBody<"agent.ended"> {
  const { status, reason, log, telemetry } = ended;
  const { steps, signals, errors } = log;
  const { startedAtMs, endedAtMs } = telemetry;
  const error = status === "failed" ? errors[0] : undefined;
  return {
    type: "agent.ended",
    role: role.name,
    status,
    reason,
    stepCount: steps.length,
    text: getLastText(ended),
    usage: account.usage(),
    ...(error === undefined ? {} : { error }),
    signals,
    durationMs: (endedAtMs ?? 0) - (startedAtMs ?? 0),
  };
}

const UNEXPLAINED: ErrorRecord = {
  code: "internal_error",
  message: "The loop ended without a signal. This is a bug in espalier.",
  data: {},
};

// Subagents that remain when an agent ends or its step completes. None outlives its parent, except
// detached ones (T2).

/** Ends the paused subagents whose calls will not be continued. */
export async function dismissChildren(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { supervisor } = agent.run;
  const children = getPausedChildren(state);
  if (children.length === 0) return state;
  await Promise.all(children.map((id) => supervisor.dismiss(agent, id)));
  return dropSubagents(state, state.log.background);
}

/**
 * Ends the remaining subagents before the agent ends. If the agent has answered and its role
 * detaches subagents, background subagents are detached instead.
 */
async function leaveSubagents(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { role } = agent;
  const { supervisor } = agent.run;
  const background = getBackgroundChildren(state);
  const children = [...new Set([...getPausedChildren(state), ...background])];
  if (children.length === 0) return state;
  const isAnswer = findWinningSignal(state.log.signals)?.reason.code === "completed";
  const isDetaching = isAnswer && role.delegation.parentEndPolicy === "detach";
  const detached = new Set(isDetaching ? background : []);
  await Promise.all(
    children.map((id) =>
      detached.has(id) ? supervisor.detach(agent, id) : supervisor.dismiss(agent, id),
    ),
  );
  // Background subagents that calls of the open step started are added when its results are
  // recorded.
  return dropSubagents(state, isDetaching ? [] : state.log.background);
}

/** Records the end of each section that was created for the execution. */
function clearSections(agent: AgentRuntime, sections: readonly MadeSection[]): void {
  const texts = new Map(sections.map(({ name, text }) => [name, text]));
  for (const { name, lifetime } of agent.role.sections) {
    if (lifetime !== "execution" || !texts.has(name)) continue;
    const count = texts.get(name) === undefined ? 0 : 1;
    agent.record({ type: "section.cleared", name, count });
  }
}
