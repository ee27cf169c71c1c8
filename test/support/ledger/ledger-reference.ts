// A second, naive ledger to compare the real one with: it stores every lease and every booking, and
// derives every grant from the design instead of the code. Prices are integers, so that amounts are
// exact.

import type { BudgetRefusal, LastStep, LeaseAsk } from "../../../src/budget/lease.ts";
import { type Amounts, type SpendLimits } from "../../../src/policies/budget.ts";
import { LEDGER_AXES, type BudgetAxis, type LedgerAxis } from "../../../src/protocol/account.ts";
import type { Usage } from "../../../src/protocol/usage.ts";

type Sums = Record<LedgerAxis, number>;

/**
 * The account's own time limits, and the periods in which its clock was paused; the last may be
 * open.
 */
export interface ReferenceTime {
  readonly openedAtMs: number;
  readonly deadlineAtMs: number | undefined;
  /** Grants included. */
  limitMs: number | undefined;
  readonly still: { readonly fromMs: number; untilMs?: number }[];
}

export interface ReferenceAccount {
  readonly index: number;
  readonly path: string;
  readonly parent: ReferenceAccount | undefined;
  /** Grants included. */
  limits: SpendLimits;
  /** The amounts of the limits that descendants must leave. */
  readonly reserve: SpendLimits;
  readonly time: ReferenceTime;
  readonly spent: Sums;
  readonly reserved: Sums;
  readonly excess: Sums;
  /** Thresholds that were reached before, by axis, limit and percentage. */
  readonly reached: Set<string>;
}

export interface ReferenceLease {
  readonly account: ReferenceAccount;
  /** The usage of each attempt, in order; removed once it is charged. */
  parts: Amounts[];
  /** The numbers of the running attempts. */
  underWay: number[];
  /** The usage of ended attempts. */
  charged: Sums;
  /** True if the call waits for one more attempt. */
  isWaiting: boolean;
}

/** A waiting request. `id` identifies it in the schedule. */
export interface ReferenceWaiter {
  readonly id: number;
  readonly account: ReferenceAccount;
  readonly ask: LeaseAsk;
  /** The open lease that is to cover one more attempt. */
  readonly extended: ReferenceLease | undefined;
  readonly askedAtMs: number;
}

export type ReferenceAnswer =
  | {
      readonly type: "granted";
      readonly waiter: ReferenceWaiter;
      readonly lease: ReferenceLease;
      readonly hold: Amounts;
      readonly lastStep: LastStep | undefined;
    }
  | {
      readonly type: "refused";
      readonly waiter: ReferenceWaiter;
      readonly refusal: BudgetRefusal;
    };

/** A threshold that was reached for the first time. */
export interface ReferenceThreshold {
  readonly accountPath: string;
  readonly axis: BudgetAxis;
  readonly threshold: number;
  readonly spent: number;
  readonly maximum: number;
}

export class LedgerReference {
  readonly accounts: ReferenceAccount[] = [];
  readonly open: ReferenceLease[] = [];
  line: readonly ReferenceWaiter[] = [];
  /** Collected since the caller took them last. */
  thresholds: ReferenceThreshold[] = [];

  openAccount(
    parent: ReferenceAccount | undefined,
    { path, limits, reserve }: Pick<ReferenceAccount, "path" | "limits" | "reserve">,
    time: Omit<ReferenceTime, "still">,
  ): ReferenceAccount {
    const account: ReferenceAccount = {
      index: this.accounts.length,
      path,
      parent,
      limits,
      reserve,
      time: { ...time, still: [] },
      spent: nothing(),
      reserved: nothing(),
      excess: nothing(),
      reached: new Set(),
    };
    for (const _mark of newMarks(account));
    this.accounts.push(account);
    return account;
  }

  /** Answers every request that can be answered now, in order. */
  serve(nowMs: number): readonly ReferenceAnswer[] {
    const answers: ReferenceAnswer[] = [];
    const contested = new Set<ReferenceAccount>();
    this.line = this.line.filter((waiter) => {
      const path = pathOf(waiter.account);
      const refusal =
        findOverdue(path, nowMs) ?? findUnfit(path, holdOf(waiter.ask, leastOutput(waiter.ask)));
      if (refusal !== undefined) {
        answers.push({ type: "refused", waiter, refusal });
        if (waiter.extended !== undefined) waiter.extended.isWaiting = false;
        return false;
      }
      const hold = largestHold(path, waiter.ask);
      const lacking = path.filter((one) => !hasRoomNow(one, hold, waiter.account));
      const stands = lacking.length > 0 || path.some((account) => contested.has(account));
      for (const account of lacking) contested.add(account);
      if (stands) return true;
      for (const account of path) grow(account.reserved, hold, 1);
      const lease = this.#leaseFor(waiter, hold);
      const lastStep = waiter.extended === undefined ? findLastStep(path) : undefined;
      answers.push({ type: "granted", waiter, lease, hold, lastStep });
      return false;
    });
    return answers;
  }

  #leaseFor({ account, extended }: ReferenceWaiter, hold: Amounts): ReferenceLease {
    if (extended !== undefined) {
      extended.underWay.push(extended.parts.push(hold));
      extended.isWaiting = false;
      return extended;
    }
    const lease: ReferenceLease = {
      account,
      parts: [hold],
      underWay: [1],
      charged: nothing(),
      isWaiting: false,
    };
    this.open.push(lease);
    return lease;
  }

  /** Ends an attempt: releases its hold and charges its usage. */
  charge(lease: ReferenceLease, attempt: number, usage: Usage): void {
    this.#book(lease.account, lease.parts[attempt - 1] ?? nothing(), usage);
    grow(lease.charged, usedOf(usage), 1);
    lease.parts[attempt - 1] = nothing();
    lease.underWay = lease.underWay.filter((one) => one !== attempt);
  }

  /** Raises the limits if the account has all of these axes. Returns true if it did. */
  grant(account: ReferenceAccount, raise: SpendLimits, moreMs: number | undefined): boolean {
    const isThere = LEDGER_AXES.every(
      (axis) => raise[axis] === undefined || account.limits[axis] !== undefined,
    );
    const { time } = account;
    if (!isThere || (moreMs !== undefined && time.limitMs === undefined)) return false;
    const limits: Partial<Sums> = {};
    for (const axis of LEDGER_AXES) {
      const limit = account.limits[axis];
      if (limit !== undefined) limits[axis] = limit + (raise[axis] ?? 0);
    }
    account.limits = limits;
    for (const _mark of newMarks(account));
    if (time.limitMs !== undefined) time.limitMs += moreMs ?? 0;
    return true;
  }

  /** Books the usage of the running attempts; with undefined, the lease is released unused. */
  end(lease: ReferenceLease, usage: Usage | undefined): void {
    this.open.splice(this.open.indexOf(lease), 1);
    this.#book(lease.account, openHoldOf(lease), usage);
  }

  #book(holder: ReferenceAccount, hold: Amounts, usage: Usage | undefined): void {
    for (const account of pathOf(holder)) {
      grow(account.reserved, hold, -1);
      if (usage === undefined) continue;
      const used = usedOf(usage);
      grow(account.spent, used, 1);
      for (const axis of LEDGER_AXES) account.excess[axis] += Math.max(0, used[axis] - hold[axis]);
      this.thresholds.push(...newMarks(account));
    }
  }

  /** Books a tool call if every account allows it; returns the limit that forbids it. */
  chargeToolCall(account: ReferenceAccount, nowMs: number): BudgetRefusal | undefined {
    const path = pathOf(account);
    const refusal = findOverdue(path, nowMs) ?? findUnfit(path, { ...nothing(), toolCalls: 1 });
    if (refusal !== undefined) return refusal;
    for (const one of path) {
      one.spent.toolCalls += 1;
      this.thresholds.push(...newMarks(one));
    }
    return undefined;
  }

  /**
   * The process crashes: waiting requests are lost, and paused clocks continue. An open lease
   * becomes one hold, whose attempts are counted again.
   */
  restart(nowMs: number): void {
    this.line = [];
    for (const { time } of this.accounts) closeStill(time, nowMs);
    for (const lease of this.open) {
      lease.parts = [openHoldOf(lease)];
      lease.underWay = [1];
      lease.isWaiting = false;
    }
  }
}

/** Resumes the clock if it is paused. */
export function closeStill({ still }: ReferenceTime, nowMs: number): void {
  const last = still.at(-1);
  if (last !== undefined) last.untilMs ??= nowMs;
}

/** Returns the total hold of the running attempts. */
export function openHoldOf({ parts }: ReferenceLease): Amounts {
  const sum = nothing();
  for (const part of parts) grow(sum, part, 1);
  return sum;
}

/** Records the thresholds that are reached by now, and returns the new ones. */
function newMarks({ path, limits, spent, reached }: ReferenceAccount): ReferenceThreshold[] {
  const marks: ReferenceThreshold[] = [];
  for (const axis of LEDGER_AXES) {
    const maximum = limits[axis];
    if (maximum === undefined) continue;
    for (const percent of [80, 95]) {
      const mark = `${axis} ${maximum} ${percent}`;
      if (reached.has(mark) || spent[axis] * 100 < maximum * percent) continue;
      reached.add(mark);
      marks.push({
        accountPath: path,
        axis: budgetAxis(axis),
        threshold: percent / 100,
        spent: budgetAmount(axis, spent[axis]),
        maximum: budgetAmount(axis, maximum),
      });
    }
  }
  return marks;
}

function pathOf(account: ReferenceAccount): readonly ReferenceAccount[] {
  return account.parent === undefined ? [account] : [account, ...pathOf(account.parent)];
}

/** Returns the maximum cost of a call with this cap. */
function holdOf({ inputTokens, price, steps = 1 }: LeaseAsk, outputTokens: number): Amounts {
  // All input may turn out to be cached, written, or neither. The most expensive case is held, at
  // the tier that a tenth more input would reach.
  const reached = price?.tiers?.filter((tier) => inputTokens * 11 > tier.aboveInputTokens * 10);
  const {
    inputUsdPerMillion = 0,
    cachedInputUsdPerMillion = 0,
    cacheWriteUsdPerMillion = 0,
    outputUsdPerMillion = 0,
  } = reached?.at(-1) ?? price ?? {};
  const dearest = Math.max(inputUsdPerMillion, cachedInputUsdPerMillion, cacheWriteUsdPerMillion);
  const cost = inputTokens * dearest + outputTokens * outputUsdPerMillion;
  const totalTokens = inputTokens + outputTokens;
  const input = { inputTokens, cachedInputTokens: inputTokens };
  return { steps, totalTokens, ...input, outputTokens, costMicroUsd: cost, toolCalls: 0 };
}

/** Returns the smallest cap of the model, or the requested one if it is smaller. */
function leastOutput({ minOutputTokens = 1, maxOutputTokens }: LeaseAsk): number {
  return Math.min(minOutputTokens, maxOutputTokens);
}

/** Finds the hold with the largest cap that could ever fit on the path, by trial. */
function largestHold(path: readonly ReferenceAccount[], ask: LeaseAsk): Amounts {
  let cap = ask.maxOutputTokens;
  while (cap > leastOutput(ask) && !canEverFit(path, holdOf(ask, cap))) cap -= 1;
  return holdOf(ask, cap);
}

function canEverFit(path: readonly ReferenceAccount[], hold: Amounts): boolean {
  return findUnfit(path, hold) === undefined;
}

/**
 * Returns the limit that can never fit the hold: on the first such axis, at the account with the
 * least room, the lowest of several.
 */
function findUnfit(path: readonly ReferenceAccount[], hold: Amounts): BudgetRefusal | undefined {
  const [asker] = path;
  for (const axis of LEDGER_AXES) {
    const tightest = tightestOn(path, axis, asker);
    if (hold[axis] === 0 || tightest === undefined) continue;
    if (hold[axis] > unspent(tightest, axis, asker))
      return refusalOf(tightest, axis, hold[axis], asker);
  }
  return undefined;
}

/**
 * Returns the first limit of the path that is reached, so that no call, or no step of a new child
 * (asker: undefined), may follow.
 */
export function findReached(
  account: ReferenceAccount,
  asker: ReferenceAccount | undefined,
  nowMs: number,
): BudgetRefusal | undefined {
  const path = pathOf(account);
  for (const axis of LEDGER_AXES) {
    if (axis === "toolCalls" || (axis === "steps" && asker !== undefined)) continue;
    const tightest = tightestOn(path, axis, asker);
    if (tightest !== undefined && unspent(tightest, axis, asker) <= 0)
      return refusalOf(tightest, axis, 0, asker);
  }
  return findOverdue(path, nowMs);
}

function tightestOn(
  path: readonly ReferenceAccount[],
  axis: LedgerAxis,
  asker: ReferenceAccount | undefined,
): ReferenceAccount | undefined {
  const limiting = path.filter(({ limits }) => limits[axis] !== undefined);
  const least = Math.min(...limiting.map((one) => unspent(one, axis, asker)));
  return limiting.find((one) => unspent(one, axis, asker) === least);
}

/** Returns the unspent amount of the account that it does not reserve from the asker. */
function unspent(
  account: ReferenceAccount,
  axis: LedgerAxis,
  asker: ReferenceAccount | undefined,
): number {
  return (account.limits[axis] ?? Infinity) - account.spent[axis] - kept(account, axis, asker);
}

/** The reserve of the account is reported only as far as it is not spent already. */
function refusalOf(
  account: ReferenceAccount,
  axis: LedgerAxis,
  requested: number,
  asker: ReferenceAccount | undefined,
): BudgetRefusal {
  const [maximum, spent] = [account.limits[axis] ?? Infinity, account.spent[axis]];
  const told = Math.min(kept(account, axis, asker), Math.max(0, maximum - spent));
  const refusal = {
    axis: budgetAxis(axis),
    accountPath: account.path,
    maximum: budgetAmount(axis, maximum),
    spent: budgetAmount(axis, spent),
    requested: budgetAmount(axis, requested),
  };
  return told === 0 ? refusal : { ...refusal, reserve: budgetAmount(axis, told) };
}

/**
 * Returns the remaining amount on each limited axis for an asker, or for a new child (undefined),
 * in addition to what calls hold.
 */
export function leftOf(
  account: ReferenceAccount,
  asker: ReferenceAccount | undefined,
  nowMs: number,
  returned: Amounts = nothing(),
): Readonly<Record<string, number>> {
  const path = pathOf(account);
  const left: Record<string, number> = {};
  for (const axis of LEDGER_AXES) {
    const rooms = path.map((one) => unspent(one, axis, asker) - one.reserved[axis]);
    const least = Math.min(...rooms) + returned[axis];
    if (least < Infinity) left[budgetAxis(axis)] = budgetAmount(axis, Math.max(0, least));
  }
  const deadline = deadlineOf(account, nowMs);
  if (deadline !== null) left["timeMs"] = Math.max(0, deadline - nowMs);
  return left;
}

/** Returns the step limit that is exhausted by spent and held steps. */
function findLastStep(path: readonly ReferenceAccount[]): LastStep | undefined {
  const [asker] = path;
  const last = path.find((one) => unspent(one, "steps", asker) - one.reserved.steps <= 0);
  if (last === undefined) return undefined;
  const keeps = kept(last, "steps", asker);
  return { accountPath: last.path, maximum: Math.max(0, (last.limits.steps ?? 0) - keeps) };
}

function hasRoomNow(account: ReferenceAccount, hold: Amounts, asker: ReferenceAccount): boolean {
  const { limits, spent, reserved } = account;
  return LEDGER_AXES.every(
    (axis) =>
      hold[axis] === 0 ||
      spent[axis] + reserved[axis] + hold[axis] + kept(account, axis, asker) <=
        (limits[axis] ?? Infinity),
  );
}

/** Returns the amount that the account reserves from all but its own agent. */
function kept(
  account: ReferenceAccount,
  axis: LedgerAxis,
  asker: ReferenceAccount | undefined,
): number {
  return account === asker ? 0 : (account.reserve[axis] ?? 0);
}

/**
 * Returns the expired deadline with the account that set it: of several, the one nearest to the
 * root.
 */
function findOverdue(path: readonly ReferenceAccount[], nowMs: number): BudgetRefusal | undefined {
  const [account] = path;
  const deadline = account === undefined ? null : deadlineOf(account, nowMs);
  if (deadline === null || nowMs < deadline) return undefined;
  const owner = path.findLast(
    ({ time }) => time.deadlineAtMs === deadline || movingDeadline(time, nowMs) === deadline,
  );
  if (owner === undefined) return undefined;
  const { time } = owner;
  const sinceMs = nowMs - time.openedAtMs;
  const isMoving = movingDeadline(time, nowMs) === deadline;
  return {
    axis: "timeMs",
    accountPath: owner.path,
    requested: 0,
    maximum: isMoving ? (time.limitMs ?? 0) : deadline - time.openedAtMs,
    spent: isMoving ? sinceMs - pausedMs(time, nowMs) : sinceMs,
  };
}

function movingDeadline(time: ReferenceTime, nowMs: number): number {
  return time.openedAtMs + pausedMs(time, nowMs) + (time.limitMs ?? Infinity);
}

/** Returns how long a clock has been paused. */
export function pausedMs({ still }: ReferenceTime, nowMs: number): number {
  return still.reduce((sum, { fromMs, untilMs = nowMs }) => sum + untilMs - fromMs, 0);
}

/** Returns the end of the agent if every clock on its path continued from now. */
export function deadlineOf(account: ReferenceAccount, nowMs: number): number | null {
  const deadlines = pathOf(account).flatMap(({ time }) => [
    time.deadlineAtMs ?? Infinity,
    movingDeadline(time, nowMs),
  ]);
  const earliest = Math.min(...deadlines);
  return earliest === Infinity ? null : earliest;
}

/** Returns the usage with the cost in whole micro-dollars. */
function usedOf({ costUsd, ...counts }: Usage): Amounts {
  const costMicroUsd = Math.round((costUsd ?? 0) * 1_000_000);
  return { ...counts, costMicroUsd };
}

/** A ledger reports everything by the axes of a budget. */
export function budgetAxis(axis: LedgerAxis): BudgetAxis {
  return axis === "costMicroUsd" ? "costUsd" : axis;
}

/** Money is reported in dollars. */
export function budgetAmount(axis: LedgerAxis, amount: number): number {
  return axis === "costMicroUsd" ? amount / 1_000_000 : amount;
}

function grow(sums: Sums, by: Amounts, sign: 1 | -1): void {
  for (const axis of LEDGER_AXES) sums[axis] += sign * by[axis];
}

function nothing(): Sums {
  return {
    steps: 0,
    totalTokens: 0,
    inputTokens: 0,
    cachedInputTokens: 0,
    outputTokens: 0,
    costMicroUsd: 0,
    toolCalls: 0,
  };
}
