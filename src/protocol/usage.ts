// What was consumed. One definition for events, results, ledger and spans (X18). Counts are whole numbers,
// and costs whole micro-dollars, given in dollars (kernel/money.ts), so sums are exact.

import { addUsd, isWholeMicroUsd } from "../kernel/money.ts";
import { lazyObject, lazySchema, z } from "./lazy-schema.ts";

/**
 * What an agent, or a whole subtree, consumed.
 *
 * `cachedInputTokens` are part of `inputTokens`, `reasoningTokens` part of `outputTokens`; `totalTokens` is input plus output.
 * `costUsd` is in US dollars and covers the calls whose price is known; `unpricedCalls` counts the
 * others. The cost is null, never 0, if no part of it is known.
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
   * US dollars, of the calls whose price is known: whole micro-dollars, so that costs can be compared
   * exactly. Null: the known part is 0, and calls without a known price are counted in `unpricedCalls`.
   * 0: no call yet, or every call was free.
   */
  readonly costUsd: number | null;
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
const cost = lazySchema(() =>
  z.number().nonnegative().refine(isWholeMicroUsd, "Expected whole micro-dollars, in dollars"),
);

export const UsageSchema = lazyObject(() => ({
  modelCalls: count(),
  steps: count(),
  toolCalls: count(),
  inputTokens: count(),
  cachedInputTokens: count(),
  outputTokens: count(),
  reasoningTokens: count(),
  totalTokens: count(),
  costUsd: cost().nullable(),
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
  costUsd: 0,
  unpricedCalls: 0,
  estimatedCalls: 0,
});

type CountField = Exclude<keyof Usage, "costUsd">;

const COUNT_FIELDS = Object.keys(NO_USAGE).filter(isCountField);

function isCountField(field: string): field is CountField {
  return field !== "costUsd" && field in NO_USAGE;
}

/** Whether each amount is from 0 up and can be added exactly. */
export function isCountable(usage: Usage): boolean {
  for (const field of COUNT_FIELDS)
    if (!Number.isSafeInteger(usage[field]) || usage[field] < 0) return false;
  return usage.costUsd === null || (usage.costUsd >= 0 && isWholeMicroUsd(usage.costUsd));
}

/** Usage as numbers alone, for comparisons: a cost that is not known counts as 0. */
export function toAmounts(usage: Usage): Readonly<Record<keyof Usage, number>> {
  return { ...usage, costUsd: usage.costUsd ?? 0 };
}

/** Returns the usage with the cost null if its known part is 0 and calls without a known price belong to it. */
export function toUsage(usage: Usage): Usage {
  return usage.costUsd === 0 && usage.unpricedCalls > 0 ? { ...usage, costUsd: null } : usage;
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
  const negated = { ...right, costUsd: -(right.costUsd ?? 0) };
  for (const field of COUNT_FIELDS) negated[field] *= -1;
  return addUsage(left, negated);
}

export function addUsage(left: Usage, right: Usage): Usage {
  const sum = { ...left };
  for (const field of COUNT_FIELDS) sum[field] += right[field];
  sum.costUsd = addUsd(left.costUsd ?? 0, right.costUsd ?? 0);
  if (sum.costUsd === 0 && sum.unpricedCalls > 0) sum.costUsd = null;
  return sum;
}
