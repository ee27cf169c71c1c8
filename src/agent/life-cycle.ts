// What happens to an execution outside its phases: its start, its steps' opening and completion, failure and end.

import { EspalierError, messageOf } from "../kernel/error.ts";
import { stepIdOf } from "../protocol/ids.ts";
import { JsonObjectSchema } from "../protocol/json-value.ts";
import type { ToolCall, Message } from "../protocol/message.ts";
import type { ErrorRecord, StopReason, StopSignal } from "../protocol/stop.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import { statusOf, winningSignal } from "../policies/stop-signals.ts";
import type { AgentContext, EventPlace } from "./agent-context.ts";
import {
  lastTextOf,
  pendingCallsOf,
  pendingState,
  type AgentState,
  type EndedState,
} from "./agent-state.ts";
import type { EffectPlace } from "./effects.ts";
import { transition } from "./transition.ts";

const NO_PREFIX = { messageCount: 0, tokens: 0 };

/** From nothing to running. */
export function begin(agent: AgentContext, messages: readonly Message[]): AgentState {
  const { role, identity, effects } = agent;
  agent.record({
    type: "agent.started",
    role: role.name,
    ...(role.purpose === undefined ? {} : { purpose: role.purpose }),
    provider: role.model.provider,
    model: role.model.id,
    task: agent.task,
    spawnCallId: agent.spawnCallId ?? null,
    budget: agent.budget.remaining(),
  });
  const pending = pendingState({ messages, prefix: NO_PREFIX });
  return transition(pending, {
    type: "markStarted",
    executionId: identity.executionId,
    atMs: effects.nowMs(),
  });
}

/** Where the step that is open, or will be opened next, stands. */
export function stepPlace(agent: AgentContext, state: AgentState): EffectPlace {
  const stepNumber = state.log.steps.length + 1;
  return { stepId: stepIdOf(agent.identity.executionId, stepNumber), stepNumber };
}

/** The step to which an event about the state belongs: the open one, or the last. */
export function eventPlace(state: AgentState): EventPlace {
  const step =
    state.status === "running" && state.step !== undefined ? state.step : state.log.steps.at(-1);
  return step === undefined ? {} : { stepId: step.stepId };
}

/** Opens the next step. */
export function openStep(agent: AgentContext, state: AgentState): AgentState {
  const { stepId, stepNumber: number } = stepPlace(agent, state);
  agent.record({ type: "step.started", number }, { stepId });
  return transition(state, { type: "openStep", stepId, number, atMs: agent.effects.nowMs() });
}

/** Completes the open step, if there is one: calls that nothing has answered get their result here (L3), and the step its one record (L4). */
export function completeStep(agent: AgentContext, state: AgentState): AgentState {
  if (state.status !== "running" || state.step === undefined) return state;
  const { stepId, number } = state.step;
  const atMs = agent.effects.nowMs();
  const reason = winningSignal(state.log.signals)?.reason;
  const unanswered = pendingCallsOf(state).map((call) => notExecuted(call, reason, atMs));
  const answered =
    unanswered.length === 0
      ? state
      : transition(state, { type: "recordExecutions", executions: unanswered });
  const completed = transition(answered, { type: "recordStep", atMs });
  const record = completed.log.steps.at(-1);
  if (record !== undefined) {
    const { telemetry, tools, error } = record;
    const failure = error === undefined ? {} : { error };
    const toolCalls = tools.calls.length;
    agent.record(
      { type: "step.completed", number, usage: telemetry.usage, toolCalls, ...failure },
      { stepId },
    );
  }
  return completed;
}

/** Takes in the stop signals that came from outside. */
export function heedSignals(agent: AgentContext, state: AgentState): AgentState {
  return agent.takeSignals().reduce((current, signal) => raise(agent, current, signal), state);
}

/** Adds a stop signal and says so. */
export function raise(agent: AgentContext, state: AgentState, signal: StopSignal): AgentState {
  agent.record({ type: "signal.raised", signal }, eventPlace(state));
  return transition(state, { type: "addSignal", signal });
}

/** The one failure path (R16): whatever broke becomes one error in the log and one signal. */
export function fail(agent: AgentContext, state: AgentState, cause: unknown): AgentState {
  return failWith(agent, state, errorRecord(cause));
}

/** The same for an error that is data already. */
export function failWith(agent: AgentContext, state: AgentState, error: ErrorRecord): AgentState {
  const failed = transition(state, { type: "failWith", error });
  const signal = failed.log.signals.at(-1);
  if (signal !== undefined) agent.record({ type: "signal.raised", signal }, eventPlace(state));
  return failed;
}

/** From running to a terminal status, by the winning signal (L5). The terminal event is the last of the execution (L2). */
export function finish(agent: AgentContext, state: AgentState): EndedState {
  const completed = completeStep(agent, state);
  for (const leaseId of agent.budget.releaseOpen())
    agent.record({ type: "budget.released", leaseId });
  const reason = winningSignal(completed.log.signals)?.reason ?? UNEXPLAINED;
  const status = statusOf(reason);
  const ended = transition(completed, { type: "end", status, reason, atMs: agent.effects.nowMs() });
  if (!("reason" in ended))
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
    usage: agent.usage(),
    ...(error === undefined || status !== "failed" ? {} : { error }),
    durationMs: (endedAtMs ?? 0) - (startedAtMs ?? 0),
  });
  return ended;
}

/** An error as plain data: coded ones keep their code, foreign ones become `internal_error` of the loop. */
export function errorRecord(cause: unknown): ErrorRecord {
  if (EspalierError.is(cause)) {
    const data = JsonObjectSchema.safeParse(cause.data);
    return { code: cause.code, message: messageOf(cause), data: data.success ? data.data : {} };
  }
  return { code: "internal_error", message: messageOf(cause), data: {} };
}

const UNEXPLAINED: StopReason = {
  code: "error",
  message: "The loop ended without a signal.",
  data: {},
};

function notExecuted(call: ToolCall, reason: StopReason | undefined, atMs: number): ToolExecution {
  return {
    call,
    type: "not_executed",
    text: `Not executed: the agent stopped before this call (${reason?.code ?? "unknown"}).`,
    errorCode: "not_executed",
    startedAtMs: atMs,
    endedAtMs: atMs,
  };
}
