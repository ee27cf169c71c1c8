// What happens to an execution outside its phases: its start, its steps' opening and completion, signals, failure, pause and end.

import { EspalierError } from "../kernel/error.ts";
import type { ModelRequest } from "../model/model.ts";
import { stepIdOf } from "../protocol/ids.ts";
import type { ErrorRecord, StopReason, StopSignal } from "../protocol/stop.ts";
import { statusOf, winningSignal } from "../policies/stop-signals.ts";
import type { HiddenTool } from "../tools/tool-filter.ts";
import type { EventPosition } from "./agent-identity.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import {
  backgroundOf,
  isAskedAnew,
  isTooLong,
  lastTextOf,
  pausedChildrenOf,
  questionsOf,
  stepOf,
  type AgentState,
  type EndedState,
  type PausedState,
  type PendingState,
  type RestingState,
} from "./agent-state.ts";
import type { Lease, LastStep } from "./budget-gate.ts";
import { overshootSignal } from "./budget-signal.ts";
import { clearSections } from "./clear-sections.ts";
import type { EffectPlace, RequestFacts } from "./effects.ts";
import { errorRecord } from "./error-record.ts";
import { stepContext } from "./step-context.ts";
import { answerRest } from "./answer-rest.ts";
import { transition } from "./transition.ts";

/** A model call that is paid for. */
export interface PreparedCall {
  readonly request: ModelRequest;
  readonly lease: Lease;
  /** True if the request shows the history as it is, so that what the provider counts can be kept. */
  readonly isFaithful: boolean;
  /** Messages of the history that it shows, if it shows it as it is. */
  readonly historyLength: number;
  /** An estimate of what else is in it. */
  readonly asideTokens: number;
  readonly facts: RequestFacts;
  /** Tools that the model is not offered. */
  readonly hiddenTools: readonly HiddenTool[];
  /** Set if the model is told in this request that no step can follow. */
  readonly lastStep: LastStep | undefined;
}

/** What prepare came to; undefined call: the budget refused it, or the agent was told to end or to wait. */
export interface Prepared {
  readonly state: AgentState;
  readonly call: PreparedCall | undefined;
}

/** To running: from the beginning, or on from a pause. */
export function begin(agent: AgentRuntime, from: PendingState | PausedState): AgentState {
  const { role, identity } = agent;
  const atMs = agent.nowMs();
  agent.record({
    type: from.status === "paused" ? "agent.resumed" : "agent.started",
    role: role.name,
    ...(role.purpose === undefined ? {} : { purpose: role.purpose }),
    provider: role.model.provider,
    model: role.model.id,
    task: agent.task,
    spawnCallId: agent.spawnCallId ?? null,
    budget: agent.account.remaining(),
  });
  const background = backgroundOf(from);
  if (background.length > 0) agent.run.subagents.reactivate(agent, background);
  if (from.status === "paused") return transition(from, { type: "resume" });
  return transition(from, {
    type: "markStarted",
    executionId: identity.executionId,
    atMs,
  });
}

/** Where the step that is open, or will be opened next, stands. */
export function stepPlace(agent: AgentRuntime, state: AgentState): EffectPlace {
  const stepNumber = state.log.steps.length + 1;
  const stepId = stepIdOf(agent.identity.executionId, stepNumber);
  return isAskedAnew(state) ? { stepId, stepNumber, isCounted: true } : { stepId, stepNumber };
}

/** The step to which an event about the state belongs: the open one, or the last. */
export function eventPlace(state: AgentState): EventPosition {
  const step = stepOf(state) ?? state.log.steps.at(-1);
  return step === undefined ? {} : { stepId: step.stepId };
}

/** Opens the step of a model call, or shows it anew to the model. Whoever wrote to the agent learns that it is before the model now. */
export function openStep(agent: AgentRuntime, state: AgentState, call: PreparedCall): AgentState {
  const { request, hiddenTools, lastStep } = call;
  const { stepId, stepNumber: number } = stepPlace(agent, state);
  const isOpen = stepOf(state) !== undefined;
  if (isOpen && !isAskedAnew(state)) {
    agent.mailbox.confirmDelivery(number);
    return state; // Its process died, and the model is asked again.
  }
  const context = stepContext(agent, state, call);
  const { promptHash, toolsHash } = context;
  if (!isOpen) agent.record({ type: "step.started", number, promptHash, toolsHash }, { stepId });
  agent.mailbox.confirmDelivery(number);
  const opened = transition(state, {
    type: "openStep",
    stepId,
    number,
    context,
    input: request.messages,
    hiddenTools,
    lastStep,
    atMs: agent.nowMs(),
  });
  agent.run.journal?.stepOpened(agent, opened);
  return opened;
}

/** Time since the start of the execution in which it neither waited for an answer nor was paused (R34). */
export function elapsed(
  agent: AgentRuntime,
  { telemetry: { startedAtMs } }: AgentState,
  nowMs: number,
): number {
  return Math.max(0, nowMs - (startedAtMs ?? nowMs) - agent.pausedMs);
}

/** Says of questions that are open at the end of an agent that nobody answers them any more. */
function dropQuestions(agent: AgentRuntime, state: AgentState, nowMs: number): void {
  const { stepId } = eventPlace(state);
  const at = stepId === undefined ? {} : { stepId };
  for (const { questionId, toolName, callId, askedAtMs, kind } of questionsOf(state)) {
    const answer = kind === "approval" ? "denied" : "failure";
    const waitedMs = nowMs - askedAtMs;
    agent.record(
      { type: "question.answered", questionId, toolName, answer, by: "end", waitedMs },
      { ...at, callId },
    );
  }
}

/** Completes the open step, if there is one: calls that nothing has answered get their result here (L3), and the step its one record (L4). */
export function completeStep(agent: AgentRuntime, state: AgentState): AgentState {
  if (state.status !== "running" || state.step === undefined) return state;
  const { stepId, number, limit, isIncorporated } = state.step;
  agent.mailbox.takeSkip(); // A wish that came too late for this step does not leave out the calls of the next.
  const atMs = agent.nowMs();
  dropQuestions(agent, state, atMs);
  const limited = limit === undefined || isIncorporated ? state : raise(agent, state, limit);
  const elapsedMs = elapsed(agent, state, atMs);
  const complete = answerRest(agent, limited, {
    atMs,
    reason: winningSignal(limited.log.signals)?.reason,
  });
  const completed = transition(complete, { type: "recordStep", atMs, elapsedMs });
  const record = completed.log.steps.at(-1);
  if (record !== undefined) {
    const { telemetry, tools, error } = record;
    const failure = error === undefined ? {} : { error };
    const toolCalls = tools.calls.length;
    const { usage, timing } = telemetry;
    agent.record(
      { type: "step.completed", number, usage, timing, toolCalls, ...failure },
      { stepId },
    );
  }
  return completed;
}

/** Takes in what came from outside: stop signals, and else the wish to pause. Answers that were given are acted upon before a pause. */
export function heed(agent: AgentRuntime, state: AgentState): AgentState {
  const heeded = heedSignals(agent, state);
  if (!agent.mailbox.isPauseRequested || heeded.status !== "running" || agent.isCatchingUp)
    return heeded;
  const isDue =
    agent.hasDueBelow() ||
    isReplyDue(agent, heeded) ||
    isTooLong(heeded) ||
    questionsOf(heeded).some(({ questionId }) => agent.answerTo(questionId) !== undefined);
  return isDue || heeded.log.signals.length > 0 ? heeded : pause(heeded, REQUESTED);
}

/** The agent has answered and goes on only for what somebody wrote to it: that is not kept over a pause, so it is read first. */
function isReplyDue({ mailbox }: AgentRuntime, state: AgentState): boolean {
  const isBetweenSteps = stepOf(state) === undefined;
  return (
    isBetweenSteps &&
    mailbox.hasMessages &&
    state.conversation.messages.at(-1)?.role === "assistant"
  );
}

/** Takes in the stop signals that came from outside. */
export function heedSignals(agent: AgentRuntime, state: AgentState): AgentState {
  if (state.status !== "running" || agent.isCatchingUp) return state;
  return agent.mailbox
    .takeSignals()
    .reduce<AgentState>((current, signal) => raise(agent, current, signal), state);
}

/** Pauses if there is something to wait for, and nothing says that the execution must stop. */
export function pauseIfWaiting(agent: AgentRuntime, state: AgentState): AgentState {
  if (state.status !== "running" || state.log.signals.length > 0) return state;
  const questions = questionsOf(state);
  const children = pausedChildrenOf(state);
  if (questions.length === 0 && children.length === 0) return state;
  if (questions.length === 0 && agent.mailbox.isPauseRequested) return pause(state, REQUESTED);
  const asked = questions.map(({ toolName }) => toolName).join(", ");
  const message =
    questions.length === 0 ? "Subagents are paused." : `Somebody has to answer for: ${asked}.`;
  const data = { questions: questions.length, pausedSubagents: children.length };
  return pause(state, { code: "answers_needed", message, data });
}

const REQUESTED: StopReason = {
  code: "pause_requested",
  message: "The caller asked the run to pause.",
  data: {},
};

/** The agent has nothing to do but to wait for subagents in the background, and one of them is paused. */
export function pauseForSubagents(agent: AgentRuntime, state: AgentState): AgentState {
  if (agent.mailbox.isPauseRequested) return pause(state, REQUESTED);
  const data = { questions: 0, pausedSubagents: backgroundOf(state).length };
  return pause(state, { code: "answers_needed", message: "Subagents are paused.", data });
}

function pause(state: AgentState, reason: StopReason): AgentState {
  return transition(state, { type: "pause", reason });
}

/** Adds a stop signal and says so. */
export function raise(agent: AgentRuntime, state: AgentState, signal: StopSignal): AgentState {
  agent.record({ type: "signal.raised", signal }, eventPlace(state));
  return transition(state, { type: "addSignal", signal });
}

/** Lists the limits of the agent that its replies have passed, unless a signal says so already (C36). None of them stops anything. */
export function listOvershoots(agent: AgentRuntime, state: AgentState): AgentState {
  const isListed = (signal: StopSignal): boolean =>
    state.log.signals.some(
      ({ source, reason: { data } }) =>
        source === "budget" &&
        data["axis"] === signal.reason.data["axis"] &&
        data["accountPath"] === signal.reason.data["accountPath"],
    );
  return agent.account
    .overshoots()
    .map(overshootSignal)
    .filter((signal) => !isListed(signal))
    .reduce<AgentState>((current, signal) => raise(agent, current, signal), state);
}

/** The one failure path (R16): whatever broke becomes one error in the log and one signal. */
export function fail(agent: AgentRuntime, state: AgentState, cause: unknown): AgentState {
  return failWith(agent, state, errorRecord(cause));
}

/** The same for an error that is data already. */
export function failWith(agent: AgentRuntime, state: AgentState, error: ErrorRecord): AgentState {
  const failed = transition(state, { type: "failWith", error });
  const signal = failed.log.signals.at(-1);
  if (signal !== undefined) agent.record({ type: "signal.raised", signal }, eventPlace(state));
  return failed;
}

/**
 * Leaves the loop: paused, or with a terminal status. What the agent still holds of the budget goes back. No subagent is left behind: the
 * agent rests after those in the background do, and ends after all of them have ended (T2).
 */
export async function rest(agent: AgentRuntime, state: AgentState): Promise<RestingState> {
  if (state.status !== "paused") return finish(agent, await leaveSubagents(agent, state));
  const { reason, log } = state;
  const { role } = agent;
  const background = backgroundOf(state);
  if (background.length > 0) await agent.run.subagents.settled(agent, background, "rest");
  releaseOpen(agent);
  const steps = log.steps.length;
  agent.record(
    { type: "agent.paused", role: role.name, reason, steps, usage: agent.account.usage() },
    eventPlace(state),
  );
  return state;
}

/** Ends the subagents that are paused and whose calls nobody will go on with (T2). */
export async function dismissChildren(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { subagents } = agent.run;
  const children = pausedChildrenOf(state);
  if (children.length === 0) return state;
  await Promise.all(children.map((id) => subagents.dismiss(agent, id)));
  return transition(state, { type: "recordSubtasks", subtasks: [] });
}

/** The agent ends: subagents that it has left end first, or go over to the run if it answered and its role says so (X9). */
async function leaveSubagents(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { role } = agent;
  const { subagents } = agent.run;
  const background = backgroundOf(state);
  const children = [...new Set([...pausedChildrenOf(state), ...agent.orphanIds, ...background])];
  if (children.length === 0) return state;
  const isAnswer = winningSignal(state.log.signals)?.reason.code === "completed";
  const isDetaching = isAnswer && role.delegation.atEnd === "detach";
  const kept = new Set(isDetaching ? background : []);
  await Promise.all(
    children.map((id) =>
      kept.has(id) ? subagents.detach(agent, id) : subagents.dismiss(agent, id),
    ),
  );
  return transition(state, { type: "dropSubagents", unread: isDetaching ? [] : background });
}

function releaseOpen(agent: AgentRuntime): void {
  for (const leaseId of agent.account.releaseOpen())
    agent.record({ type: "budget.released", leaseId });
}

/** From running to a terminal status, by the winning signal (L5). The terminal event is the last of the execution (L2). */
function finish(agent: AgentRuntime, state: AgentState): EndedState {
  const completed = listOvershoots(agent, completeStep(agent, withLateSignals(agent, state)));
  releaseOpen(agent);
  const { signals } = completed.log;
  const reason = winningSignal(signals)?.reason ?? UNEXPLAINED;
  agent.record(
    { type: "continuation.evaluated", decision: "stop", work: [], signals, winner: reason },
    eventPlace(completed),
  );
  clearSections(agent, completed);
  const status = statusOf(reason);
  const ended = transition(completed, { type: "end", status, reason, atMs: agent.nowMs() });
  if (!isEnded(ended))
    throw new EspalierError({ code: "internal_error", message: "An ended state has no reason." });
  const { startedAtMs, endedAtMs } = ended.telemetry;
  const error = ended.log.errors.at(-1);
  agent.record({
    type: "agent.ended",
    role: agent.role.name,
    status: ended.status,
    reason,
    steps: ended.log.steps.length,
    text: lastTextOf(ended),
    usage: agent.account.usage(),
    ...(error === undefined || status !== "failed" ? {} : { error }),
    signals: ended.log.signals,
    durationMs: (endedAtMs ?? 0) - (startedAtMs ?? 0),
  });
  return ended;
}

/** Signals that came while the agent waited for its subagents to end. An answer that was given stands: there is nothing left to stop. */
function withLateSignals(agent: AgentRuntime, state: AgentState): AgentState {
  const hasAnswered = winningSignal(state.log.signals)?.reason.code === "completed";
  return hasAnswered ? state : heedSignals(agent, state);
}

function isEnded(state: AgentState): state is EndedState {
  return state.status !== "pending" && state.status !== "running" && state.status !== "paused";
}

const UNEXPLAINED: StopReason = {
  code: "error",
  message: "The loop ended without a signal.",
  data: {},
};
