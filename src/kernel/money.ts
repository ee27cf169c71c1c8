// Money. The API uses US dollars; sums, reservations and limits are whole micro-dollars. A cost in
// the API is a whole number of micro-dollars divided by a million, and `toMicroUsd` returns exactly
// that number.

export const MICRO_PER_USD = 1_000_000;

/** The largest amount that survives `toUsd` and `toMicroUsd` unchanged: 2.2 billion dollars. */
export const MAX_MICRO_USD = 2 ** 51;

/** Returns the whole micro-dollars nearest to an amount. */
export function toMicroUsd(usd: number): number {
  return Math.round(usd * MICRO_PER_USD);
}

export function toUsd(microUsd: number): number {
  return microUsd / MICRO_PER_USD;
}

/**
 * Adds two amounts in dollars, which are whole numbers of micro-dollars, without rounding errors.
 */
export function addUsd(left: number, right: number): number {
  const sum = Math.round(left * MICRO_PER_USD) + Math.round(right * MICRO_PER_USD);
  return sum / MICRO_PER_USD;
}

/** Returns true for a whole number of micro-dollars that can be converted without loss. */
export function isWholeMicroUsd(usd: number): boolean {
  const microUsd = Math.round(usd * MICRO_PER_USD);
  return Math.abs(microUsd) <= MAX_MICRO_USD && microUsd / MICRO_PER_USD === usd;
}

// Slack for rounding errors, such as 0.3 - 0.1 = 0.19999999999999998 and 0.000007 * 1e6 =
// 7.000000000000001. Whole micro-dollars stay whole.
const ROUNDING_SLACK = 1e-6;

/** Rounds a limit down to whole micro-dollars, and to the largest amount that can be counted. */
export function floorMicroUsd(usd: number): number {
  const nearest = toMicroUsd(usd);
  const isLess = toUsd(nearest) > usd && nearest - usd * MICRO_PER_USD > ROUNDING_SLACK;
  return Math.min(isLess ? nearest - 1 : nearest, MAX_MICRO_USD);
}

/** Rounds a cost up to whole micro-dollars. */
export function roundUpMicroUsd(usd: number): number {
  return Math.ceil(usd * MICRO_PER_USD - ROUNDING_SLACK);
}
