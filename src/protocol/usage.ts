// What was consumed. One definition for events, results, ledger and spans (X18); counts are whole numbers, so sums are exact.

import { lazyObject, lazySchema, z } from "./lazy-schema.ts";

/** Money is counted in millionths of a dollar. */
export const MICRO_USD_PER_USD = 1_000_000;

/**
 * What an agent, or a whole subtree, consumed.
 *
 * `cachedInputTokens` are part of `inputTokens`, `reasoningTokens` part of `outputTokens`; `totalTokens` is input plus output.
 * `costMicroUsd` is in millionths of a dollar and covers the calls whose price is known;
 * `unpricedCalls` counts the others. The cost is null, never 0, if no part of it is known.
 * `estimatedCalls` counts calls for which no provider reported usage.
 */
export interface Usage {
  /** Model calls, each with all its attempts, whatever came of them. */
  readonly modelCalls: number;
  /** Those of them that were the call of a step: no summaries, and no further calls of hooks. */
  readonly steps: number;
  /** Tool calls whose tool was found and whose arguments fit, delegations included; `Finish` is none. */
  readonly toolCalls: number;
  /** Tokens that went in. */
  readonly inputTokens: number;
  /** Part of `inputTokens`: what a provider read from its cache. */
  readonly cachedInputTokens: number;
  /** Tokens that came out. */
  readonly outputTokens: number;
  /** Part of `outputTokens`: what went into reasoning. */
  readonly reasoningTokens: number;
  /** Input plus output. */
  readonly totalTokens: number;
  /**
   * Millionths of a dollar, of the calls whose price is known. Null: the known part is 0, and calls
   * without a known price are counted in `unpricedCalls`. 0: no call yet, or every call was free.
   */
  readonly costMicroUsd: number | null;
  /** Calls whose price is not known: they are in no cost. */
  readonly unpricedCalls: number;
  /** Calls for which no provider reported usage: it is estimated. */
  readonly estimatedCalls: number;
}

/** Usage of an agent and its subtree: `total` is `own` plus `descendants`. */
export interface UsageReport {
  /** What the agent itself consumed. */
  readonly own: Usage;
  /** What all below it consumed. */
  readonly descendants: Usage;
  /** Both together. */
  readonly total: Usage;
}

/** What was used of one model. */
export interface ModelUsage {
  /** Of the model. */
  readonly provider: string;
  /** The id of the model. */
  readonly model: string;
  /** What was used of it. */
  readonly usage: Usage;
}

const count = lazySchema(() => z.int().nonnegative());

export const UsageSchema = lazyObject(() => ({
  modelCalls: count(),
  steps: count(),
  toolCalls: count(),
  inputTokens: count(),
  cachedInputTokens: count(),
  outputTokens: count(),
  reasoningTokens: count(),
  totalTokens: count(),
  costMicroUsd: count().nullable(),
  unpricedCalls: count(),
  estimatedCalls: count(),
})) satisfies () => z.ZodType<Usage>;

export const UsageReportSchema = lazyObject(() => ({
  own: UsageSchema(),
  descendants: UsageSchema(),
  total: UsageSchema(),
})) satisfies () => z.ZodType<UsageReport>;

export const ModelUsageSchema = lazyObject(() => ({
  provider: z.string(),
  model: z.string(),
  usage: UsageSchema().readonly(),
})) satisfies () => z.ZodType<ModelUsage>;

/** Nothing consumed. */
export const NO_USAGE: Usage = Object.freeze({
  modelCalls: 0,
  steps: 0,
  toolCalls: 0,
  inputTokens: 0,
  cachedInputTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  totalTokens: 0,
  costMicroUsd: 0,
  unpricedCalls: 0,
  estimatedCalls: 0,
});

const USAGE_FIELDS = Object.keys(NO_USAGE).filter(isUsageField);

function isUsageField(field: string): field is keyof Usage {
  return field in NO_USAGE;
}

/** Whether each amount is a whole number from 0 up that can be added exactly. */
export function isCountable(usage: Usage): boolean {
  for (const amount of Object.values(toAmounts(usage)))
    if (!Number.isSafeInteger(amount) || amount < 0) return false;
  return true;
}

/** Returns null if the known part of a cost is 0 and calls without a known price belong to it. */
export function knownCost({
  costMicroUsd,
  unpricedCalls,
}: Pick<Usage, "costMicroUsd" | "unpricedCalls">): number | null {
  return costMicroUsd === 0 && unpricedCalls > 0 ? null : costMicroUsd;
}

/** Usage as numbers alone, for sums and limits: a cost that is not known counts as 0. */
export type UsageAmounts = Readonly<Record<keyof Usage, number>>;

export function toAmounts(usage: Usage): UsageAmounts {
  return { ...usage, costMicroUsd: usage.costMicroUsd ?? 0 };
}

/** Returns the usage of the amounts, with null for a cost that is not known. */
export function toUsage(amounts: Usage): Usage {
  return { ...amounts, costMicroUsd: knownCost(amounts) };
}

/** What was used of each model, in all; the one that was used last comes last. */
export function addModelUsage(
  sums: readonly ModelUsage[],
  added: readonly ModelUsage[],
): readonly ModelUsage[] {
  return added.reduce<readonly ModelUsage[]>((all, { provider, model, usage }) => {
    const isSame = (one: ModelUsage): boolean => one.provider === provider && one.model === model;
    const before = all.find(isSame)?.usage ?? NO_USAGE;
    return [
      ...all.filter((one) => !isSame(one)),
      { provider, model, usage: addUsage(before, usage) },
    ];
  }, sums);
}

/** Returns `left` minus `right`, which must be part of `left`: no count may fall below zero. */
export function subtractUsage(left: Usage, right: Usage): Usage {
  const negated: Record<keyof Usage, number> = { ...toAmounts(right) };
  for (const field of USAGE_FIELDS) negated[field] *= -1;
  return addUsage(left, negated);
}

export function addUsage(left: Usage, right: Usage): Usage {
  const sum = { ...left, costMicroUsd: left.costMicroUsd ?? 0 };
  for (const field of USAGE_FIELDS) sum[field] += right[field] ?? 0;
  return { ...sum, costMicroUsd: knownCost(sum) };
}
