// What is believed of the figures that a provider reports. What cannot be true is not charged, and a warning names the model once.

import { shown } from "../kernel/check.ts";
import { defined, isRecord } from "../kernel/json.ts";
import { warnOnce } from "../kernel/warn-once.ts";
import { isTokenCount, MOST_TOKENS } from "./count-tokens.ts";
import type { Model } from "./model.ts";
import { isCost, type ReportedInput, type TokenUsage } from "./token-usage.ts";

/** What we know of the size of a call ourselves: the figures of a provider are compared with it. */
export interface CallSize {
  /** As we, or the model's own counter, have counted them. */
  readonly inputTokens: number;
  /** The cap of the attempt. */
  readonly maxOutputTokens: number;
}

/** So many times the counted input plus the cap is more than any difference between tokenizers explains. */
const MOST_TIMES_COUNTED = 10;
/** The most input with the results of a provider's own tools: several windows of the largest models. */
const MOST_SERVER_INPUT = 10_000_000;
/** 4 KiB, which a client may have read whatever the cap is. */
const LOSS_ALLOWANCE_TOKENS = 1_366;

/** The most tokens that a provider can have counted for a call of this size. */
function mostTokens({ inputTokens, maxOutputTokens }: CallSize): number {
  return Math.min(MOST_TIMES_COUNTED * (inputTokens + maxOutputTokens), MOST_TOKENS);
}

/**
 * The usage of a reply; undefined if there is none, or it cannot be true: the call is then charged by our own count. Zeros for a request that
 * is not empty are none.
 */
export function believableUsage(
  model: Model,
  reported: unknown,
  size: CallSize,
): TokenUsage | undefined {
  if (reported === undefined) return undefined;
  const usage = usageIn(reported);
  if (usage !== undefined && isNothing(usage) && size.inputTokens > 0) return undefined;
  if (usage !== undefined && isPossible(usage, size)) return usage;
  warnOfFigures(model, `a usage that cannot be true (${figures(reported)})`, size);
  return undefined;
}

function isPossible(usage: TokenUsage, size: CallSize): boolean {
  const { inputTokens, outputTokens, hasServerTools } = usage;
  const most = mostTokens(size);
  if (hasServerTools === true) return inputTokens <= MOST_SERVER_INPUT && outputTokens <= most;
  return inputTokens + outputTokens <= most;
}

/** Returns what is said of a reply whose usage was rejected. */
export function usageWarning(reported: unknown): string {
  return `The usage that the provider reported (${figures(reported)}) cannot be true. It was rejected, and the call was charged by our own count of its input and output.`;
}

/** Whether it says that nothing was consumed: so say servers that do not count, and hooks whose reply cost nothing. */
export function isNothing({ inputTokens, outputTokens, reportedCostUsd = 0 }: TokenUsage): boolean {
  return inputTokens === 0 && outputTokens === 0 && reportedCostUsd === 0;
}

/** The figures of a usage whose parts are not larger than their whole; undefined if it is none. */
function usageIn(reported: unknown): TokenUsage | undefined {
  if (!isRecord(reported)) return undefined;
  const { inputTokens, cachedInputTokens, cacheWriteInputTokens, outputTokens, reasoningTokens } =
    reported;
  const { reportedCostUsd, serviceTier, hasServerTools } = reported;
  if (!isTokenCount(inputTokens) || !isTokenCount(outputTokens)) return undefined;
  if (!isTokenCount(cachedInputTokens) || !isTokenCount(reasoningTokens)) return undefined;
  if (cacheWriteInputTokens !== undefined && !isTokenCount(cacheWriteInputTokens)) return undefined;
  if (reportedCostUsd !== undefined && !isCost(reportedCostUsd)) return undefined;
  if (serviceTier !== undefined && typeof serviceTier !== "string") return undefined;
  if (hasServerTools !== undefined && hasServerTools !== true) return undefined;
  const own = hasServerTools === true ? ({ hasServerTools: true } as const) : {};
  const isWithin = cachedInputTokens + (cacheWriteInputTokens ?? 0) <= inputTokens;
  if (!isWithin || reasoningTokens > outputTokens) return undefined;
  const said = defined({
    cacheWriteInputTokens,
    reportedCostUsd,
    serviceTier,
  });
  return { inputTokens, cachedInputTokens, outputTokens, reasoningTokens, ...said, ...own };
}

/**
 * The output tokens that a failure says were lost: those that `arrived`, as far as we know, where its figure cannot be true. A warning
 * then names the model once.
 */
export function checkLoss(model: Model, lost: unknown, size: CallSize, arrived: number): number {
  if (isTokenCount(lost) && lost <= mostTokens(size) + LOSS_ALLOWANCE_TOKENS) return lost;
  warnOfFigures(model, `a loss that cannot be true (lostOutputTokens ${shown(lost)})`, size);
  return arrived;
}

/** Returns the input that a failure reports, or `undefined` if it reports none or it cannot be true. */
export function checkLostInput(
  model: Model,
  lost: unknown,
  size: CallSize,
): ReportedInput | undefined {
  if (lost === undefined) return undefined;
  const input = isRecord(lost) ? { ...lost, outputTokens: 0, reasoningTokens: 0 } : lost;
  const usage = believableUsage(model, input, size);
  if (usage === undefined) return undefined;
  const { inputTokens, cachedInputTokens, cacheWriteInputTokens } = usage;
  return { inputTokens, cachedInputTokens, ...defined({ cacheWriteInputTokens }) };
}

function warnOfFigures(model: Model, what: string, size: CallSize): void {
  warnOnce(
    model,
    `The model ${model.id} of ${model.provider} reported ${what} for a call of ${size.inputTokens} counted input tokens and a cap of ${size.maxOutputTokens}. Such calls are charged by our own count. Check the server, or the model's adapter.`,
  );
}

function figures(reported: unknown): string {
  if (!isRecord(reported)) return shown(reported);
  return Object.entries(reported)
    .map(([name, figure]) => `${name} ${shown(figure)}`)
    .join(", ");
}
