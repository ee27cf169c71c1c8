// execute: check, charge and run the calls of the reply, in parallel; one result for each, in call order (L3).

import type { JsonValue } from "../../kernel/json.ts";
import type { StopSignal } from "../../protocol/stop.ts";
import type { ToolExecution } from "../../protocol/tool-outcome.ts";
import { bindCall, type BoundCall } from "../../tools/bind-call.ts";
import { stopCodeOf } from "../../policies/budget.ts";
import type { AgentContext } from "../agent-context.ts";
import { openStepOf, pendingCallsOf, type AgentState } from "../agent-state.ts";
import type { BudgetRefusal } from "../budget-gate.ts";
import { budgetSignal } from "./prepare.ts";

/** What the calls of one reply came to. */
export interface Executed {
  readonly executions: readonly ToolExecution[];
  /** How many calls were charged. Giving a result is none. */
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
    const bound = bindCall(agent.tools, call);
    if (bound.type === "finish") output = bound.use;
    if (bound.type === "finish" || bound.type === "rejected")
      return { call, index, bound, messages };
    const refusal = agent.budget.chargeToolCall();
    if (refusal !== undefined) {
      signal ??= budgetSignal(refusal);
      return { call, index, bound: overLimit(refusal), messages };
    }
    charged += 1;
    return { call, index, bound, messages };
  });
  const { effects } = agent;
  const executions = await effects.join(
    planned.map((call) => effects.callTool({ stepId, stepNumber }, call)),
  );
  return { executions, charged, output, signal };
}

function overLimit({ axis, accountPath, maximum }: BudgetRefusal): BoundCall {
  const text = `Not executed: the ${axis} budget of ${accountPath}, which is ${maximum}, is used up. Answer with what you have.`;
  return { type: "rejected", outcome: "refused", code: stopCodeOf(axis), text };
}
