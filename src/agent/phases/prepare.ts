// prepare: what the model is to be shown, counted and paid for. Work that goes before a model call is done here: the task is taken
// in, subtasks are worked off, messages from outside are delivered, a history that outgrew its window is compacted.

import { countInputTokens } from "../../model/count-tokens.ts";
import { stopCodeOf } from "../../policies/budget.ts";
import type { StopSignal } from "../../protocol/stop.ts";
import type { AgentContext } from "../agent-context.ts";
import { NO_PREFIX, type AgentState } from "../agent-state.ts";
import type { BudgetRefusal } from "../budget-gate.ts";
import { errorRecord, failWith, raise, stepPlace, type Prepared } from "../life-cycle.ts";
import { transition } from "../transition.ts";
import {
  hookedRequest,
  plainRequest,
  budgetNotice,
  budgetNoticeTokens,
  closingRequest,
  noticeTokens,
  withBudgetNotice,
  type Assembled,
  type Held,
} from "./assemble-request.ts";
import { compact, isOverflowing } from "./compact.ts";
import { awaitSubagents } from "./await-subagents.ts";
import { delivered, withLetters } from "./deliver-messages.ts";
import { takeTask } from "./take-task.ts";
import { workOffSubtasks } from "./work-off-subtasks.ts";

/** Whether a step may start, and with which request. What has nothing to do is left out: most steps wait for the lease alone. */
export async function prepare(agent: AgentContext, state: AgentState): Promise<Prepared> {
  let next = state.log.isBriefed ? state : await takeTask(agent, state);
  if (isHeld(agent, next)) return { state: next, call: undefined };
  if (next.log.subtasks.length > 0) next = await workOffSubtasks(agent, next);
  if (isHeld(agent, next) || next.log.subtasks.length > 0) return { state: next, call: undefined };
  if (next.log.isAwaiting && !agent.inbox.hasMessages) next = await awaitSubagents(agent, next);
  if (isHeld(agent, next)) return { state: next, call: undefined };
  if (isOverflowing(agent, next)) next = await compact(agent, next);
  if (isHeld(agent, next)) return { state: next, call: undefined };
  const letters = agent.inbox.takeMessages();
  const told = withLetters(next, letters);
  const plain = plainOrFailed(agent, told);
  if (plain.type === "held") return { state: plain.state, call: undefined };
  const isHooked = agent.hooks.chain("beforeModel").length > 0;
  const assembled = isHooked ? await hookedRequest(agent, told, plain) : plain;
  if (assembled.type === "held") return { state: assembled.state, call: undefined };
  const prepared = await hold(agent, next, assembled);
  return prepared.call === undefined ? prepared : delivered(agent, prepared, letters);
}

/** A filter that breaks fails the agent, and what the phase has done so far stays. */
function plainOrFailed(agent: AgentContext, state: AgentState): Assembled | Held {
  try {
    return plainRequest(agent, state);
  } catch (cause) {
    return { type: "held", state: failWith(agent, state, errorRecord(cause)) };
  }
}

function isHeld(agent: AgentContext, { log, status }: AgentState): boolean {
  return agent.isEnding || log.signals.length > 0 || status !== "running";
}

/** A request that would start over a limit is never sent (R20); the refusal says which limit, whose, and where it stands. */
async function hold(
  agent: AgentContext,
  state: AgentState,
  { request: draft, isFaithful, hiddenTools }: Assembled,
): Promise<Prepared> {
  const { role, effects } = agent;
  const place = stepPlace(agent, state);
  const prefix = isFaithful ? state.conversation.prefix : NO_PREFIX;
  const isLast = role.wrapUp !== undefined && (agent.budget.remaining()["steps"] ?? Infinity) <= 1;
  const line = budgetNotice(role, () => agent.budget.remaining());
  const noticed = (isLast ? noticeTokens(role) : 0) + budgetNoticeTokens(line);
  const inputTokens = countInputTokens(role.model, draft, prefix) + noticed;
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
  const { lease } = outcome;
  const { leaseId, maxOutputTokens } = lease;
  agent.record(
    { type: "budget.reserved", leaseId, inputTokens, maxOutputTokens, waitedMs: outcome.waitedMs },
    place,
  );
  const lastStep = isLast ? lease.lastStep : undefined;
  const plain = Object.freeze({ ...draft, maxOutputTokens });
  const request = withBudgetNotice(
    lastStep === undefined ? plain : closingRequest(role, plain),
    budgetNotice(role, () => agent.budget.remainingWith(lease)),
  );
  const asides = request.messages.length - draft.messages.length;
  const call = { request, lease, asides, hiddenTools, lastStep };
  return { state: waited, call: { ...call, isFaithful: isFaithful && lastStep === undefined } };
}

/** The signal that a limit raises. */
export function budgetSignal(refusal: BudgetRefusal): StopSignal {
  const { axis, accountPath, maximum, spent, asked, kept } = refusal;
  const data = { axis, accountPath, maximum, current: spent, asked };
  return {
    source: "budget",
    reason: {
      code: stopCodeOf(axis),
      message: explanation(refusal),
      data: kept === undefined ? data : { ...data, kept },
    },
  };
}

const MICRO_USD_PER_USD = 1_000_000;

function explanation(refusal: BudgetRefusal): string {
  const { axis, accountPath, maximum, spent, asked, kept } = refusal;
  if (axis === "wallTimeMs") return `The time limit of ${accountPath} is over.`;
  const [name, unit] = axis === "costMicroUsd" ? ["costUsd", MICRO_USD_PER_USD] : [axis, 1];
  const rest = kept === undefined ? "" : `, ${kept / unit} are kept for its own answer`;
  return `The ${name} budget of ${accountPath} allows ${maximum / unit}; ${spent / unit} are spent${rest} and ${asked / unit} more were asked for.`;
}
