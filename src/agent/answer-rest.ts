// Results for the calls of a step that ends before they have one: every call has exactly one (L3).

import type { StepId } from "../protocol/ids.ts";
import type { ToolCall } from "../protocol/message.ts";
import type { StopReason } from "../protocol/stop.ts";
import { failureClass } from "../protocol/tool-failure.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import { winningSignal } from "../policies/stop-signals.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import { isAnswered, pendingCallsOf, type AgentState } from "./agent-state.ts";
import { descriptorOf } from "./tool-calls/record.ts";
import { transition } from "./transition.ts";

/** When a step ends, and why its agent does, if it does. */
interface StepEnd {
  readonly atMs: number;
  readonly reason: StopReason | undefined;
}

/** The state with a result for every call of its open step, and all of them in the history. */
export function answerRest(agent: AgentRuntime, state: AgentState, atMs: number): AgentState {
  const { step } = state;
  if (step === undefined) return state;
  const end = { atMs, reason: winningSignal(state.log.signals)?.reason };
  const delegated = new Set(
    step.deferrals.flatMap((one) => (one.type === "subagent" ? [one.callId] : [])),
  );
  const executions = pendingCallsOf(state).map((call) =>
    delegated.has(call.callId) ? cutShort(call, end) : notExecuted(agent, step.stepId, call, end),
  );
  const complete =
    executions.length === 0
      ? state
      : transition(state, { type: "recordExecutions", executions, deferrals: [] });
  return isAnswered(complete) ? transition(complete, { type: "incorporate" }) : complete;
}

/** The call of a subagent that was paused when its parent stopped. */
function cutShort(call: ToolCall, { atMs }: StepEnd): ToolExecution {
  return {
    call,
    type: "cancelled",
    text: "Cancelled: the agent stopped while the subagent was paused.",
    errorCode: "subagent_cancelled",
    severity: failureClass("subagent_cancelled").severity,
    startedAtMs: atMs,
    endedAtMs: atMs,
  };
}

/** A call that did not begin; an event says so. */
function notExecuted(
  agent: AgentRuntime,
  stepId: StepId,
  call: ToolCall,
  { reason, atMs }: StepEnd,
): ToolExecution {
  const { callId, toolName } = call;
  const text = `Not executed: the agent stopped before this call (${reason?.code ?? "unknown"}).`;
  const { severity } = failureClass("not_executed");
  const outcome = "not_executed";
  agent.effects.record(
    {
      type: "tool.rejected",
      toolName,
      ...descriptorOf(agent.tools.find(toolName)),
      outcome,
      errorCode: "not_executed",
      severity,
      resultCharacters: text.length,
    },
    { stepId, callId },
  );
  const times = { startedAtMs: atMs, endedAtMs: atMs };
  return { call, type: outcome, text, errorCode: "not_executed", severity, ...times };
}
