// One logical model call in this process: its lease, the call and its settlement. Attempts are in
// model-attempts.ts, hooks around a call in hooked-model-call.ts. A cancelled call is settled like any
// other: `settleModelCall` charges the usage so far, and `infer` drops its reply.

import { deepFreeze, omitUndefined } from "../kernel/json.ts";
import { compareRequests, type RequestPrefix } from "../model/request-prefix.ts";
import { toEventPosition, countAddedSteps, type EffectPosition } from "./agent-identity.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import type { Lease, LeaseOutcome } from "../budget/lease.ts";
import { getLeaseTerms } from "../budget/call-usage.ts";
import type { InferOutcome } from "./effect-outcomes.ts";
import { runAttempts } from "./model-attempts.ts";
import type { InferCall } from "./model-events.ts";
import { countInputTokens } from "../model/count-tokens.ts";
import type { ModelRequest } from "../model/model.ts";
import { computeTiming, type StepTiming } from "../protocol/step-timing.ts";
import type { Usage } from "../protocol/usage.ts";
import { NO_PREFIX } from "./agent-state.ts";

/**
 * Requests a lease for one model call and records the outcome. Waits in the queue while calls in
 * flight may still free budget. Never rejects.
 */
export async function requestCallLease(
  agent: AgentRuntime,
  effectPosition: EffectPosition,
  inputTokens: number,
  maxOutputTokens: number,
): Promise<LeaseOutcome> {
  const { persistence, run } = agent;
  const { recorder } = run;
  const position = toEventPosition(effectPosition);
  const steps = countAddedSteps(effectPosition);
  const ask = { inputTokens, maxOutputTokens, steps, ...getLeaseTerms(agent) } as const;
  const work = async (): Promise<LeaseOutcome> => {
    agent.beginWork();
    let hasWaited = false;
    const outcome = await agent.account.requestLease(ask, agent.noStartSignal, (accountPath) => {
      hasWaited = true;
      if (!recorder.countUnread("budget.queued"))
        agent.record({ type: "budget.queued", accountPath }, position);
    });
    const isCancelled = hasWaited && outcome.type === "cancelled";
    if (isCancelled && !recorder.countUnread("budget.dequeued"))
      agent.record({ type: "budget.dequeued", outcome: "cancelled" }, position);
    agent.endWork();
    return outcome;
  };
  const outcome = await (persistence === undefined
    ? work()
    : persistence.requestCallLease(effectPosition, work));
  if (outcome.type === "refused")
    agent.record({ type: "budget.refused", ...outcome.refusal }, position);
  if (outcome.type === "granted" && !recorder.countUnread("budget.reserved")) {
    const { waitedMs, lease } = outcome;
    const { leaseId, inputTokens: counted, maxOutputTokens: maximum } = lease;
    const granted = { leaseId, inputTokens: counted, maxOutputTokens: maximum, waitedMs };
    agent.record({ type: "budget.reserved", ...granted }, position);
  }
  return outcome;
}

/**
 * Charges the usage of a call to the agent and every ancestor, exactly once and whatever the
 * outcome. Returns the charged usage.
 */
export function settleModelCall(
  agent: AgentRuntime,
  position: EffectPosition,
  lease: Lease,
  outcome: InferOutcome,
): Usage {
  const { account, persistence } = agent;
  const { leaseId } = lease;
  const { usage, otherModels } = outcome;
  if (persistence?.inFlight?.settledIds.has(leaseId) !== true)
    account.settle(lease, usage, otherModels);
  if (!agent.run.recorder.countUnread("budget.settled")) {
    const left = { remaining: account.remaining(), runRemaining: account.runRemaining() };
    const settled = { leaseId, usage, ...omitUndefined({ otherModels }), ...left };
    agent.record({ type: "budget.settled", ...settled }, toEventPosition(position));
  }
  if (outcome.type === "refused")
    agent.record({ type: "budget.refused", ...outcome.refusal }, toEventPosition(position));
  return usage;
}

/** Releases the agent's open leases. */
export function releaseLeases(agent: AgentRuntime): void {
  for (const leaseId of agent.account.releaseOpen())
    agent.record({ type: "budget.released", leaseId });
}

/** The parts of a step's call, or of a side call, that `callModel` needs. */
export type PaidCall = Pick<InferCall, "effectPosition" | "lease" | "request" | "isEstimated"> & {
  /** Number of messages at the end of the request that only this request has. */
  readonly ephemeralCount: number;
};

/**
 * Makes one logical model call, including its retries and the hooks around it. The lease proves
 * that the call is paid for. Never rejects.
 */
export function callModel(agent: AgentRuntime, paid: PaidCall): Promise<InferOutcome> {
  const { persistence } = agent;
  if (persistence === undefined) return createCall(agent, paid);
  const { effectPosition, lease } = paid;
  return persistence.infer(effectPosition, lease, () => createCall(agent, paid));
}

function createCall(agent: AgentRuntime, paid: PaidCall): Promise<InferOutcome> {
  const { effectPosition, lease, request, isEstimated } = paid;
  const isMainCall = effectPosition.sideCall === undefined;
  const hasReader = agent.run.recorder.hasReader("model.requested");
  if (!hasReader) agent.lastRequest = undefined;
  const call: InferCall = {
    effectPosition,
    steps: countAddedSteps(effectPosition),
    lease,
    request,
    isEstimated,
    prefix: hasReader && isMainCall ? updateRequestPrefix(agent, paid) : undefined,
    signals: { cancelSignal: agent.cancelSignal, noStartSignal: agent.noStartSignal },
  };
  agent.beginWork();
  const isHooked = agent.hooks.modelWraps.length > 0;
  const making = isHooked ? inferHooked(agent, call) : runAttempts(agent, call);
  return making.then((outcome) => {
    agent.endWork();
    if (outcome.type === "replied" && isMainCall && agent.run.pieces?.hasListeners === true)
      agent.run.pieces.emitRest(agent.toPartSource(effectPosition), outcome.reply.message);
    return outcome;
  });
}

/** Makes a call with hooks around it, whose code is loaded with the first such call. */
async function inferHooked(agent: AgentRuntime, call: InferCall): Promise<InferOutcome> {
  const { inferWrapped } = await import("./hooked-model-call.ts");
  return await inferWrapped(agent, call);
}

/**
 * Returns the prefix that the request shares with that of the previous step. `undefined` if nothing
 * listens to requests.
 */
function updateRequestPrefix(
  agent: AgentRuntime,
  { request, ephemeralCount }: PaidCall,
): RequestPrefix | undefined {
  const last = agent.lastRequest;
  agent.lastRequest = { request, ephemeralCount };
  return last && compareRequests(last, request);
}

// A side call is a model call outside the steps, such as a summary. It is leased, charged and
// recorded like any other model call.

/** The outcome of a side call. */
export interface SideCallReply {
  /** Absent if the call had no lease. */
  readonly usage?: Usage;
  /** How the time of the call was spent. Absent if the call was not made. */
  readonly timing?: StepTiming;
  /** Milliseconds that the call waited for budget. */
  readonly waitedMs: number;
  /** `undefined` if the model returned no usable text. */
  readonly text?: string | undefined;
}

/** The outcome of a side call that was not made. */
export const NOT_CALLED: SideCallReply = Object.freeze({ waitedMs: 0 });

/** The task of a side call. */
export interface SideTask {
  readonly instructions: string;
  readonly task: string;
  readonly maxOutputTokens: number;
}

/** Reserves budget, calls the model and settles the lease. */
export async function createSideCall(
  agent: AgentRuntime,
  position: EffectPosition,
  { instructions, task, maxOutputTokens }: SideTask,
): Promise<SideCallReply> {
  const request = deepFreeze<ModelRequest>({
    messages: [
      { role: "system", text: instructions, origin: "instructions" },
      { role: "user", text: task, origin: "task" },
    ],
    tools: [],
    maxOutputTokens,
  });
  const { tokens, isEstimated } = countInputTokens(agent.model, request, NO_PREFIX);
  const reserved = await requestCallLease(agent, position, tokens, maxOutputTokens);
  const { waitedMs } = reserved;
  if (reserved.type !== "granted") return { waitedMs };
  const { lease } = reserved;
  const capped = Object.freeze({ ...request, maxOutputTokens: lease.maxOutputTokens });
  const call = { effectPosition: position, lease, request: capped, isEstimated, ephemeralCount: 0 };
  const outcome = await callModel(agent, call);
  const usage = settleModelCall(agent, position, lease, outcome);
  const timing = computeTiming(outcome.spans ?? []);
  return { usage, timing, waitedMs, text: readSideText(outcome) };
}

function readSideText(outcome: InferOutcome): string | undefined {
  if (outcome.type !== "replied") return undefined;
  const { text, refusal } = outcome.reply.message;
  return refusal === undefined && text.trim() !== "" ? text : undefined;
}
