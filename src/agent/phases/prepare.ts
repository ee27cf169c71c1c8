// prepare: what the model is to be shown, counted and paid for. Work that goes before a model call is done here: the task is taken
// in, subtasks are worked off, messages from outside are delivered, a history that outgrew its window is compacted.

import {
  countInputTokens,
  estimateMessages,
  type CountedTokens,
} from "../../model/count-tokens.ts";
import { asidesAtEnd } from "../../model/request-prefix.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { NO_PREFIX, type AgentState } from "../agent-state.ts";
import type { Lease, Remaining } from "../budget-gate.ts";
import { budgetSignal } from "../budget-signal.ts";
import { errorRecord } from "../error-record.ts";
import { failWith, raise, stepPlace, type Prepared, type PreparedCall } from "../life-cycle.ts";
import { reserve } from "../model-call.ts";
import { leftAtStep } from "../step-context.ts";
import { transition } from "../transition.ts";
import {
  hookedRequest,
  plainRequest,
  budgetNotice,
  closingRequest,
  noticeTokens,
  withNotices,
  type Assembled,
  type Held,
  type Notices,
} from "./assemble-request.ts";
import { compact, isOverflowing } from "./compact.ts";
import { awaitSubagents } from "./await-subagents.ts";
import { delivered, withLetters } from "./deliver-messages.ts";
import {
  hasOwnSections,
  makeSections,
  NO_SECTIONS,
  type SectionMessages,
} from "./make-sections.ts";
import { retain } from "./retain.ts";
import { takeTask } from "./take-task.ts";
import { workOffSubtasks } from "./work-off-subtasks.ts";

/** Whether a step may start, and with which request. What has nothing to do is left out: most steps wait for the lease alone. */
export async function prepare(agent: AgentRuntime, state: AgentState): Promise<Prepared> {
  let next = state.log.isBriefed ? state : await takeTask(agent, state);
  if (isHeld(agent, next)) return { state: next, call: undefined };
  if (agent.retention !== undefined && !state.log.isBriefed) next = await retain(agent, next);
  if (next.log.subtasks.length > 0) next = await workOffSubtasks(agent, next);
  if (isHeld(agent, next) || next.log.subtasks.length > 0) return { state: next, call: undefined };
  if (next.log.isAwaiting && !agent.mailbox.hasMessages) next = await awaitSubagents(agent, next);
  if (isHeld(agent, next)) return { state: next, call: undefined };
  const { state: sectioned, messages: sections } = hasOwnSections(agent)
    ? await makeSections(agent, next)
    : { state: next, messages: NO_SECTIONS };
  next = sectioned;
  if (isHeld(agent, next)) return { state: next, call: undefined };
  if (isOverflowing(agent, next, sections)) next = await compact(agent, next, sections);
  if (isHeld(agent, next)) return { state: next, call: undefined };
  const letters = agent.mailbox.takeMessages();
  const told = withLetters(next, letters);
  const plain = plainOrFailed(agent, told, sections);
  if (plain.type === "held") return { state: plain.state, call: undefined };
  const isHooked = agent.hooks.points.has("beforeModel");
  const assembled = isHooked ? await hookedRequest(agent, told, plain) : plain;
  if (assembled.type === "held") return { state: assembled.state, call: undefined };
  const prepared = await hold(agent, next, assembled);
  return prepared.call === undefined ? prepared : delivered(agent, prepared, letters);
}

/** A filter that breaks fails the agent, and what the phase has done so far stays. */
function plainOrFailed(
  agent: AgentRuntime,
  state: AgentState,
  sections: SectionMessages,
): Assembled | Held {
  try {
    return plainRequest(agent, state, sections);
  } catch (cause) {
    return { type: "held", state: failWith(agent, state, errorRecord(cause)) };
  }
}

function isHeld(agent: AgentRuntime, { log, status }: AgentState): boolean {
  return agent.isEnding || log.signals.length > 0 || status !== "running";
}

/** A request that would start over a limit is never sent (R20); the refusal says which limit, whose, and where it stands. */
async function hold(
  agent: AgentRuntime,
  state: AgentState,
  assembled: Assembled,
): Promise<Prepared> {
  const { role } = agent;
  const place = stepPlace(agent, state);
  const notices = noticesOf(agent, state);
  const { tokens: inputTokens, isEstimated } = sizeOf(agent, state, assembled, notices);
  const { strategy, maxInputTokens = Infinity } = role.compaction ?? {};
  if (strategy === "error" && inputTokens > maxInputTokens) {
    const error = tooLong(inputTokens, maxInputTokens);
    return { state: failWith(agent, state, error), call: undefined };
  }
  const { maxOutputTokens: most, model } = role;
  const { price, minOutputTokens } = model;
  const steps = place.isCounted === true ? 0 : 1;
  const ask = { inputTokens, maxOutputTokens: most, minOutputTokens, price, steps } as const;
  const outcome = await reserve(agent, place, ask);
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
  const remaining = (): Remaining => leftAtStep(waited, agent.account.remainingWith(lease));
  const paid = { lease, remaining, notices, isEstimated };
  return { state: waited, call: paidCall(agent, assembled, paid) };
}

/** What the model would be told at the end, as things stand. */
function noticesOf({ role, account }: AgentRuntime, state: AgentState): Notices {
  const remaining = (): Remaining => leftAtStep(state, account.remaining());
  const isLast = role.wrapUp !== undefined && (remaining()["steps"] ?? Infinity) <= 1;
  return {
    wrapUp: isLast ? role.wrapUp : undefined,
    budget: budgetNotice(role, remaining),
  };
}

function sizeOf(
  { role }: AgentRuntime,
  { conversation }: AgentState,
  { request, isFaithful, asides }: Assembled,
  notices: Notices,
): CountedTokens {
  const noticed = noticeTokens(notices);
  const { tokens, isEstimated } = isFaithful
    ? countInputTokens(role.model, request, conversation.prefix, asides)
    : countInputTokens(role.model, request, NO_PREFIX);
  return { tokens: tokens + noticed, isEstimated: isEstimated || noticed > 0 };
}

function tooLong(inputTokens: number, maxInputTokens: number): ErrorRecord {
  return {
    code: "model_context_overflow",
    message: `Expected a request of at most ${maxInputTokens} input tokens (compaction.maxInputTokens), got ${inputTokens}. Raise it, or choose the strategy truncate or summarize.`,
    data: { inputTokens, maxInputTokens },
  };
}

interface Paid {
  readonly lease: Lease;
  /** Left to the agent, the call included. */
  readonly remaining: () => Remaining;
  readonly notices: Notices;
  readonly isEstimated: boolean;
}

/** The call that the lease allows, with what the model is told now. */
function paidCall(
  { role }: AgentRuntime,
  { request: draft, isFaithful, historyLength, asides: sections, tail, hiddenTools }: Assembled,
  { lease, remaining, notices, isEstimated }: Paid,
): PreparedCall {
  const lastStep = notices.wrapUp === undefined ? undefined : lease.lastStep;
  const capped = Object.freeze({ ...draft, maxOutputTokens: lease.maxOutputTokens });
  const told = {
    wrapUp: lastStep === undefined ? undefined : notices.wrapUp,
    budget: budgetNotice(role, remaining),
  };
  const request = withNotices(lastStep === undefined ? capped : closingRequest(capped), told);
  const { length } = request.messages;
  return {
    request,
    lease,
    isFaithful: isFaithful && lastStep === undefined,
    historyLength,
    asideTokens: (sections.size === 0 ? 0 : estimateMessages(sections)) + noticeTokens(told),
    facts: {
      isEstimated,
      asides:
        length -
        draft.messages.length +
        (tail.length === 0 ? 0 : asidesAtEnd(draft.messages, tail)),
    },
    hiddenTools,
    lastStep,
  };
}
