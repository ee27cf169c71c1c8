// When to say that a budget is nearly used up (X6).

/** Parts of a limit at which it is said, the smaller first. */
export const BUDGET_THRESHOLDS = [0.8, 0.95] as const;

const HUNDRED = 100;

/** Whether no threshold of the limit is reached yet. */
export function isEarly(maximum: number, spent: number): boolean {
  return spent * HUNDRED < maximum * Math.round(BUDGET_THRESHOLDS[0] * HUNDRED);
}

/** The least amount above `spent` at which a threshold of the limit is reached; undefined: all are. */
export function nextThreshold(maximum: number, spent: number): number | undefined {
  return BUDGET_THRESHOLDS.map((threshold) =>
    Math.ceil((maximum * Math.round(threshold * HUNDRED)) / HUNDRED),
  ).find((amount) => amount > spent);
}

/** The thresholds of a limit that spending from `before` up to `spent` has reached. Whole amounts are compared exactly. */
export function reachedThresholds(
  maximum: number,
  before: number,
  spent: number,
): readonly number[] {
  return BUDGET_THRESHOLDS.filter((threshold) => {
    const bound = maximum * Math.round(threshold * HUNDRED);
    return before * HUNDRED < bound && spent * HUNDRED >= bound;
  });
}
