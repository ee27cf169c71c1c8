// Model calls that do not get a reply at once: attempts that broke and are paid for once more, calls that failed, had to end, or were
// left behind.

import type { BoundedOutcome } from "../kernel/cancel.ts";
import type { BrokenAttempt, GenerateOutcome } from "../model/retry.ts";
import { subtractUsage, type Usage } from "../protocol/usage.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import { callUsage, type ModelCallEnd } from "./call-usage.ts";
import type { InferOutcome } from "./effects.ts";
import { errorRecord } from "./error-record.ts";
import type { Turn, TurnEnd } from "./infer-call.ts";

/** Charges the attempts that broke, and pays for another one: the next turn, or the end of the call. */
export async function paidTurn(
  agent: AgentRuntime,
  turn: Turn,
  { error, log }: BrokenAttempt,
): Promise<Turn | InferOutcome> {
  const { call } = turn;
  const used = callUsage(agent.model, call.lease, { type: "failed", ...log });
  const charged = chargeFor(agent, turn, used);
  const askedAtMs = agent.run.clock.nowMs();
  const paid = await agent.account.extend(
    call.lease,
    agent.model,
    (call.signals ?? agent).stopSignal,
  );
  if (paid.type === "granted") {
    await agent.effects.kept(); // As its first request: what a crash loses of it is known, and charged.
    const { lease } = paid;
    const request = Object.freeze({ ...call.request, maxOutputTokens: lease.maxOutputTokens });
    return { call: { ...call, lease, request }, askedAtMs, after: { error, log }, charged };
  }
  if (paid.type === "cancelled") return cancelledBetween(agent, turn, log);
  const failure = { error: errorRecord(error), isRetryable: true, usage: used };
  const { attempts } = log;
  agent.emit({ type: "model.failed", ...failure, attempts, queuedMs: 0 }, call.position);
  return { type: "refused", refusal: paid.refusal, usage: used };
}

/** Books what the turn added to the usage of its call; gives what is booked in all. */
export function chargeFor(agent: AgentRuntime, { call, charged }: Turn, used: Usage): Usage {
  const { place, number = 1, lease } = call;
  const isCounted = place.sideCall !== undefined || place.isCounted === true || number > 1;
  const steps = isCounted ? 0 : used.steps;
  const all = { ...used, steps };
  agent.account.charge(lease, subtractUsage(all, charged));
  return all;
}

/** The agent had to end between two attempts. */
export function cancelledBetween(
  agent: AgentRuntime,
  { call }: Turn,
  log: BrokenAttempt["log"],
): InferOutcome {
  const usage = callUsage(agent.model, call.lease, { type: "failed", ...log });
  const { attempts } = log;
  const failure = { error: CANCELLED_CALL, isRetryable: false, usage };
  agent.emit({ type: "model.failed", ...failure, attempts, queuedMs: 0 }, call.position);
  return { type: "cancelled", usage };
}

const CANCELLED_CALL = { code: "cancelled", message: "The call was told to end.", data: {} };

/** The end of a turn without a reply, recorded unless another one is to follow. */
export function endWithoutReply(
  agent: AgentRuntime,
  turn: Turn,
  bounded: BoundedOutcome<GenerateOutcome>,
  tries: { readonly attempts: number; readonly queuedMs: number },
): TurnEnd {
  const outcome = settledOutcome(agent, turn, bounded);
  if (outcome.type === "broken") return outcome;
  const isFailed = outcome.type === "failed";
  const error = isFailed ? outcome.error : CANCELLED_CALL;
  const isRetryable = isFailed && outcome.isRetryable;
  const { usage } = outcome;
  agent.run.noteFailedCall(agent.identity.agentPath, error);
  agent.emit({ type: "model.failed", error, isRetryable, usage, ...tries }, turn.call.position);
  return outcome;
}

/** A call whose signal was aborted counts as cancelled even if a reply came in the last moment: its result must not be acted upon. */
function settledOutcome(
  agent: AgentRuntime,
  { call, after }: Turn,
  bounded: BoundedOutcome<GenerateOutcome>,
): Exclude<TurnEnd, { readonly type: "replied" }> {
  const { model } = agent;
  const { lease } = call;
  const { signal } = call.signals ?? agent;
  const settled = bounded.type === "returned" ? bounded.value : undefined;
  if (settled?.type === "failed" && !signal.aborted) {
    const { isRetryable } = settled.error;
    const usage = callUsage(model, lease, settled);
    return { type: "failed", error: errorRecord(settled.error), isRetryable, usage };
  }
  if (settled?.type === "broken" && !signal.aborted) return settled;
  if (!signal.aborted) {
    const error = errorRecord(bounded.type === "threw" ? bounded.error : undefined);
    const usage = callUsage(model, lease, leftBehind(after));
    return { type: "failed", error, isRetryable: false, usage };
  }
  const end = settled?.type === "broken" ? ({ type: "failed", ...settled.log } as const) : settled;
  return { type: "cancelled", usage: callUsage(model, lease, end ?? leftBehind(after)) };
}

/** The end of an attempt that was left behind, with what was lost before it. */
function leftBehind(after: BrokenAttempt | undefined): ModelCallEnd {
  if (after === undefined) return { type: "abandoned" };
  const { lostOutputTokens, brokenAttempts } = after.log;
  return { type: "failed", lostOutputTokens, brokenAttempts: brokenAttempts + 1 };
}
