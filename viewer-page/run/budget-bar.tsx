// Shows the used share of each limit of a run: the most used limit as a bar, all limits in words.

import type { AxisAmounts, RunRow, RunTime } from "../../src/read-model/viewer-data.ts";
import { AXES } from "../../src/read-model/amounts.ts";
import { computeLeft } from "./run-time.ts";

/**
 * Returns the used share of each limit. A share is above 1 if the last reply exceeded the limit.
 */
export function computeUses(budget: AxisAmounts, left: AxisAmounts) {
  return AXES.flatMap(({ axis, label, short }) => {
    const limit = budget[axis];
    if (limit === undefined) return [];
    const used = Math.max(0, limit - (left[axis] ?? limit));
    return [
      { label, used: short(used), limit: short(limit), share: limit === 0 ? 1 : used / limit },
    ];
  });
}

type BudgetedRun = Pick<RunRow, "budget" | "remaining" | "status"> & Partial<RunTime>;

export function BudgetBar({ run }: { readonly run: BudgetedRun }) {
  const uses = computeUses(run.budget ?? {}, computeLeft(run));
  const hasCompleted = run.status === "completed";
  const tightest = uses.toSorted((left, right) => right.share - left.share)[0];
  if (tightest === undefined) return null;
  const all = uses.map(({ label, used, limit }) => `${label}: ${used} of ${limit}`).join(", ");
  return (
    <span class="budget" title={all}>
      <Meter share={tightest.share} label={all} isCalm={hasCompleted} />
      <span class="budget-text">
        {tightest.used} of {tightest.limit}
        <span class="muted"> {tightest.label}</span>
      </span>
    </span>
  );
}

interface MeterProps {
  readonly share: number;
  readonly label: string;
  /** True if a limit that is nearly used up needs no warning, because the run has completed. */
  readonly isCalm?: boolean;
}

export function Meter({ share, label, isCalm = false }: MeterProps) {
  const alarm = share < 0.95 ? "near" : "over";
  const level = isCalm || share < 0.8 ? "fine" : alarm;
  return (
    <span class={`meter is-${level}`} role="img" aria-label={label}>
      <span class="fill" style={{ width: `${Math.min(100, share * 100)}%` }} />
    </span>
  );
}
