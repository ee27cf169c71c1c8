// The figures of a budget account that decide which amounts fit below its limits. BudgetAccount
// owns and changes them. lease-decision.ts compares them, and `createBudgetRefusal` here states which
// limit refused. Callers of the account turn that into a signal (agent/stop-requests.ts) or
// into the refusal of a subagent (orchestrator/tree/spawn-checks.ts).
//
// Room is the unspent part of a limit. Descendants of an account must leave the part that is kept
// for its own agent, which may use that part.

import {
  NO_AMOUNTS,
  toSpendAmount,
  toSpendAxis,
  type Amounts,
  type SpendLimits,
} from "../policies/budget.ts";
import { toMicroUsd } from "../kernel/money.ts";
import { LEDGER_AXES, type LedgerAxis } from "../protocol/account.ts";
import type { Usage } from "../protocol/usage.ts";
import type { BudgetRefusal } from "./lease.ts";

export interface AccountFigures {
  readonly agentPath: string;
  readonly parent: AccountFigures | undefined;
  /** The account of the whole run. */
  readonly root: AccountFigures;
  /** Axes that are limited on the path. A grant raises limits, and never adds any. */
  readonly axes: readonly LedgerAxis[];
  /** The nearest account on the path, this one included, that limits an axis itself. */
  readonly limiting: AccountFigures | undefined;
  readonly limits: SpendLimits;
  /** The part of the limits that descendants must leave. */
  readonly reserve: SpendLimits;
  /** Usage of the agent and its descendants. */
  readonly total: Usage;
  /** Amounts that open leases hold. */
  readonly reserved: Amounts;
  /** True if a limit in time, or a fixed deadline, is on the path. */
  readonly isTimed: boolean;
  /** The account's own limit in time. */
  readonly timeLimitMs: number | null;
  readonly fixedDeadlineAtMs: number | null;
  readonly openedAtMs: number;
  /** Time at which the account's clock was paused. `undefined` while it runs. */
  readonly pausedSinceMs: number | undefined;
  /** Returns the time for which the account's clock has been paused by then. */
  pausedMsAt(nowMs: number): number;
}

/**
 * The agent of an account, which may use its reserve. `NEW_CHILD` is a child without an account,
 * which must leave the reserve.
 */
export type Asker = AccountFigures | typeof NEW_CHILD;
export const NEW_CHILD = null;

/**
 * Returns the amount that can become free for the asker: open leases are not subtracted. `Infinity`
 * if the account does not limit the axis.
 */
export function findUnspentRoom(at: AccountFigures, asker: Asker, axis: LedgerAxis): number {
  const limit = at.limits[axis];
  if (limit === undefined) return Infinity;
  const spent = axis === "costMicroUsd" ? toMicroUsd(at.total.costUsd ?? 0) : at.total[axis];
  return limit - spent - (asker === at ? 0 : (at.reserve[axis] ?? 0));
}

/** Returns the account on the path with the least room. `undefined` if nothing limits the axis. */
export function findTightest(
  account: AccountFigures,
  asker: Asker,
  axis: LedgerAxis,
): AccountFigures | undefined {
  let tightest: AccountFigures | undefined;
  let least = Infinity;
  for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) {
    const room = findUnspentRoom(at, asker, axis);
    if (room < least) [tightest, least] = [at, room];
  }
  return tightest;
}

interface Shortage {
  readonly axis: LedgerAxis;
  readonly requested: number;
  readonly asker: Asker;
}

/**
 * Returns the refusal of an account, in the units of a budget. Reports the reserve apart from the
 * spent amount.
 */
export function createBudgetRefusal(
  at: AccountFigures,
  { axis, requested, asker }: Shortage,
): BudgetRefusal {
  const { agentPath: accountPath, limits } = at;
  const maximum = limits[axis] ?? Infinity;
  const room = findUnspentRoom(at, at, axis);
  const reserveOnAxis = asker === at ? 0 : (at.reserve[axis] ?? 0);
  const reserve = Math.min(reserveOnAxis, Math.max(0, room));
  return {
    axis: toSpendAxis(axis),
    accountPath,
    maximum: toSpendAmount(axis, maximum),
    spent: toSpendAmount(axis, maximum - room),
    requested: toSpendAmount(axis, requested),
    ...(reserve > 0 ? { reserve: toSpendAmount(axis, reserve) } : {}),
  };
}

/** Returns an amount for each axis. */
export function mapAxes(amount: (axis: LedgerAxis) => number): Amounts {
  const amounts: Record<LedgerAxis, number> = { ...NO_AMOUNTS };
  for (const axis of LEDGER_AXES) amounts[axis] = amount(axis);
  return amounts;
}
