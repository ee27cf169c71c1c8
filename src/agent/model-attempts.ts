// The turns of one model call in this process: what each costs, how it ends, and the next one. Its attempts: asked-turn.ts.
//
// S2. The lease comes before the slot: an attempt that has to be paid for once more has given its slot back before it asks for room.

import type { AnySignal } from "../kernel/cancel.ts";
import { defined } from "../kernel/json.ts";
import { modelsOf } from "../model/fallback.ts";
import type { Model } from "../model/model.ts";
import { generateWithRetries, type BrokenAttempt, type GenerateOutcome } from "../model/retry.ts";
import { withoutData } from "../model/written-by.ts";
import type { EventBody } from "../protocol/event.ts";
import { timed, type TimeSpan } from "../protocol/step-timing.ts";
import { NO_USAGE, type Usage, subtractUsage } from "../protocol/usage.ts";
import type { Lease, LeaseOutcome } from "./account-view.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import {
  addressOf,
  AskedTurn,
  nameOf,
  recordWarnings,
  type InferCall,
  type Tries,
  type Turn,
} from "./asked-turn.ts";
import {
  callUsage,
  costWarnings,
  leaseTerms,
  usageOfOthers,
  type ModelCallEnd,
} from "./call-usage.ts";
import type { InferOutcome } from "./effects.ts";
import { errorRecord } from "./error-record.ts";

/** Calls the model until it replies or fails for good; each turn is paid for before it begins (S2). Never rejects. */
export async function inferOnce(agent: AgentRuntime, call: InferCall): Promise<InferOutcome> {
  const { throttle } = agent.run;
  let turn: Turn = { call, queuedMs: 0, after: undefined, charged: NO_USAGE };
  const spans: TimeSpan[] = [];
  for (;;) {
    const asked = new AskedTurn(agent, turn, spans);
    let settled: Settled;
    try {
      settled = await generateWithRetries(agent.model, turn.call.request, asked);
    } catch (error) {
      settled = { type: "threw", error };
    }
    // A thousand replies that arrive at once are acted upon in as many turns of the event loop as they need.
    const continuing = throttle.turn();
    if (continuing !== undefined) await continuing;
    const end = turnEnd(agent, turn, settled, asked);
    asked.leaveSlot();
    spans.push(...asked.restSpan());
    if (end.type !== "broken") {
      if (call.number !== undefined) chargeFor(agent, turn, end.usage);
      return timed(end, spans);
    }
    const next = await paidTurn(agent, { ...turn, queuedMs: asked.queuedMs }, end);
    if ("type" in next) return timed(next, spans);
    turn = next;
  }
}

/** The agent had to end, or to stop, before the turn got its slot. */
function withoutSlot(agent: AgentRuntime, turn: Turn): InferOutcome {
  const { call, after } = turn;
  if (after !== undefined) return cancelledBetween(agent, turn, after.log);
  return { type: "cancelled", usage: callUsage(agent, call.lease, { type: "unsent" }) };
}

/** What a turn came to, recorded. */
function turnEnd(agent: AgentRuntime, turn: Turn, settled: Settled, asked: AskedTurn): TurnEnd {
  const { call } = turn;
  const tries = asked.end();
  if (settled.type === "aborted" && !asked.isOpen) return withoutSlot(agent, turn);
  asked.open(); // Limits may refuse a call before it has a slot.
  // A reply that came in the last moment, when the call had to end already, must not be acted upon.
  const isReply = settled.type === "replied" && !call.signals.signal.aborted;
  return isReply
    ? replied(agent, call, settled, tries)
    : endWithoutReply(agent, turn, settled, tries);
}

/** The reply with what it cost, recorded. */
function replied(
  agent: AgentRuntime,
  { lease, position }: InferCall,
  settled: Extract<GenerateOutcome, { readonly type: "replied" }>,
  tries: Tries,
): InferOutcome {
  const spent = spentOn(agent, lease, settled);
  const { usage } = spent;
  const { warnings = [], ...reply } = settled.reply;
  const { message, finishReason, rawFinishReason } = reply;
  const payer = { model: settled.answeredBy ?? agent.model, priceOf: agent.priceOf };
  recordWarnings(agent, [...warnings, ...costWarnings(payer, reply.usage)], position);
  agent.recordContent(position, () => ({
    type: "reply",
    message: withoutData(message),
    finishReason,
    ...defined({ rawFinishReason }),
  }));
  const { responseId, responseModel } = reply;
  const { cacheWriteInputTokens, serviceTier } = reply.usage ?? {};
  agent.note(
    "model.replied",
    () => ({
      type: "model.replied",
      finishReason,
      toolCalls: message.toolCalls.length,
      usage,
      ...tries,
      ...defined({
        cacheWriteInputTokens,
        responseId,
        responseModel,
        serviceTier,
      }),
      ...answeredBy(agent, settled.answeredBy),
    }),
    position,
  );
  return { type: "replied", reply, ...spent };
}

/** Which model answered, if that was not the one that was asked for. */
function answeredBy(
  { model: asked }: AgentRuntime,
  model: Model | undefined,
): Pick<EventBody<"model.replied">, "answeredBy"> {
  if (model === undefined || model === modelsOf(asked)[0]) return {};
  const { server } = model;
  const answered = { ...nameOf(model), insteadOf: asked.id };
  return { answeredBy: { ...answered, ...defined({ server: server && addressOf(server) }) } };
}

/** What a call cost, and which part of it other models than the first. */
function spentOn(
  agent: AgentRuntime,
  lease: Lease,
  end: ModelCallEnd,
): Pick<InferOutcome, "usage" | "otherModels"> {
  const otherModels = usageOfOthers(agent, lease, end);
  return { usage: callUsage(agent, lease, end), ...defined({ otherModels }) };
}

type TurnEnd = InferOutcome | (BrokenAttempt & { readonly type: "broken" });

// Model calls that do not get a reply at once: attempts that broke and are paid for once more, calls that failed, had to end, or were
// left behind.

/** Charges the attempts that broke, and pays for another one: the next turn, or the end of the call. */
async function paidTurn(
  agent: AgentRuntime,
  turn: Turn,
  broken: BrokenAttempt,
): Promise<Turn | InferOutcome> {
  const { call, queuedMs } = turn;
  const { error, log } = broken;
  const spent = spentOn(agent, call.lease, { type: "failed", ...log });
  const charged = chargeFor(agent, turn, spent.usage);
  const paid = await extendLease(agent, call, call.signals.stopSignal);
  if (paid.type === "granted") {
    const { lease } = paid;
    const request = Object.freeze({ ...call.request, maxOutputTokens: lease.maxOutputTokens });
    return { call: { ...call, lease, request }, queuedMs, after: broken, charged };
  }
  if (paid.type === "cancelled") return cancelledBetween(agent, turn, log);
  const failure = { error: errorRecord(error), isRetryable: true, usage: spent.usage };
  const { attempts } = log;
  agent.emit({ type: "model.failed", ...failure, attempts, queuedMs }, call.position);
  return { type: "refused", refusal: paid.refusal, ...spent };
}

/**
 * Asks that the lease of a call cover one more attempt, and records a wait for room. A granted
 * lease is persisted: as for the first request, what a crash loses of it is charged.
 */
export async function extendLease(
  agent: AgentRuntime,
  { lease, position }: Pick<InferCall, "lease" | "position">,
  signal: AnySignal,
): Promise<LeaseOutcome> {
  const { account, effects } = agent;
  const paid = await account.extend(lease, leaseTerms(agent), signal, (accountPath) =>
    effects.note("budget.queued", () => ({ type: "budget.queued", accountPath }), position),
  );
  if (paid.type === "granted") await effects.kept();
  return paid;
}

/** Books what the turn added to the usage of its call; gives what is booked in all. */
function chargeFor(agent: AgentRuntime, { call, charged }: Turn, used: Usage): Usage {
  const { effectPosition, number = 1, lease } = call;
  const isCounted =
    effectPosition.sideCall !== undefined || effectPosition.isCounted === true || number > 1;
  const steps = isCounted ? 0 : used.steps;
  const all = { ...used, steps };
  agent.account.charge(lease, subtractUsage(all, charged));
  return all;
}

/** The agent had to end between two attempts. */
function cancelledBetween(
  agent: AgentRuntime,
  { call, queuedMs }: Turn,
  log: BrokenAttempt["log"],
): InferOutcome {
  const spent = spentOn(agent, call.lease, { type: "failed", ...log });
  const { attempts } = log;
  const failure = { error: CANCELLED_CALL, isRetryable: false, usage: spent.usage };
  agent.emit({ type: "model.failed", ...failure, attempts, queuedMs }, call.position);
  return { type: "cancelled", ...spent };
}

const CANCELLED_CALL = { code: "cancelled", message: "The call was told to end.", data: {} };

/** How the attempts of a turn settled. */
type Settled = GenerateOutcome | { readonly type: "threw"; readonly error: unknown };

/** The end of a turn without a reply, recorded unless another one is to follow. */
function endWithoutReply(agent: AgentRuntime, turn: Turn, settled: Settled, tries: Tries): TurnEnd {
  const { signal } = turn.call.signals;
  if (settled.type === "broken" && !signal.aborted) return settled;
  const outcome = settledOutcome(agent, turn, settled);
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
  settled: Settled,
): Extract<InferOutcome, { readonly type: "cancelled" | "failed" }> {
  const spent = spentOn(agent, call.lease, endOf(settled, after));
  const isCancelled = settled.type === "aborted" || call.signals.signal.aborted;
  if (isCancelled) return { type: "cancelled", ...spent };
  const cause = settled.type === "failed" ? settled.error : undefined;
  const error = errorRecord(settled.type === "threw" ? settled.error : cause);
  return { type: "failed", error, isRetryable: cause?.isRetryable === true, ...spent };
}

function endOf(settled: Settled, after: BrokenAttempt | undefined): ModelCallEnd {
  if (settled.type === "broken") return { type: "failed", ...settled.log };
  if (settled.type !== "threw") return settled;
  // What was under way, with what was lost before it.
  if (after === undefined) return { type: "abandoned" };
  const { log } = after;
  return { type: "failed", ...log, brokenAttempts: log.brokenAttempts + 1 };
}
