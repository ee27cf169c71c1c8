// prepare: assemble the request, count it, hold the budget for it.

import { countInputTokens } from "../../model/count-tokens.ts";
import type { ModelRequest } from "../../model/model.ts";
import { stopCodeOf } from "../../policies/budget.ts";
import type { StopSignal } from "../../protocol/stop.ts";
import type { AgentContext } from "../agent-context.ts";
import type { AgentState } from "../agent-state.ts";
import type { BudgetRefusal, Lease } from "../budget-gate.ts";
import { raise, stepPlace } from "../life-cycle.ts";
import { transition } from "../transition.ts";

/** A model call that is paid for; undefined call: the budget refused it, or the agent was told to end. */
export interface Prepared {
  readonly state: AgentState;
  readonly call: PreparedCall | undefined;
}

export interface PreparedCall {
  readonly request: ModelRequest;
  readonly lease: Lease;
}

/** A request that would start over a limit is never sent (R20); the refusal says which limit, whose, and where it stands. */
export async function prepare(agent: AgentContext, state: AgentState): Promise<Prepared> {
  const { role, effects } = agent;
  const place = stepPlace(agent, state);
  const draft: ModelRequest = {
    messages: state.conversation.messages,
    tools: agent.tools.specs,
    maxOutputTokens: role.maxOutputTokens,
    ...(role.temperature === undefined ? {} : { temperature: role.temperature }),
  };
  const inputTokens = countInputTokens(role.model, draft, state.conversation.prefix);
  const ask = { inputTokens, maxOutputTokens: role.maxOutputTokens, price: role.model.price };
  const [outcome] = await effects.join([effects.reserve(place, ask)]);
  if (outcome === undefined) return { state, call: undefined };
  const waited =
    outcome.waitedMs === 0
      ? state
      : transition(state, { type: "addTime", waitedMs: outcome.waitedMs });
  if (outcome.type === "cancelled") return { state: waited, call: undefined };
  if (outcome.type === "refused") {
    agent.record({ type: "budget.denied", ...outcome.refusal }, place);
    return { state: raise(agent, waited, budgetSignal(outcome.refusal)), call: undefined };
  }
  const { leaseId, maxOutputTokens } = outcome.lease;
  agent.record(
    { type: "budget.reserved", leaseId, inputTokens, maxOutputTokens, waitedMs: outcome.waitedMs },
    place,
  );
  return { state: waited, call: { request: { ...draft, maxOutputTokens }, lease: outcome.lease } };
}

/** The signal that a limit raises. */
export function budgetSignal(refusal: BudgetRefusal): StopSignal {
  const { axis, accountPath, maximum, spent, asked } = refusal;
  return {
    source: "budget",
    reason: {
      code: stopCodeOf(axis),
      message: explanation(refusal),
      data: { axis, accountPath, maximum, current: spent, asked },
    },
  };
}

const MICRO_USD_PER_USD = 1_000_000;

function explanation({ axis, accountPath, maximum, spent, asked }: BudgetRefusal): string {
  if (axis === "wallTimeMs") return `The time limit of ${accountPath} is over.`;
  const [name, unit] = axis === "costMicroUsd" ? ["costUsd", MICRO_USD_PER_USD] : [axis, 1];
  return `The ${name} budget of ${accountPath} allows ${maximum / unit}; ${spent / unit} are spent and ${asked / unit} more were asked for.`;
}
