// Adds stop signals to a state: pending requests from outside, and signals for failures and limits.
// Only the loop and its end (`settle`) handle requests from outside (L1).
//
// `toBudgetSignal` turns the refusal of a budget account into a signal, for the phases prepare,
// infer, evaluate and execute. A signal in the state ends the agent: the loop (run-agent.ts) starts
// no further request and calls `settle` (life-cycle.ts), which ends it with `findWinningSignal`
// (policies/stop-signals.ts).

import { STOP_CODES_BY_AXIS, type ErrorRecord, type StopSignal } from "../protocol/stop.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import { getEventPosition, type AgentState } from "./agent-state.ts";
import { serializeError } from "./serialize-error.ts";
import { pauseIfPossible } from "./pause-agent.ts";
import { recordError, recordEvaluation, recordSignal } from "./transition.ts";
import { omitUndefined, type JsonObject } from "../kernel/json.ts";
import { describeTimeLimit } from "../policies/stop-signals.ts";
import type { BudgetRefusal, LastStep } from "../budget/lease.ts";
import { findOvershoots } from "../budget/lease-decision.ts";

/** Handles requests from outside: first stop requests, then the request to pause. */
export function stopOrPause(agent: AgentRuntime, state: AgentState): AgentState {
  const handled = handleStopRequests(agent, state);
  return agent.isPausing ? pauseIfPossible(agent, handled) : handled;
}

/**
 * Handles requests before the calls of a reply. Evaluate has accepted the calls and does not check
 * them again after a pause. If it has raised a signal, nothing pauses.
 */
export function pauseBeforeCalls(agent: AgentRuntime, state: AgentState): AgentState {
  const handled = handleStopRequests(agent, state);
  return agent.isPausing ? pauseIfPossible(agent, recordEvaluation(handled)) : handled;
}

/** Moves pending stop requests into the state. */
export function handleStopRequests(agent: AgentRuntime, state: AgentState): AgentState {
  if (state.status !== "running" || !agent.hasStopRequest) return state;
  return agent
    .takeStopRequests()
    .reduce<AgentState>((current, signal) => takeRequest(agent, current, signal), state);
}

/** Adds the signal of a stop request. An error raised by the run itself fails the agent. */
function takeRequest(agent: AgentRuntime, state: AgentState, signal: StopSignal): AgentState {
  const { source, reason } = signal;
  if (source !== "loop" || reason.code !== "error") return addSignal(agent, state, signal);
  const { error, ...data } = reason.data;
  const code = typeof error === "string" ? error : "internal_error";
  return failWith(agent, state, { code, message: reason.message, data });
}

/**
 * Adds a stop signal and records its event. Errors go through `failWith`, because the run counts
 * errors even if nothing listens to their events.
 */
export function addSignal(agent: AgentRuntime, state: AgentState, signal: StopSignal): AgentState {
  if (!agent.run.recorder.countUnread("signal.raised"))
    agent.record({ type: "signal.raised", signal }, getEventPosition(state));
  return recordSignal(state, signal);
}

/**
 * Adds a signal for each limit that the agent's replies have exceeded, unless a signal already
 * reports it. Such signals stop nothing.
 */
export function recordOvershoots(agent: AgentRuntime, state: AgentState): AgentState {
  const passed = findOvershoots(agent.account);
  if (passed.length === 0) return state;
  const isListed = (signal: StopSignal): boolean =>
    state.log.signals.some(
      ({ source, reason: { data } }) =>
        source === "budget" &&
        data["axis"] === signal.reason.data["axis"] &&
        data["accountPath"] === signal.reason.data["accountPath"],
    );
  return passed
    .map(toOvershootSignal)
    .filter((signal) => !isListed(signal))
    .reduce<AgentState>((current, signal) => addSignal(agent, current, signal), state);
}

/**
 * Turns anything thrown into one error in the log and one signal. Every failure takes this path.
 */
export function fail(agent: AgentRuntime, state: AgentState, cause: unknown): AgentState {
  return failWith(agent, state, serializeError(cause));
}

/** Fails the agent with an error that is already a record. */
export function failWith(agent: AgentRuntime, state: AgentState, error: ErrorRecord): AgentState {
  const failed = recordError(state, error);
  const signal = failed.log.signals.at(-1);
  if (signal !== undefined)
    agent.record({ type: "signal.raised", signal }, getEventPosition(state));
  return failed;
}

/** Returns the signal of a limit that refused something. */
export function toBudgetSignal(refusal: BudgetRefusal): StopSignal {
  const { requested, reserve } = refusal;
  return toLimitSignal(refusal, explainRefusal(refusal), omitUndefined({ requested, reserve }));
}

/** Returns the signal that the steps are used up, after a request that announced the last step. */
export function toLastStepSignal({ accountPath, maximum }: LastStep): StopSignal {
  return {
    source: "budget",
    reason: {
      code: "step_limit",
      message: `The steps budget of ${accountPath} allows ${maximum}; this was the last, and the request instructed the agent to finish in it.`,
      data: { axis: "steps", accountPath, maximum, current: maximum },
    },
  };
}

/** Returns the signal of a reply that used more than was left of a limit. */
function toOvershootSignal(passed: BudgetRefusal): StopSignal {
  const { axis, accountPath, maximum, spent } = passed;
  const message = `The ${axis} budget of ${accountPath} allows ${maximum}; ${conjugate(spent)} spent, because a reply used more than was left.`;
  return { ...toLimitSignal(passed, message), isOvershoot: true };
}

/**
 * Returns the signal of a reached limit. Its data has `current` where a refusal of the budget has
 * `spent`: depths and numbers of subagents reach limits too, and nothing is spent on them.
 */
function toLimitSignal(
  { axis, accountPath, maximum, spent }: BudgetRefusal,
  message: string,
  more: JsonObject = {},
): StopSignal {
  const data = { axis, accountPath, maximum, current: spent, ...more };
  return { source: "budget", reason: { code: STOP_CODES_BY_AXIS[axis], message, data } };
}

function explainRefusal(refusal: BudgetRefusal): string {
  const { axis, accountPath, maximum, spent, requested, reserve } = refusal;
  if (axis === "timeMs") return describeTimeLimit(accountPath, maximum);
  const rest = reserve === undefined ? "" : `, ${conjugate(reserve)} reserved for its own answer`;
  const lack =
    requested === 0
      ? "; nothing is left for the next call"
      : ` and ${requested} more ${requested === 1 ? "was" : "were"} requested`;
  return `The ${axis} budget of ${accountPath} allows ${maximum}; ${conjugate(spent)} spent${rest}${lack}.`;
}

/** Returns an amount and its verb, such as "1 is" or "2 are". */
function conjugate(amount: number): string {
  return `${amount} ${amount === 1 ? "is" : "are"}`;
}
