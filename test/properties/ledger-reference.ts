// A second, naive ledger to compare the real one with: it keeps every lease and every booking, and works out by words of the
// design, not of the code, who must be granted what. Integer prices only, so that amounts are exact.

import type { LeaseAsk } from "../../src/budget/lease.ts";
import { type Amounts, type SpendLimits } from "../../src/policies/budget.ts";
import { SPEND_AXES, type SpendAxis } from "../../src/protocol/account.ts";
import { toAmounts, type Usage } from "../../src/protocol/usage.ts";

type Sums = Record<SpendAxis, number>;

/** The account's own limits in time, and the periods in which its clock stood still; the last may be open. */
export interface ReferenceTime {
  readonly openedAtMs: number;
  readonly deadlineAtMs: number | undefined;
  /** Grants are in it. */
  limitMs: number | undefined;
  readonly still: { readonly fromMs: number; untilMs?: number }[];
}

export interface ReferenceAccount {
  readonly index: number;
  readonly parent: ReferenceAccount | undefined;
  /** Grants are in it. */
  limits: SpendLimits;
  /** What descendants must leave of the limits. */
  readonly reserve: SpendLimits;
  readonly time: ReferenceTime;
  readonly spent: Sums;
  readonly reserved: Sums;
  readonly excess: Sums;
}

export interface ReferenceLease {
  readonly account: ReferenceAccount;
  /** Of the attempt under way; nothing while it is to be extended. */
  hold: Amounts;
  /** What attempts that have ended used. */
  charged: Sums;
  attempt: number;
  /** It waits for one more attempt. */
  isWaiting: boolean;
}

/** A request that waits. `id` is how the schedule knows it. */
export interface ReferenceWaiter {
  readonly id: number;
  readonly account: ReferenceAccount;
  readonly ask: LeaseAsk;
  /** The open lease that is to cover one more attempt. */
  readonly extended: ReferenceLease | undefined;
  readonly askedAtMs: number;
}

export type ReferenceAnswer =
  | { readonly type: "granted"; readonly waiter: ReferenceWaiter; readonly lease: ReferenceLease }
  | { readonly type: "refused"; readonly waiter: ReferenceWaiter };

export class LedgerReference {
  readonly accounts: ReferenceAccount[] = [];
  readonly open: ReferenceLease[] = [];
  line: readonly ReferenceWaiter[] = [];

  openAccount(
    parent: ReferenceAccount | undefined,
    { limits, reserve }: Pick<ReferenceAccount, "limits" | "reserve">,
    time: Omit<ReferenceTime, "still">,
  ): ReferenceAccount {
    const account: ReferenceAccount = {
      index: this.accounts.length,
      parent,
      limits,
      reserve,
      time: { ...time, still: [] },
      spent: nothing(),
      reserved: nothing(),
      excess: nothing(),
    };
    this.accounts.push(account);
    return account;
  }

  /** Answers everyone who can be answered now, in order. */
  serve(nowMs: number): readonly ReferenceAnswer[] {
    const answers: ReferenceAnswer[] = [];
    const contested = new Set<ReferenceAccount>();
    this.line = this.line.filter((waiter) => {
      const path = pathOf(waiter.account);
      if (isOver(waiter.account, nowMs) || !canEverFit(path, holdOf(waiter.ask, 1))) {
        answers.push({ type: "refused", waiter });
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
      answers.push({ type: "granted", waiter, lease });
      return false;
    });
    return answers;
  }

  #leaseFor({ account, extended }: ReferenceWaiter, hold: Amounts): ReferenceLease {
    if (extended !== undefined) {
      extended.hold = hold;
      extended.attempt += 1;
      extended.isWaiting = false;
      return extended;
    }
    const lease = { account, hold, charged: nothing(), attempt: 1, isWaiting: false };
    this.open.push(lease);
    return lease;
  }

  /** The attempt under way has ended: its hold goes, what it used is spent. */
  charge(lease: ReferenceLease, usage: Usage): void {
    this.#book(lease, usage);
    grow(lease.charged, toAmounts(usage), 1);
    lease.hold = nothing();
  }

  /** Raises limits, if the account has them all; says whether it did. */
  grant(account: ReferenceAccount, raise: SpendLimits, moreMs: number | undefined): boolean {
    const isThere = SPEND_AXES.every(
      (axis) => raise[axis] === undefined || account.limits[axis] !== undefined,
    );
    const { time } = account;
    if (!isThere || (moreMs !== undefined && time.limitMs === undefined)) return false;
    const limits: Partial<Sums> = {};
    for (const axis of SPEND_AXES) {
      const limit = account.limits[axis];
      if (limit !== undefined) limits[axis] = limit + (raise[axis] ?? 0);
    }
    account.limits = limits;
    if (time.limitMs !== undefined) time.limitMs += moreMs ?? 0;
    return true;
  }

  /** Books the usage of the last attempt; undefined: the lease is given back unused. */
  end(lease: ReferenceLease, usage: Usage | undefined): void {
    this.open.splice(this.open.indexOf(lease), 1);
    this.#book(lease, usage);
  }

  #book(lease: ReferenceLease, usage: Usage | undefined): void {
    for (const account of pathOf(lease.account)) {
      grow(account.reserved, lease.hold, -1);
      if (usage === undefined) continue;
      const used = toAmounts(usage);
      grow(account.spent, used, 1);
      for (const axis of SPEND_AXES)
        account.excess[axis] += Math.max(0, used[axis] - lease.hold[axis]);
    }
  }

  /** Books a tool call if every account allows it; says whether it did. */
  chargeToolCall(account: ReferenceAccount, nowMs: number): boolean {
    const path = pathOf(account);
    if (!canEverFit(path, { ...nothing(), toolCalls: 1 }) || isOver(account, nowMs)) return false;
    for (const one of path) one.spent.toolCalls += 1;
    return true;
  }
}

function pathOf(account: ReferenceAccount): readonly ReferenceAccount[] {
  return account.parent === undefined ? [account] : [account, ...pathOf(account.parent)];
}

/** What a call with this cap may cost at most. */
function holdOf({ inputTokens, price, steps = 1 }: LeaseAsk, outputTokens: number): Amounts {
  // All input may turn out to be cached or written, or neither: the dearest of the three is held, of the tier that a tenth more would reach.
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

/** The hold with the largest cap that the path can ever have room for, found by trying. */
function largestHold(path: readonly ReferenceAccount[], ask: LeaseAsk): Amounts {
  let cap = ask.maxOutputTokens;
  while (cap > 1 && !canEverFit(path, holdOf(ask, cap))) cap -= 1;
  return holdOf(ask, cap);
}

function canEverFit(path: readonly ReferenceAccount[], hold: Amounts): boolean {
  return path.every((account) =>
    SPEND_AXES.every(
      (axis) =>
        hold[axis] === 0 ||
        account.spent[axis] + hold[axis] + kept(account, axis, path[0]) <=
          (account.limits[axis] ?? Infinity),
    ),
  );
}

function hasRoomNow(account: ReferenceAccount, hold: Amounts, asker: ReferenceAccount): boolean {
  const { limits, spent, reserved } = account;
  return SPEND_AXES.every(
    (axis) =>
      hold[axis] === 0 ||
      spent[axis] + reserved[axis] + hold[axis] + kept(account, axis, asker) <=
        (limits[axis] ?? Infinity),
  );
}

/** What the account keeps from others than its own agent. */
function kept(
  account: ReferenceAccount,
  axis: SpendAxis,
  asker: ReferenceAccount | undefined,
): number {
  return account === asker ? 0 : (account.reserve[axis] ?? 0);
}

function isOver(account: ReferenceAccount, nowMs: number): boolean {
  return pathOf(account).some(({ time }) => {
    const usedMs = nowMs - time.openedAtMs - stoodMs(time, nowMs);
    return nowMs >= (time.deadlineAtMs ?? Infinity) || usedMs >= (time.limitMs ?? Infinity);
  });
}

/** For how long a clock has stood still. */
export function stoodMs({ still }: ReferenceTime, nowMs: number): number {
  return still.reduce((sum, { fromMs, untilMs = nowMs }) => sum + untilMs - fromMs, 0);
}

/** When the agent would have to end if every clock on its path continued from now. */
export function deadlineOf(account: ReferenceAccount, nowMs: number): number | null {
  const deadlines = pathOf(account).flatMap(({ time }) => [
    time.deadlineAtMs ?? Infinity,
    time.openedAtMs + stoodMs(time, nowMs) + (time.limitMs ?? Infinity),
  ]);
  const earliest = Math.min(...deadlines);
  return earliest === Infinity ? null : earliest;
}

function grow(sums: Sums, by: Amounts, sign: 1 | -1): void {
  for (const axis of SPEND_AXES) sums[axis] += sign * by[axis];
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
