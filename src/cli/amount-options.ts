// Parses amounts in options, such as `--budget cost=1,steps=50,time=10m`.

import type { Budget } from "espalier";

import { UsageError } from "./exit-codes.ts";
import { formatQuantity } from "../read-model/amounts.ts";

/** Default budget of a run. Its cost applies only if prices are known. */
export const DEFAULT_BUDGET: Budget = { costUsd: 1, steps: 120, timeMs: 600_000 };

interface AmountName {
  readonly axis: keyof Budget;
  readonly read: (text: string) => number | undefined;
  readonly form: string;
}

const NUMBER = /^\d+(\.\d+)?$/;
const WHOLE = /^\d+$/;
const TIME = /^(?<count>\d+(\.\d+)?)(?<unit>ms|s|m|h)$/;
const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

const createCountAmount = (axis: keyof Budget): AmountName => ({
  axis,
  read: (text) => (WHOLE.test(text) ? Number(text) : undefined),
  form: "a whole number",
});

const NAMES: Readonly<Record<string, AmountName>> = {
  cost: {
    axis: "costUsd",
    read: (text) => (NUMBER.test(text) ? Number(text) : undefined),
    form: "dollars, for example 0.5",
  },
  steps: createCountAmount("steps"),
  tokens: createCountAmount("totalTokens"),
  "tool-calls": createCountAmount("toolCalls"),
  time: { axis: "timeMs", read: parseMilliseconds, form: "a time, for example 90s, 10m or 2h" },
};

/**
 * Returns the budget of a run: the default budget, overridden by the option. `none` removes a
 * limit. Throws UsageError.
 */
export function parseBudgetOption(text: string | undefined): Budget {
  return text === undefined ? DEFAULT_BUDGET : parseAmounts("--budget", text, DEFAULT_BUDGET);
}

/** Returns the amounts of `--grant`. Throws UsageError. */
export function parseGrantOption(text: string): Budget {
  return parseAmounts("--grant", text);
}

/** Suggested grants by stop reason. */
const GRANTS: Readonly<Record<string, string>> = {
  step_limit: "steps=20",
  token_limit: "tokens=50000",
  cost_limit: "cost=0.5",
  time_limit: "time=5m",
  tool_call_limit: "tool-calls=20",
};

/**
 * Returns the command that continues a run which a limit stopped. `undefined` if it ended for
 * another reason.
 */
export function suggestGrantCommand(reasonCode: string, resumeCommand: string): string | undefined {
  const grant = GRANTS[reasonCode];
  return grant === undefined ? undefined : `${resumeCommand} --grant ${grant}`;
}

/** Returns the amounts of an option, in addition to those of `usual`. Throws UsageError. */
function parseAmounts(option: string, text: string, usual: Budget = {}): Budget {
  const limits = new Map<string, number>(Object.entries(usual));
  for (const part of text.split(",")) {
    const [name = "", ...rest] = part.split("=").map((text) => text.trim());
    const amount = rest.join("=");
    const known = NAMES[name];
    if (known === undefined)
      throw new UsageError(
        `Expected ${option} to have parts such as cost=1 (${Object.keys(NAMES).join(", ")}), got ${JSON.stringify(part)}. Write for example cost=1,steps=50,time=10m.`,
      );
    if (amount === "none") {
      limits.delete(known.axis);
      continue;
    }
    const value = known.read(amount);
    if (value === undefined)
      throw new UsageError(
        `Expected ${name} in ${option} to be ${known.form}, got ${JSON.stringify(amount)}. Use ${name}=none for no limit.`,
      );
    limits.set(known.axis, value);
  }
  return Object.fromEntries(limits);
}

/** Returns a budget in words. */
export function describeBudget(budget: Budget): string {
  const parts = [
    budget.costUsd === undefined ? undefined : `$${budget.costUsd.toFixed(2)}`,
    budget.steps === undefined ? undefined : formatQuantity(budget.steps, "step"),
    budget.totalTokens === undefined ? undefined : formatQuantity(budget.totalTokens, "token"),
    budget.toolCalls === undefined ? undefined : formatQuantity(budget.toolCalls, "tool call"),
    budget.timeMs === undefined ? undefined : writeTimeOption(budget.timeMs),
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? "no limits" : parts.join(", ");
}

function parseMilliseconds(text: string): number | undefined {
  const { count, unit = "" } = TIME.exec(text)?.groups ?? {};
  const unitMs = UNITS_MS[unit];
  return count === undefined || unitMs === undefined
    ? undefined
    : Math.round(Number(count) * unitMs);
}

function writeTimeOption(ms: number): string {
  const [unit, unitMs] =
    Object.entries(UNITS_MS)
      .toReversed()
      .find(([, size]) => ms >= size && ms % size === 0) ?? (["ms", 1] as const);
  return `${ms / unitMs}${unit}`;
}
