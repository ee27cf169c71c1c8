// Usage: one definition for events, results, ledger and spans. Counts are whole numbers. Costs are
// whole micro-dollars, expressed in dollars (kernel/money.ts), so sums are exact.

import { addUsd, isWholeMicroUsd } from "../kernel/money.ts";
import { lazyObject, lazySchema, repeatSchema, z } from "./lazy-schema.ts";

/**
 * Resources that an agent or a subtree consumed: model calls, tokens and cost.
 *
 * `cachedInputTokens` are part of `inputTokens`, and `reasoningTokens` are part of `outputTokens`.
 *
 * @example
 * ```ts
 * const { totalTokens, costUsd, unpricedCalls } = result.usage.total;
 * console.log(totalTokens, costUsd ?? "unknown", unpricedCalls);
 * ```
 */
export interface Usage {
  /** Number of model calls. All attempts of a call count as one, whatever their outcome. */
  readonly modelCalls: number;
  /**
   * Number of model calls that belong to a step. Summaries and further calls by hooks do not count.
   */
  readonly steps: number;
  /**
   * Number of tool calls with a known tool and valid arguments. Delegations count, `Finish` does
   * not.
   */
  readonly toolCalls: number;
  /** Input tokens. */
  readonly inputTokens: number;
  /** Input tokens read from the provider's cache. Part of `inputTokens`. */
  readonly cachedInputTokens: number;
  /** Output tokens. */
  readonly outputTokens: number;
  /** Output tokens spent on reasoning. Part of `outputTokens`. */
  readonly reasoningTokens: number;
  /** Sum of `inputTokens` and `outputTokens`. */
  readonly totalTokens: number;
  /**
   * Cost in US dollars of the calls with a known price, in whole micro-dollars, so that sums are
   * exact.
   *
   * `null` if the known part is 0 and some calls have no known price. 0 without calls, or if
   * every call was free.
   */
  readonly costUsd: number | null;
  /** Number of calls without a known price. `costUsd` does not include them. */
  readonly unpricedCalls: number;
  /** Number of calls whose usage is estimated, because the provider reported none. */
  readonly estimatedCalls: number;
}

/**
 * Usage of an agent and its descendants. `total` is the sum of `own` and `descendants`.
 *
 * @example
 * ```ts
 * const { own, descendants, total } = result.usage;
 * console.log(own.totalTokens + descendants.totalTokens === total.totalTokens); // true
 * ```
 */
export interface UsageReport {
  /** Usage of the agent itself. */
  readonly own: Usage;
  /** Usage of all agents below it. */
  readonly descendants: Usage;
  /** Sum of `own` and `descendants`. */
  readonly total: Usage;
}

/**
 * Usage of a model.
 *
 * @example
 * ```ts
 * for (const { agentPath, otherModels = [] } of result.agents)
 *   for (const { provider, model: id, usage } of otherModels)
 *     console.log(agentPath, `${provider}/${id}`, usage.totalTokens);
 * ```
 */
export interface ModelUsage {
  /** Provider of the model. */
  readonly provider: string;
  /** Id of the model. */
  readonly model: string;
  /** Usage of the model. */
  readonly usage: Usage;
}

const count = lazySchema(() => z.int().nonnegative());
const cost = lazySchema(() =>
  z.number().nonnegative().refine(isWholeMicroUsd, "Expected whole micro-dollars, in dollars"),
);

export const UsageSchema = lazyObject(() => ({
  // In the order of `NO_USAGE`, so that a stored usage has the same JSON text.
  ...repeatSchema(count(), "modelCalls", "steps", "toolCalls", "inputTokens", "cachedInputTokens"),
  ...repeatSchema(count(), "outputTokens", "reasoningTokens", "totalTokens"),
  costUsd: cost().nullable(),
  ...repeatSchema(count(), "unpricedCalls", "estimatedCalls"),
})) satisfies () => z.ZodType<Usage>;

export const UsageReportSchema = lazyObject(() =>
  repeatSchema(UsageSchema(), "own", "descendants", "total"),
) satisfies () => z.ZodType<UsageReport>;

export const ModelUsageSchema = lazyObject(() => ({
  provider: z.string(),
  model: z.string(),
  usage: UsageSchema().readonly(),
})) satisfies () => z.ZodType<ModelUsage>;

/** Zero usage. */
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

/** Returns true if each amount is non-negative and can be added exactly. */
export function isCountable(usage: Usage): boolean {
  for (const field of COUNT_FIELDS)
    if (!Number.isSafeInteger(usage[field]) || usage[field] < 0) return false;
  return usage.costUsd === null || (usage.costUsd >= 0 && isWholeMicroUsd(usage.costUsd));
}

/** Returns the usage as numbers for comparisons. An unknown cost counts as 0. */
export function toAmounts(usage: Usage): Readonly<Record<keyof Usage, number>> {
  return { ...usage, costUsd: usage.costUsd ?? 0 };
}

/**
 * Returns the usage with a cost of null if the known cost is 0 and the usage contains calls without
 * a known price.
 */
export function toUsage(usage: Usage): Usage {
  return usage.costUsd === 0 && usage.unpricedCalls > 0 ? { ...usage, costUsd: null } : usage;
}

/** Returns the usage by model with the added usage. The most recently used model comes last. */
export function addModelUsage(
  sums: readonly ModelUsage[],
  added: readonly ModelUsage[],
): readonly ModelUsage[] {
  return added.reduce<readonly ModelUsage[]>((all, { provider, model, usage }) => {
    const isSame = (entry: ModelUsage): boolean =>
      entry.provider === provider && entry.model === model;
    const before = all.find(isSame)?.usage ?? NO_USAGE;
    return [
      ...all.filter((entry) => !isSame(entry)),
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
