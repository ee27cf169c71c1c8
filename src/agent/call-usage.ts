// What one logical model call consumed. What no provider reported is charged by estimate: forgotten tokens are overspent ones.

import { estimateTokens } from "../model/count-tokens.ts";
import { modelsOf } from "../model/fallback.ts";
import type { Model, ModelReply } from "../model/model.ts";
import type { AttemptLoss } from "../model/retry.ts";
import type { TokenUsage } from "../model/token-usage.ts";
import { costMicroUsd } from "../model/model-price.ts";
import { addUsage, NO_USAGE, type ModelUsage, type Usage } from "../protocol/usage.ts";
import type { Lease } from "./account-view.ts";

/** How far the call came. */
export type ModelCallEnd =
  /** It never left: the agent was asked to end while the call waited for a slot. */
  | { readonly type: "unsent" }
  /** It was left behind while it ran: its input is charged. */
  | { readonly type: "abandoned" }
  | ({
      readonly type: "replied";
      readonly reply: ModelReply;
      readonly answeredBy?: Model;
    } & BrokenAttempts)
  | ({ readonly type: "failed" } & BrokenAttempts)
  /** It was aborted; `isInFlight`: during an attempt, which is paid for even if its answer had not begun. */
  | ({ readonly type: "aborted"; readonly isInFlight: boolean } & BrokenAttempts);

interface BrokenAttempts extends AttemptLoss {
  readonly lossOf?: ReadonlyMap<Model, AttemptLoss>;
}

/** What a call used of one model. */
interface Share {
  readonly model: Model;
  readonly tokens: TokenUsage;
  readonly estimatedCalls: number;
}

/** The usage of the step that the call belongs to; a step counts even if its call came to nothing. */
export function callUsage(model: Model, lease: Lease, end: ModelCallEnd): Usage {
  if (end.type === "unsent") return { ...NO_USAGE, steps: 1 };
  const shares = sharesOf(model, lease, end);
  const [first, ...others] = shares;
  const isUnpriced = first === undefined ? model.price === undefined : shares.some(isUnknown);
  const called = { modelCalls: 1, steps: 1, unpricedCalls: isUnpriced ? 1 : 0 };
  let usage = first === undefined ? NO_USAGE : priced(first);
  for (const other of others) usage = addUsage(usage, priced(other));
  return { ...usage, ...called };
}

/** Which part of that is of other models than the first, where a fallback went on to them; undefined: none. */
export function usageOfOthers(
  model: Model,
  lease: Lease,
  end: ModelCallEnd,
): readonly ModelUsage[] | undefined {
  if (!("answeredBy" in end || "lossOf" in end)) return undefined;
  const shares = sharesOf(model, lease, end);
  const [own] = modelsOf(model);
  const unpriced = shares.find(isUnknown);
  const answered = end.type === "replied" ? end.answeredBy : undefined;
  const others = shares.flatMap((share): readonly ModelUsage[] => {
    const { provider, id } = share.model;
    if (share.model === own || share.model === model) return [];
    const count = share.model === answered ? 1 : 0;
    const unpricedCalls = share === unpriced ? 1 : 0;
    const usage = { ...priced(share), modelCalls: count, steps: count, unpricedCalls };
    return [{ provider, model: id, usage }];
  });
  return others.length === 0 ? undefined : others;
}

/** One for each model. */
function sharesOf(
  model: Model,
  lease: Lease,
  end: Exclude<ModelCallEnd, { readonly type: "unsent" }>,
): readonly Share[] {
  if (end.type === "abandoned") return [begun(model, lease)];
  const losses = lossesOf(model, end);
  const lost = losses.map(([of, loss]) => lostShare(of, lease, loss));
  if (end.type === "aborted" && end.isInFlight && lost.length === 0) return [begun(model, lease)];
  if (end.type !== "replied") return lost;
  const { reply, answeredBy = model } = end;
  const answer: Share = {
    model: answeredBy,
    tokens: reply.usage ?? estimate(lease.inputTokens, replyTokens(reply)),
    estimatedCalls: reply.usage === undefined ? 1 : 0,
  };
  const own = lost.find((share) => share.model === answeredBy);
  if (own === undefined) return [answer, ...lost];
  const tokens = plus(answer.tokens, own.tokens);
  const estimatedCalls = answer.estimatedCalls + own.estimatedCalls;
  return [{ ...answer, tokens, estimatedCalls }, ...lost.filter((share) => share !== own)];
}

function lossesOf(model: Model, end: BrokenAttempts): readonly (readonly [Model, AttemptLoss])[] {
  if (end.lossOf !== undefined) return [...end.lossOf];
  return end.brokenAttempts === 0 && end.lostOutputTokens === 0 ? [] : [[model, end]];
}

function begun(model: Model, { inputTokens }: Lease): Share {
  return { model, tokens: estimate(inputTokens, 0), estimatedCalls: 1 };
}

function lostShare(
  model: Model,
  { inputTokens }: Lease,
  { brokenAttempts, lostOutputTokens }: AttemptLoss,
): Share {
  const tokens = estimate(inputTokens * brokenAttempts, lostOutputTokens);
  return { model, tokens, estimatedCalls: brokenAttempts };
}

function isUnknown({ model }: Share): boolean {
  return model.price === undefined;
}

function priced({ model, tokens, estimatedCalls }: Share): Usage {
  const { inputTokens, cachedInputTokens, outputTokens, reasoningTokens } = tokens;
  return {
    modelCalls: 0,
    steps: 0,
    toolCalls: 0,
    inputTokens,
    cachedInputTokens,
    outputTokens,
    reasoningTokens,
    totalTokens: inputTokens + outputTokens,
    costMicroUsd: model.price === undefined ? 0 : costMicroUsd(model.price, tokens),
    unpricedCalls: 0,
    estimatedCalls,
  };
}

function estimate(inputTokens: number, outputTokens: number): TokenUsage {
  return { inputTokens, cachedInputTokens: 0, outputTokens, reasoningTokens: 0 };
}

function plus(left: TokenUsage, right: TokenUsage): TokenUsage {
  return {
    inputTokens: left.inputTokens + right.inputTokens,
    cachedInputTokens: left.cachedInputTokens + right.cachedInputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
    reasoningTokens: left.reasoningTokens + right.reasoningTokens,
  };
}

function replyTokens({ message: { text, toolCalls, parts = [] } }: ModelReply): number {
  const calls = toolCalls.map((call) => call.toolName + call.argumentsText);
  const reasoning = parts.map((part) => (part.type === "reasoning" ? part.text : ""));
  return estimateTokens(text + calls.join("") + reasoning.join(""));
}
