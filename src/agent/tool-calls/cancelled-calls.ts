// Settles the tool calls that a cancel, a stop or a failure of their reply prevented from starting:
// writes the result of each and closes its record. A cancelled call is settled where it is:
//
// - It was running: `runBody` in call-tool.ts drops its result, and its outcome is `CANCELLED`. A
//   delegation waits for its cancelled subagent in delegate.ts (`awaitAndRecord`), and its outcome is
//   `subagent_cancelled`; only a delegation that rejects is `CANCELLED`.
// - It had not begun: `settleUnstartedCall`. Its outcome is `not_executed`, as that of a call that a
//   cancel stops in its `beforeTool` hook (`bindOrReject` in admit-calls.ts).
// - Its step ends first: `settleRemainingCalls`, which life-cycle.ts calls for later batches and
//   deferred calls.
//
// `settleModelCall` in model-call.ts settles a cancelled model call.

import { createResultBody } from "../../protocol/stream-part.ts";
import type { ToolExecution } from "../../protocol/tool-outcome.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { getPendingCalls, hasAllResults, type AgentState } from "../agent-state.ts";
import type { CallEnd } from "../effect-outcomes.ts";
import { recordExecutions, recordResults } from "../transition.ts";
import { failCall } from "./call-outcome.ts";
import type { CallInProgress } from "./open-call.ts";
import { emitEnd, toRejectedEvent } from "./record-calls.ts";

/** The outcome of a cancelled call that was running. */
export const CANCELLED = failCall(
  "cancelled",
  "Cancelled: the agent was stopped before this call had a result.",
);

/** The result of a call whose subagent was paused when its parent was cancelled or stopped. */
const SUBAGENT_CUT_SHORT = failCall(
  "subagent_cancelled",
  "Cancelled: the agent stopped while the subagent was paused.",
);

/** Returns the text of a call that had not begun when its agent, or only its reply, was ended. */
export function describeUnstartedCall({ noStartSignal }: AgentRuntime): string {
  const cause = noStartSignal.aborted ? "the agent was stopped" : "a failure ended the reply";
  return `Not executed: ${cause} before this call could begin.`;
}

/** Records the end of a call that had not begun. Hooks do not see the call. */
export function settleUnstartedCall(
  call: CallInProgress,
  startedAtMs = call.agent.run.clock.nowMs(),
): CallEnd {
  const outcome = failCall("not_executed", describeUnstartedCall(call.agent));
  return emitEnd(call, outcome, { startedAtMs, endedAtMs: call.agent.run.clock.nowMs() });
}

/**
 * Returns the state with a result for every call of its open step, and all results in the history,
 * which needs exactly one for each call. `code` is the reason for which the step ends early.
 */
export function settleRemainingCalls(
  agent: AgentRuntime,
  state: AgentState,
  { atMs, code }: { readonly atMs: number; readonly code: string },
): AgentState {
  const { step } = state;
  if (step === undefined) return state;
  const times = { startedAtMs: atMs, endedAtMs: atMs };
  const ofReply = step.reply?.message.toolCalls ?? [];
  const executions = getPendingCalls(state).map((call): ToolExecution => {
    const isDelegated = step.deferrals.some(
      ({ callId, type }) => callId === call.callId && type === "subagent",
    );
    if (isDelegated) return { call, ...SUBAGENT_CUT_SHORT, ...times };
    const text = `Not executed: the agent stopped before this call (${code}).`;
    const outcome = failCall("not_executed", text);
    const { callId, toolName } = call;
    const place = { toolName, index: ofReply.indexOf(call) };
    const body = toRejectedEvent(place, agent.tools.find(toolName), outcome);
    agent.record(body, { stepId: step.stepId, callId });
    return { call, ...outcome, ...times };
  });
  const complete =
    executions.length === 0 ? state : recordExecutions(state, { executions, deferrals: [] });
  agent.noteState(complete);
  const { pieces } = agent.run;
  if (pieces !== undefined) {
    const source = agent.toPartSource({ stepId: step.stepId, stepNumber: step.number });
    for (const execution of executions) pieces.emit(source, createResultBody(execution));
  }
  return hasAllResults(complete) ? recordResults(complete) : complete;
}
