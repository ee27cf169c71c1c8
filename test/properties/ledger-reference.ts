// A second, naive ledger to compare the real one with: it keeps every lease and every booking, and works out by words of the
// design, not of the code, who must be granted what. Integer prices only, so that amounts are exact.

import type { LeaseAsk } from "../../src/agent/budget-gate.ts";
import {
  SPEND_AXES,
  type Amounts,
  type SpendAxis,
  type SpendLimits,
} from "../../src/policies/budget.ts";
import type { Usage } from "../../src/protocol/usage.ts";

type Sums = Record<SpendAxis, number>;

/** The account's own limits in time, and the periods in which its clock stood still; the last may be open. */
export interface ReferenceTime {
  readonly openedAtMs: number;
  readonly deadlineAtMs: number | undefined;
  readonly limitMs: number | undefined;
  readonly still: { readonly fromMs: number; untilMs?: number }[];
}

export interface ReferenceAccount {
  readonly index: number;
  readonly parent: ReferenceAccount | undefined;
  readonly limits: SpendLimits;
  readonly time: ReferenceTime;
  readonly spent: Sums;
  readonly reserved: Sums;
  readonly excess: Sums;
}

export interface ReferenceLease {
  readonly account: ReferenceAccount;
  readonly hold: Amounts;
}

/** Somebody who asked. `id` is how the schedule knows them. */
export interface ReferenceWaiter {
  readonly id: number;
  readonly account: ReferenceAccount;
  readonly ask: LeaseAsk;
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
    limits: SpendLimits,
    time: Omit<ReferenceTime, "still">,
  ): ReferenceAccount {
    const account: ReferenceAccount = {
      index: this.accounts.length,
      parent,
      limits,
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
        return false;
      }
      const hold = largestHold(path, waiter.ask);
      const lacking = path.filter((account) => !hasRoomNow(account, hold));
      const stands = lacking.length > 0 || path.some((account) => contested.has(account));
      for (const account of lacking) contested.add(account);
      if (stands) return true;
      for (const account of path) grow(account.reserved, hold, 1);
      const lease = { account: waiter.account, hold };
      this.open.push(lease);
      answers.push({ type: "granted", waiter, lease });
      return false;
    });
    return answers;
  }

  /** Books usage; undefined: the lease is given back unused. */
  end(lease: ReferenceLease, usage: Usage | undefined): void {
    this.open.splice(this.open.indexOf(lease), 1);
    for (const account of pathOf(lease.account)) {
      grow(account.reserved, lease.hold, -1);
      if (usage === undefined) continue;
      grow(account.spent, usage, 1);
      for (const axis of SPEND_AXES)
        account.excess[axis] += Math.max(0, usage[axis] - lease.hold[axis]);
    }
  }

  /** Books a tool call if every account allows it; says whether it did. */
  chargeToolCall(account: ReferenceAccount, nowMs: number): boolean {
    const path = pathOf(account);
    const fits = path.every(
      ({ limits, spent }) => spent.toolCalls + 1 <= (limits.toolCalls ?? Infinity),
    );
    if (!fits || isOver(account, nowMs)) return false;
    for (const one of path) one.spent.toolCalls += 1;
    return true;
  }
}

function pathOf(account: ReferenceAccount): readonly ReferenceAccount[] {
  return account.parent === undefined ? [account] : [account, ...pathOf(account.parent)];
}

/** What a call with this cap may cost at most. */
function holdOf({ inputTokens, price }: LeaseAsk, outputTokens: number): Amounts {
  const cost =
    price === undefined
      ? 0
      : inputTokens * price.inputUsdPerMillion + outputTokens * price.outputUsdPerMillion;
  const totalTokens = inputTokens + outputTokens;
  const input = { inputTokens, cachedInputTokens: inputTokens };
  return { steps: 1, totalTokens, ...input, outputTokens, costMicroUsd: cost, toolCalls: 0 };
}

/** The hold with the largest cap that the path can ever have room for, found by trying. */
function largestHold(path: readonly ReferenceAccount[], ask: LeaseAsk): Amounts {
  let cap = ask.maxOutputTokens;
  while (cap > 1 && !canEverFit(path, holdOf(ask, cap))) cap -= 1;
  return holdOf(ask, cap);
}

function canEverFit(path: readonly ReferenceAccount[], hold: Amounts): boolean {
  return path.every(({ limits, spent }) =>
    SPEND_AXES.every(
      (axis) => hold[axis] === 0 || spent[axis] + hold[axis] <= (limits[axis] ?? Infinity),
    ),
  );
}

function hasRoomNow({ limits, spent, reserved }: ReferenceAccount, hold: Amounts): boolean {
  return SPEND_AXES.every(
    (axis) =>
      hold[axis] === 0 || spent[axis] + reserved[axis] + hold[axis] <= (limits[axis] ?? Infinity),
  );
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

/** When the agent would have to end if every clock on its path went on from now. */
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
