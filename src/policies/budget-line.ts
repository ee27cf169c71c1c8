// Formats the remaining budget as one line for the model.

import { groupDigits } from "../kernel/argument-checks.ts";
import { toMicroUsd, toUsd } from "../kernel/money.ts";
import type { BudgetAxis } from "../protocol/account.ts";

/** The unit of an axis, or a function that formats an amount. */
type Words = string | ((amount: number) => string);

const MS_PER_SECOND = 1_000;

/** In display order. */
const WORDS: Readonly<Record<BudgetAxis, Words>> = {
  steps: "step",
  toolCalls: "tool call",
  totalTokens: "token",
  inputTokens: "input token",
  cachedInputTokens: "cached input token",
  outputTokens: "output token",
  costUsd: formatUsd,
  timeMs: (amount) => `${groupDigits(Math.floor(amount / MS_PER_SECOND))} s`,
};

/**
 * Returns the remaining budget, such as `Budget left: 3 steps, 12,000 tokens, $0.20, 40 s.`
 * Contains limited axes only and ignores unknown ones. Rounds money and time down. `undefined` if
 * nothing is limited.
 */
export function formatBudgetLine(left: Readonly<Record<string, number>>): string | undefined {
  const parts = Object.entries(WORDS).flatMap(([axis, thing]) => {
    const amount = Object.hasOwn(left, axis) ? left[axis] : undefined;
    if (amount === undefined) return [];
    const rest = Math.max(0, amount);
    return [typeof thing === "string" ? formatCount(rest, thing) : thing(rest)];
  });
  return parts.length === 0 ? undefined : `Budget left: ${parts.join(", ")}.`;
}

function formatCount(amount: number, thing: string): string {
  const whole = Math.floor(amount);
  return `${groupDigits(whole)} ${thing}${whole === 1 ? "" : "s"}`;
}

const CENTS = 2;
const SMALLEST_DIGITS = 4;

/** Formats an amount as `$0.20`, or as `$0.0042` below one cent. */
function formatUsd(usd: number): string {
  const digits = usd < 0.01 ? SMALLEST_DIGITS : CENTS;
  const unit = 10 ** digits;
  const rounded = Math.floor(toUsd(toMicroUsd(usd) * unit)) / unit;
  const [whole = "0", cents = ""] = rounded.toFixed(digits).split(".");
  return rounded === 0 ? "$0" : `$${groupDigits(Number(whole))}.${cents}`;
}
