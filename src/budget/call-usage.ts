// Computes the usage of a logical model call. Usage that no provider reported is charged by
// estimate, since limits would be exceeded if these tokens did not count.

import { estimateTokens } from "../model/count-tokens.ts";
import { getFallbackModels } from "../model/fallback.ts";
import type { Model, ModelReply } from "../model/model.ts";
import type { AttemptLoss } from "../model/retry.ts";
import type { TokenUsage } from "../model/token-usage.ts";
import { roundUpMicroUsd, MICRO_PER_USD } from "../kernel/money.ts";
import { computeMicroUsd, type ModelPrice } from "../model/model-price.ts";
import { isStandardTier, type PriceOf } from "../model/prices.ts";
import { addUsage, NO_USAGE, toUsage, type ModelUsage, type Usage } from "../protocol/usage.ts";
import type { Lease, LeaseAsk } from "./lease.ts";

/** How the call ended. */
export type ModelCallEnd =
  /** Never sent: the agent was cancelled or asked to stop while the call waited for a slot. */
  | { readonly type: "unsent" }
  /** Abandoned in progress. Its input is charged. */
  | { readonly type: "abandoned" }
  | ({
      readonly type: "replied";
      readonly reply: ModelReply;
      readonly repliedBy?: Model;
    } & BrokenAttempts)
  | ({ readonly type: "failed" | "aborted" } & BrokenAttempts);

type Replied = Extract<ModelCallEnd, { readonly type: "replied" }>;

interface BrokenAttempts extends AttemptLoss {
  readonly lossOf?: ReadonlyMap<Model, AttemptLoss>;
}

/** Usage of a model within a call. */
interface Share {
  readonly model: Model;
  /** Each request is priced by its own length, so costs are added, not tokens. */
  readonly requests: readonly TokenUsage[];
  readonly estimatedCalls: number;
}

/** Model of a call, with the prices of the models that it may use. */
export interface Payer {
  readonly model: Model;
  readonly priceOf: PriceOf;
}

/** Returns the terms of a lease that depend on the model. */
export function getLeaseTerms({
  model,
  priceOf,
}: Payer): Pick<LeaseAsk, "price" | "minOutputTokens"> {
  return { price: priceOf(model), minOutputTokens: model.minOutputTokens };
}

/** Model call with the lease that pays for it. */
export interface LeasedCall {
  readonly lease: Lease;
  /**
   * Steps that the call adds: 1 for the first call of a step, 0 for side calls and for further
   * calls by hooks.
   */
  readonly steps: 0 | 1;
}

/** Returns the usage of a call. A step counts even if its call failed. */
export function toCallUsage({ model, priceOf }: Payer, call: LeasedCall, end: ModelCallEnd): Usage {
  if (end.type === "unsent") return { ...NO_USAGE, steps: call.steps };
  const shares =
    end.type === "replied" && end.brokenAttempts === 0
      ? [createReplyShare(model, call.lease, end)]
      : computeShares(model, call.lease, end);
  let usage = NO_USAGE;
  for (const share of shares) usage = addUsage(usage, chargeShare(priceOf, share));
  const isKnown = shares.length === 0 ? priceOf(model) !== undefined : usage.unpricedCalls === 0;
  return toUsage({ ...usage, modelCalls: 1, steps: call.steps, unpricedCalls: isKnown ? 0 : 1 });
}

/**
 * Returns the part of the usage that belongs to models of a fallback other than the first.
 * `undefined` if only the first was used.
 */
export function findFallbackUsage(
  { model, priceOf }: Payer,
  { lease, steps }: LeasedCall,
  end: Exclude<ModelCallEnd, { readonly type: "unsent" }>,
): readonly ModelUsage[] | undefined {
  const [firstModel] = getFallbackModels(model);
  const charges = computeShares(model, lease, end).map((share) => ({
    requested: share.model,
    usage: chargeShare(priceOf, share),
  }));
  const unpriced = charges.find(({ usage }) => usage.unpricedCalls > 0);
  const answered = end.type === "replied" ? end.repliedBy : undefined;
  const others = charges.flatMap((charge): readonly ModelUsage[] => {
    const { requested, usage } = charge;
    if (requested === firstModel || requested === model) return [];
    const isAnswer = requested === answered;
    const unpricedCalls = charge === unpriced ? 1 : 0;
    const counts = { modelCalls: isAnswer ? 1 : 0, steps: isAnswer ? steps : 0, unpricedCalls };
    const { provider, id } = requested;
    return [{ provider, model: id, usage: toUsage({ ...usage, ...counts }) }];
  });
  return others.length === 0 ? undefined : others;
}

/** Returns one share for each model that was called. */
function computeShares(
  model: Model,
  lease: Lease,
  end: Exclude<ModelCallEnd, { readonly type: "unsent" }>,
): readonly Share[] {
  // The call had begun, so that its input was sent.
  if (end.type === "abandoned")
    return [{ model, requests: [estimate(lease.inputTokens, 0)], estimatedCalls: 1 }];
  const losses = findLosses(model, end);
  const lost = losses.map(([loser, loss]) => createLostShare(loser, lease, loss));
  if (end.type !== "replied") return lost;
  const answer = createReplyShare(model, lease, end);
  const answerLoss = lost.find((share) => share.model === answer.model);
  if (answerLoss === undefined) return [answer, ...lost];
  const requests = [...answer.requests, ...answerLoss.requests];
  const estimatedCalls = answer.estimatedCalls + answerLoss.estimatedCalls;
  return [{ ...answer, requests, estimatedCalls }, ...lost.filter((share) => share !== answerLoss)];
}

/**
 * Returns the share of the model that replied. Estimates the input if the provider did not count
 * it, and the output if its count is 0.
 */
function createReplyShare(
  model: Model,
  { inputTokens }: Lease,
  { reply, repliedBy = model }: Replied,
): Share {
  const { usage } = reply;
  if (usage !== undefined && (usage.inputTokens > 0 || inputTokens === 0))
    return { model: repliedBy, requests: [usage], estimatedCalls: 0 };
  const counted = usage?.outputTokens ?? 0;
  const outputTokens = counted === 0 ? countReplyTokens(reply) : counted;
  const answer = { ...estimate(0, 0), ...usage, inputTokens, outputTokens };
  return { model: repliedBy, requests: [answer], estimatedCalls: 1 };
}

function findLosses(model: Model, end: BrokenAttempts): readonly (readonly [Model, AttemptLoss])[] {
  if (end.lossOf !== undefined) return [...end.lossOf];
  return end.brokenAttempts === 0 && end.lostOutputTokens === 0 ? [] : [[model, end]];
}

/** Returns the usage of failed requests: the input of each, and the output that was received. */
function createLostShare(
  model: Model,
  { inputTokens }: Lease,
  { brokenAttempts, lostOutputTokens, lostInputs = [] }: AttemptLoss,
): Share {
  const requests = Array.from({ length: brokenAttempts }, (_request, index) => ({
    ...estimate(inputTokens, index === 0 ? lostOutputTokens : 0),
    ...lostInputs[index],
  }));
  return { model, requests, estimatedCalls: brokenAttempts };
}

/**
 * Returns the total usage and cost of the requests of a share. A plausible cost that the provider
 * reports is charged in place of the price. `unpricedCalls` is 1 if the cost of a request is
 * unknown.
 *
 * List prices do not apply to other service tiers. Such requests are charged at list price
 * nevertheless, so that cost limits keep working, but count as unpriced.
 */
function chargeShare(priceOf: PriceOf, { model, requests, estimatedCalls }: Share): Usage {
  const price = priceOf(model);
  let [inputTokens, cachedInputTokens, outputTokens, reasoningTokens] = [0, 0, 0, 0];
  let [reportedMicroUsd, unpricedCalls] = [0, 0];
  const priced: TokenUsage[] = [];
  for (const request of requests) {
    inputTokens += request.inputTokens;
    cachedInputTokens += request.cachedInputTokens;
    outputTokens += request.outputTokens;
    reasoningTokens += request.reasoningTokens;
    const { reportedCostUsd, serviceTier } = request;
    const reported = reportedCostUsd === undefined ? undefined : findBelievedCost(price, request);
    if (reported === undefined) {
      priced.push(request);
      const holds = model.price !== undefined || isStandardTier(serviceTier);
      if (price === undefined || !holds) unpricedCalls = 1;
    } else reportedMicroUsd += reported;
  }
  const microUsd = reportedMicroUsd + (price === undefined ? 0 : computeMicroUsd(price, ...priced));
  return {
    modelCalls: 0,
    steps: 0,
    toolCalls: 0,
    inputTokens,
    cachedInputTokens,
    outputTokens,
    reasoningTokens,
    totalTokens: inputTokens + outputTokens,
    costUsd: microUsd / MICRO_PER_USD,
    unpricedCalls,
    estimatedCalls,
  };
}

/**
 * Returns the reported cost in micro-dollars, if it is plausible. Servers that do not know the
 * price report 0, which would never reach a limit.
 */
function findBelievedCost(price: ModelPrice | undefined, request: TokenUsage): number | undefined {
  const { reportedCostUsd } = request;
  if (reportedCostUsd === undefined) return undefined;
  const isFree = price === undefined || computeMicroUsd(price, request) === 0;
  return reportedCostUsd > 0 || isFree ? roundUpMicroUsd(reportedCostUsd) : undefined;
}

/** A reported cost above this multiple of the price cannot be a rounding difference. */
const DEAR_TIMES = 2;

/** Returns warnings about a reported cost that is implausible, or far above the price. */
export function findCostWarnings(
  { model, priceOf }: Payer,
  usage: TokenUsage | undefined,
): readonly string[] {
  if (usage?.reportedCostUsd === undefined) return [];
  const price = priceOf(model);
  if (price === undefined) return [];
  const reported = findBelievedCost(price, usage);
  if (reported === undefined)
    return [
      `${model.provider} reports that calls of ${model.id} cost nothing, but the model has a price. Calls are charged at that price. Set the price to 0 if they are free.`,
    ];
  if (reported <= DEAR_TIMES * computeMicroUsd(price, usage)) return [];
  return [
    `${model.provider} reports that calls of ${model.id} cost more than twice their price. Calls are charged at the reported cost. Correct the price, by which budget is reserved.`,
  ];
}

function estimate(inputTokens: number, outputTokens: number): TokenUsage {
  return { inputTokens, cachedInputTokens: 0, outputTokens, reasoningTokens: 0 };
}

function countReplyTokens({ message }: ModelReply): number {
  const { text, refusal = "", toolCalls, parts = [] } = message;
  const calls = toolCalls.map((call) => call.toolName + call.argumentsText);
  const reasoning = parts.map((part) => (part.type === "reasoning" ? part.text : ""));
  return estimateTokens(text + refusal + calls.join("") + reasoning.join(""));
}
