// The time of accounts: how much of a limit is spent, and when it ends. Reached only where time is limited on the path.
//
// A limit in time does not run while the account's clock stands still, so its deadline moves; a fixed deadline never does.
// Each account's clock stands by itself: the deadline of an agent is the earliest on its path, asked for anew every time.

import type { BudgetRefusal } from "./lease.ts";
import type { AccountFigures } from "./account-figures.ts";

/** When the agent must have ended: the earliest deadline on its path. Null: no limit in time. */
export function deadlineAtMs(account: AccountFigures, nowMs: number): number | null {
  let deadline = account.fixedDeadlineAtMs;
  for (let at: AccountFigures | undefined = account; at !== undefined; at = at.parent)
    deadline = earlier(deadline, movingDeadlineAtMs(at, nowMs));
  return deadline;
}

/** How much of its own limit in time the account has spent, as its clock has gone so far; undefined: it has none. */
export function timeSpent(
  account: AccountFigures,
  nowMs: number,
): { readonly maximum: number; readonly spent: number } | undefined {
  const { timeLimitMs: maximum, openedAtMs } = account;
  if (maximum === null) return undefined;
  return { maximum, spent: nowMs - openedAtMs - account.stoodMsAt(nowMs) };
}

/**
 * The deadline that the agent itself has to watch: not the one that an ancestor watches for it, nor one that does not come nearer, since
 * the agent's clock stands still.
 */
export function ownDeadlineAtMs(account: AccountFigures, nowMs: number): number | null {
  const { fixedDeadlineAtMs: fixed, parent, standsSinceMs } = account;
  const moving = movingDeadlineAtMs(account, nowMs);
  const comes = moving !== null && (standsSinceMs === undefined || moving <= nowMs);
  if (comes && (fixed === null || moving < fixed)) return moving;
  return fixed === (parent?.fixedDeadlineAtMs ?? null) ? null : fixed;
}

/** How much time is left on the path of the account. */
export function timeLeft(account: AccountFigures, nowMs: number): number {
  return Math.max(0, (deadlineAtMs(account, nowMs) ?? Infinity) - nowMs);
}

/** The refusal in the name of the account that set the limit: of several with the same deadline, the one nearest to the root. */
export function deadlineRefusal(account: AccountFigures, nowMs: number): BudgetRefusal | undefined {
  const deadline = deadlineAtMs(account, nowMs);
  if (deadline === null || nowMs < deadline) return undefined;
  let owner = account;
  for (let at: AccountFigures | undefined = account; at !== undefined; at = at.parent)
    if (movingDeadlineAtMs(at, nowMs) === deadline || at.fixedDeadlineAtMs === deadline) owner = at;
  const refusal = { axis: "timeMs", accountPath: owner.agentPath, requested: 0 } as const;
  const { openedAtMs } = owner;
  if (movingDeadlineAtMs(owner, nowMs) !== deadline)
    return { ...refusal, maximum: deadline - openedAtMs, spent: nowMs - openedAtMs };
  const { maximum = 0, spent = 0 } = timeSpent(owner, nowMs) ?? {};
  return { ...refusal, maximum, spent };
}

/** Where the account's limit in time ends, as its clock has gone so far. */
function movingDeadlineAtMs(account: AccountFigures, nowMs: number): number | null {
  const { timeLimitMs, openedAtMs } = account;
  return timeLimitMs === null ? null : openedAtMs + timeLimitMs + account.stoodMsAt(nowMs);
}

function earlier(left: number | null, right: number | null): number | null {
  if (left === null || right === null) return left ?? right;
  return Math.min(left, right);
}
