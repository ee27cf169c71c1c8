// Time of accounts: the spent part of a time limit, and its end. Entered only if time is limited on
// the path.
//
// A time limit does not run while the account's clock is paused, so its deadline moves; a fixed
// deadline never moves. Each account has its own clock. The deadline of an agent is the earliest on
// its path, computed on demand.

import type { BudgetRefusal } from "./lease.ts";
import type { AccountFigures } from "./account-figures.ts";

/** Returns the earliest deadline on the agent's path. `null` without a time limit. */
export function computeDeadline(account: AccountFigures, nowMs: number): number | null {
  let deadline = account.fixedDeadlineAtMs;
  for (let at: AccountFigures | undefined = account; at !== undefined; at = at.parent)
    deadline = pickEarlier(deadline, findMovingDeadline(at, nowMs));
  return deadline;
}

/** Returns the spent part of the account's own time limit. `undefined` if the account has none. */
export function computeTimeSpent(
  account: AccountFigures,
  nowMs: number,
): { readonly maximum: number; readonly spent: number } | undefined {
  const { timeLimitMs: maximum, openedAtMs } = account;
  if (maximum === null) return undefined;
  return { maximum, spent: nowMs - openedAtMs - account.pausedMsAt(nowMs) };
}

/**
 * Returns the deadline that the agent itself has to watch. `null` if an ancestor watches the
 * deadline, or if the agent's clock is paused, so that the deadline never arrives.
 */
export function computeOwnDeadline(account: AccountFigures, nowMs: number): number | null {
  const { fixedDeadlineAtMs: fixed, parent, pausedSinceMs } = account;
  const moving = findMovingDeadline(account, nowMs);
  const comes = moving !== null && (pausedSinceMs === undefined || moving <= nowMs);
  if (comes && (fixed === null || moving < fixed)) return moving;
  return fixed === (parent?.fixedDeadlineAtMs ?? null) ? null : fixed;
}

/** Returns the time left on the path of the account. */
export function computeTimeLeft(account: AccountFigures, nowMs: number): number {
  return Math.max(0, (computeDeadline(account, nowMs) ?? Infinity) - nowMs);
}

/**
 * Returns the refusal in the name of the account that set the limit. If several have the same
 * deadline, names the account nearest to the root.
 */
export function findTimeRefusal(account: AccountFigures, nowMs: number): BudgetRefusal | undefined {
  const deadline = computeDeadline(account, nowMs);
  if (deadline === null || nowMs < deadline) return undefined;
  let owner = account;
  for (let at: AccountFigures | undefined = account; at !== undefined; at = at.parent)
    if (findMovingDeadline(at, nowMs) === deadline || at.fixedDeadlineAtMs === deadline) owner = at;
  const refusal = { axis: "timeMs", accountPath: owner.agentPath, requested: 0 } as const;
  const { openedAtMs } = owner;
  if (findMovingDeadline(owner, nowMs) !== deadline)
    return { ...refusal, maximum: deadline - openedAtMs, spent: nowMs - openedAtMs };
  const { maximum = 0, spent = 0 } = computeTimeSpent(owner, nowMs) ?? {};
  return { ...refusal, maximum, spent };
}

/**
 * Returns the milliseconds that an agent had until `deadline`: its own time limit, or the time from
 * its start to a deadline of the run or of an ancestor.
 */
export function getTimeMaximum(account: AccountFigures, deadline: number): number {
  const { timeLimitMs, openedAtMs, fixedDeadlineAtMs } = account;
  const untilDeadline = Math.max(0, deadline - openedAtMs);
  const isOwn = deadline !== fixedDeadlineAtMs && untilDeadline >= (timeLimitMs ?? Infinity);
  return isOwn && timeLimitMs !== null ? timeLimitMs : untilDeadline;
}

/** Returns the end of the account's time limit, as its clock has run so far. */
function findMovingDeadline(account: AccountFigures, nowMs: number): number | null {
  const { timeLimitMs, openedAtMs } = account;
  return timeLimitMs === null ? null : openedAtMs + timeLimitMs + account.pausedMsAt(nowMs);
}

function pickEarlier(left: number | null, right: number | null): number | null {
  if (left === null || right === null) return left ?? right;
  return Math.min(left, right);
}
