// Amounts of budgets: arithmetic, and text for people.

import { addUsd, floorMicroUsd, toUsd } from "../kernel/money.ts";
import type { BudgetAxis } from "../protocol/account.ts";
import type { EspalierEvent } from "../protocol/event.ts";
import type { AxisAmounts, Spent } from "./viewer-data.ts";

/**
 * Position of a thousands separator. Creating an `Intl` formatter takes longer than drawing the
 * first screen.
 */
const BEFORE_THOUSANDS = /\B(?=(?:\d{3})+$)/g;
const SMALLEST_SHOWN_USD = 0.0001;
/** From here on, four decimals would round up to a dollar. */
const A_DOLLAR_USD = 0.99995;

const UNKNOWN = "unknown";
const MAX_NAMES = 3;

/** Returns the amounts plus a grant. Axes without an amount have no limit, and stay absent. */
export function raiseAmounts(
  amounts: AxisAmounts,
  { costUsd = 0, ...others }: EspalierEvent<"budget.granted">["budget"],
): Record<string, number> {
  const more: AxisAmounts = { ...others, costUsd: toUsd(floorMicroUsd(costUsd)) };
  return Object.fromEntries(
    Object.entries(amounts).map(([axis, amount]) => [
      axis,
      addAmounts(axis, amount, more[axis] ?? 0),
    ]),
  );
}

/** Adds two amounts of an axis. Costs are added exactly, in micro-dollars. */
export function addAmounts(axis: string, left: number, right: number): number {
  return axis === "costUsd" ? addUsd(left, right) : left + right;
}

/** Formats a count: `41,203`. */
export function formatFullCount(count: number): string {
  return String(Math.round(count)).replace(BEFORE_THOUSANDS, ",");
}

/** Formats a count briefly: `950`, `3.1k`, `14k`, `1.2M`. */
export function formatShortCount(count: number): string {
  if (count < 1_000) return formatFullCount(count);
  if (count < 9_950) return `${(count / 1_000).toFixed(1)}k`;
  if (count < 999_500) return `${(count / 1_000).toFixed(0)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

/** Formats US dollars: `$0.0123`, `$4.20`; zero is `$0`. Use `formatCost` for costs. */
export function formatDollars(usd: number): string {
  if (usd === 0) return "$0";
  if (usd < SMALLEST_SHOWN_USD) return "<$0.0001";
  return `$${usd.toFixed(usd < A_DOLLAR_USD ? 4 : 2)}`;
}

/**
 * Formats a cost of which a part may be unknown. An unknown cost is never shown as zero. An agent
 * without a charged call has `–`.
 */
export function formatCost({ totalTokens, costUsd, unpricedCalls }: Spent): string {
  const cost = costUsd ?? 0;
  if (unpricedCalls === 0 && costUsd !== null)
    return totalTokens === 0 && cost === 0 ? "–" : formatDollars(cost);
  const isShown = cost >= SMALLEST_SHOWN_USD;
  return isShown ? `≥${formatDollars(cost)}` : UNKNOWN;
}

/** Formats a cost for a place without a heading: `cost unknown`. */
export function describeCost(spent: Spent): string {
  const text = formatCost(spent);
  return text === UNKNOWN ? `cost ${text}` : text;
}

/** Returns ` (no price for gpt-x)` as a suffix of a cost. Empty if all prices are known. */
export function describeUnpricedModels(models: readonly string[]): string {
  return models.length === 0 ? "" : ` (no price for ${joinNames(models)})`;
}

/** Returns the first three names and the number of the others: `a, b, c, 2 more`. */
export function joinNames(names: readonly string[]): string {
  const more = names.length > MAX_NAMES ? [`${names.length - MAX_NAMES} more`] : [];
  return [...names.slice(0, MAX_NAMES), ...more].join(", ");
}

/** Returns each distinct name, with its count if above 1: `read ×2`. */
export function countNames(names: readonly string[]): readonly string[] {
  const alike = Map.groupBy(names, (name) => name);
  return [...alike].map(([name, { length }]) => (length === 1 ? name : `${name} ×${length}`));
}

/** Formats a duration, rounded: `420ms`, `12.3s`, `4m 52s`, `1h 02m`. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.floor(ms)}ms`;
  if (ms < 59_950) return `${(ms / 1_000).toFixed(1)}s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m ${padToTwoDigits(seconds % 60)}s`;
  return `${Math.floor(seconds / 3_600)}h ${padToTwoDigits(Math.floor(seconds / 60) % 60)}m`;
}

/** Formats a count with its noun: `1 agent`, `2 agents`. */
export function formatQuantity(count: number, thing: string): string {
  return `${formatFullCount(count)} ${thing}${count === 1 ? "" : "s"}`;
}

/** Label and formatters of a budget axis. */
export interface AxisText {
  readonly axis: string;
  readonly label: string;
  readonly text: (amount: number) => string;
  readonly short: (amount: number) => string;
}

const COUNT = { text: formatFullCount, short: formatShortCount };
const AXIS_TEXTS: Readonly<Record<BudgetAxis, Omit<AxisText, "axis">>> = {
  totalTokens: { label: "tokens", ...COUNT },
  inputTokens: { label: "input tokens", ...COUNT },
  cachedInputTokens: { label: "cached input tokens", ...COUNT },
  outputTokens: { label: "output tokens", ...COUNT },
  costUsd: { label: "cost", text: formatDollars, short: formatDollars },
  steps: { label: "steps", ...COUNT },
  toolCalls: { label: "tool calls", ...COUNT },
  timeMs: { label: "time", text: formatDuration, short: formatDuration },
};

/** All budget axes, in the order of importance to a person. */
export const AXES: readonly AxisText[] = Object.entries(AXIS_TEXTS).map(([axis, texts]) => ({
  axis,
  ...texts,
}));

function padToTwoDigits(number: number): string {
  return String(number).padStart(2, "0");
}

export const NOTHING_SPENT: Spent = Object.freeze({
  totalTokens: 0,
  costUsd: 0,
  unpricedCalls: 0,
});
