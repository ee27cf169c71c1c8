// Stop signals: taken in from outside, added, and made of failures. Only the loop and its end
// (`settle`) take in those from outside (L1).

import type { ErrorRecord, StopSignal } from "../protocol/stop.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import { getEventPosition, type AgentState } from "./agent-state.ts";
import { serializeError } from "./error-record.ts";
import { pauseIfPossible } from "./pausing.ts";
import { recordError, recordEvaluation, recordSignal } from "./transition.ts";
import { omitUndefined, type JsonObject } from "../kernel/json.ts";
import { getStopCode } from "../policies/budget.ts";
import { describeTimeLimit } from "../policies/stop-signals.ts";
import type { BudgetRefusal, LastStep } from "../budget/lease.ts";
import { findOvershoots } from "../budget/room.ts";

/** Takes in what came from outside: requests to stop, and else the request to pause. */
export function handleStopsAndPause(agent: AgentRuntime, state: AgentState): AgentState {
  const handled = handleStopRequests(agent, state);
  return agent.isPausing ? pauseIfPossible(agent, handled) : handled;
}

/**
 * The same before the calls of a reply, which evaluate has seen: after a pause it does not see them again.
 * If it has raised a signal, nothing pauses.
 */
export function pauseBeforeCalls(agent: AgentRuntime, state: AgentState): AgentState {
  const handled = handleStopRequests(agent, state);
  return agent.isPausing ? pauseIfPossible(agent, recordEvaluation(handled)) : handled;
}

/** Takes in the stop signals that came from outside. */
export function handleStopRequests(agent: AgentRuntime, state: AgentState): AgentState {
  if (state.status !== "running" || !agent.hasStopRequest) return state;
  return agent
    .takeStopRequests()
    .reduce<AgentState>((current, signal) => takeRequest(agent, current, signal), state);
}

/** A request of the run itself that is an error makes the agent fail. */
function takeRequest(agent: AgentRuntime, state: AgentState, signal: StopSignal): AgentState {
  const { source, reason } = signal;
  if (source !== "loop" || reason.code !== "error") return addSignal(agent, state, signal);
  const { error, ...data } = reason.data;
  const code = typeof error === "string" ? error : "internal_error";
  return failWith(agent, state, { code, message: reason.message, data });
}

/**
 * Adds a stop signal and records its event. An error goes through `failWith` instead: the run counts
 * errors even if nothing hears of them.
 */
export function addSignal(agent: AgentRuntime, state: AgentState, signal: StopSignal): AgentState {
  if (!agent.run.recorder.countUnheard("signal.raised"))
    agent.record({ type: "signal.raised", signal }, getEventPosition(state));
  return recordSignal(state, signal);
}

/** Lists the limits of the agent that its replies have passed, unless a signal says so already. None of them stops anything. */
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

/** The one failure path: whatever broke becomes one error in the log and one signal. */
export function fail(agent: AgentRuntime, state: AgentState, cause: unknown): AgentState {
  return failWith(agent, state, serializeError(cause));
}

/** The same for an error that is data already. */
export function failWith(agent: AgentRuntime, state: AgentState, error: ErrorRecord): AgentState {
  const failed = recordError(state, error);
  const signal = failed.log.signals.at(-1);
  if (signal !== undefined)
    agent.record({ type: "signal.raised", signal }, getEventPosition(state));
  return failed;
}

/** The signal that a limit raises when it refuses something. */
export function toBudgetSignal(refusal: BudgetRefusal): StopSignal {
  const { requested, reserve } = refusal;
  return toLimitSignal(refusal, explainRefusal(refusal), omitUndefined({ requested, reserve }));
}

/** The steps are used up, and the request said so in time. */
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

/** The record that a reply used more than was left of a limit. */
function toOvershootSignal(passed: BudgetRefusal): StopSignal {
  const { axis, accountPath, maximum, spent } = passed;
  const message = `The ${axis} budget of ${accountPath} allows ${maximum}; ${spent} are spent, because a reply used more than was left.`;
  return { ...toLimitSignal(passed, message), isOvershoot: true };
}

function toLimitSignal(
  { axis, accountPath, maximum, spent }: BudgetRefusal,
  message: string,
  more: JsonObject = {},
): StopSignal {
  const data = { axis, accountPath, maximum, current: spent, ...more };
  return { source: "budget", reason: { code: getStopCode(axis), message, data } };
}

function explainRefusal(refusal: BudgetRefusal): string {
  const { axis, accountPath, maximum, spent, requested, reserve } = refusal;
  if (axis === "timeMs") return describeTimeLimit(accountPath, maximum);
  const rest = reserve === undefined ? "" : `, ${reserve} are reserved for its own answer`;
  const lack =
    requested === 0
      ? "; nothing is left for the next call"
      : ` and ${requested} more were requested`;
  return `The ${axis} budget of ${accountPath} allows ${maximum}; ${spent} are spent${rest}${lack}.`;
}
