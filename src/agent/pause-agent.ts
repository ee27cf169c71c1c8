// Pauses an agent that waits for answers or for paused subagents, or whose run was asked to pause.

import type { Question } from "../protocol/question.ts";
import type { StopReason } from "../protocol/stop.ts";
import { releaseLeases } from "./model-call.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import {
  getBackgroundChildren,
  getEventPosition,
  isRequestTooLong,
  getPausedChildren,
  findAskedQuestions,
  type AgentState,
  type PausedState,
} from "./agent-state.ts";
import { createAnsweredEvent } from "./tool-calls/ask-approver.ts";
import { pauseExecution } from "./transition.ts";

/**
 * Pauses on request, unless something else is due first: a signal, a given answer, or input that
 * the model has to read.
 */
export function pauseIfPossible(agent: AgentRuntime, state: AgentState): AgentState {
  if (state.status !== "running") return state;
  const isDue =
    hasDueBelow(agent) ||
    isReplyDue(agent, state) ||
    isRequestTooLong(state) ||
    hasAnswer(agent, state);
  return isDue || state.log.signals.length > 0 ? state : pauseExecution(state, REQUESTED);
}

/**
 * True if the agent has answered and continues only to read a message. Unread messages are not
 * persisted, so the message is read before a pause.
 */
function isReplyDue({ mailbox }: AgentRuntime, state: AgentState): boolean {
  const isBetweenSteps = state.step === undefined;
  return (
    isBetweenSteps &&
    mailbox?.hasMessages === true &&
    state.conversation.messages.at(-1)?.role === "assistant"
  );
}

/** Pauses if there is something to wait for and no signal requires a stop. */
export function pauseIfWaiting(agent: AgentRuntime, state: AgentState): AgentState {
  if (state.status !== "running" || state.log.signals.length > 0) return state;
  const questions = findAskedQuestions(state);
  const children = getPausedChildren(state);
  if (questions.length === 0 && children.length === 0) return state;
  if (questions.length === 0 && agent.run.pauseSignal.aborted)
    return pauseExecution(state, REQUESTED);
  const message = questions.length === 0 ? "Subagents are paused." : describeWait(questions);
  const data = { questions: questions.length, pausedSubagents: children.length };
  return pauseExecution(state, { code: "input_required", message, data });
}

/** Maximum number of questions named in the reason of a pause. */
const MOST_NAMED = 5;

/** Describes open questions: each call with its agent. */
export function describeWait(questions: readonly Question[]): string {
  const named = questions.slice(0, MOST_NAMED).map(({ kind, toolName, agentPath }) => {
    const subject = kind === "approval" ? "approval of" : "result of";
    return `${subject} ${toolName} (${agentPath})`;
  });
  const hidden = questions.length - named.length;
  const more = hidden === 0 ? "" : ` and ${hidden} more`;
  return `Waits for ${named.join(", ")}${more}.`;
}

const REQUESTED: StopReason = {
  code: "pause_requested",
  message: "The caller asked the run to pause.",
  data: {},
};

/** Pauses an agent that only waits for background subagents, one of which is paused. */
export function pauseForSubagents(agent: AgentRuntime, state: AgentState): AgentState {
  if (agent.run.pauseSignal.aborted) return pauseExecution(state, REQUESTED);
  const data = { questions: 0, pausedSubagents: getBackgroundChildren(state).length };
  return pauseExecution(state, { code: "input_required", message: "Subagents are paused.", data });
}

/**
 * Releases the leases of a paused agent. It settles after its background subagents have settled.
 */
export async function settlePaused(agent: AgentRuntime, state: PausedState): Promise<PausedState> {
  const { reason, log } = state;
  const background = getBackgroundChildren(state);
  if (background.length > 0) await agent.whenBackgroundSettled(background);
  releaseLeases(agent);
  const stepCount = log.steps.length;
  const usage = agent.account.usage();
  agent.record(
    { type: "agent.paused", role: agent.role.name, reason, stepCount, usage },
    getEventPosition(state),
  );
  agent.settle(state);
  return state;
}

/** Withdraws the open questions of an agent that ends. */
export function dropQuestions(agent: AgentRuntime, state: AgentState): void {
  for (const question of findAskedQuestions(state)) {
    const answer = question.kind === "approval" ? "denied" : "failure";
    const { callId } = question;
    const dropped = createAnsweredEvent(agent, question, { answer, source: "end" });
    agent.record(dropped, { ...getEventPosition(state), callId });
  }
}

/**
 * True if a paused subagent, at any depth below, has to continue first: it must end, or its
 * question was answered.
 */
function hasDueBelow(agent: AgentRuntime): boolean {
  for (const { settled, noStartSignal } of agent.walkActiveBelow()) {
    if (settled?.status !== "paused") continue;
    if (noStartSignal.aborted) return true;
    if (hasAnswer(agent, settled)) return true;
  }
  return false;
}

/** Returns true if a question of the agent with this state has an answer. */
function hasAnswer({ run }: AgentRuntime, state: AgentState): boolean {
  return findAskedQuestions(state).some(({ questionId }) => run.answers?.has(questionId) === true);
}
