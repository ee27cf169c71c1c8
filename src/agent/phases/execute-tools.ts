// execute: check, charge and run the calls of the reply, in parallel; one result for each, in call order (L3).

import type { JsonValue } from "../../kernel/json.ts";
import type { StopSignal } from "../../protocol/stop.ts";
import type { ToolExecution } from "../../protocol/tool-outcome.ts";
import { bindCall, type BoundCall } from "../../tools/bind-call.ts";
import type { AgentContext } from "../agent-context.ts";
import { openStepOf, pendingCallsOf, type AgentState } from "../agent-state.ts";
import { budgetSignal } from "./prepare.ts";

/** What the calls of one reply came to. */
export interface Executed {
  readonly executions: readonly ToolExecution[];
  /** How many calls were charged. */
  readonly charged: number;
  /** The typed result, if the model gave it. */
  readonly output: JsonValue | undefined;
  /** Set when a limit refused a call. */
  readonly signal: StopSignal | undefined;
}

/** Calls are charged in call order before any of them starts, so that parallel children cannot take an admitted call's place. */
export async function executeTools(agent: AgentContext, state: AgentState): Promise<Executed> {
  const { stepId, number: stepNumber } = openStepOf(state);
  const { messages } = state.conversation;
  let charged = 0;
  let signal: StopSignal | undefined;
  let output: JsonValue | undefined;
  const planned = pendingCallsOf(state).map((call, index) => {
    let bound = bindCall(agent.tools, call);
    if (bound.type !== "rejected") {
      const refusal = agent.budget.chargeToolCall();
      if (refusal === undefined) charged += 1;
      else {
        signal ??= budgetSignal(refusal);
        bound = overLimit(refusal.maximum);
      }
    }
    if (bound.type === "finish") output = bound.use;
    return { call, index, bound, messages };
  });
  const { effects } = agent;
  const executions = await effects.join(planned.map((call) => effects.callTool({ stepId, stepNumber }, call)));
  return { executions, charged, output, signal };
}

function overLimit(maximum: number): BoundCall {
  const text = `Not executed: all ${maximum} tool calls of the budget are used. Answer with what you have.`;
  return { type: "rejected", outcome: "refused", code: "tool_calls_limit", text };
}
