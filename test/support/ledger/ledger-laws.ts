// Laws that the accounts of a ledger must satisfy after every operation.

import { isDeepStrictEqual } from "node:util";

import type { BudgetAccount } from "../../../src/budget/budget-account.ts";
import type { BudgetLedger } from "../../../src/budget/ledger.ts";
import { findOvershoots } from "../../../src/budget/lease-decision.ts";
import type { LedgerAccount } from "../../../src/protocol/account.ts";
import { LEDGER_AXES, type LedgerAxis } from "../../../src/protocol/account.ts";
import { toAmounts, UsageSchema, type Usage } from "../../../src/protocol/usage.ts";
import {
  budgetAmount,
  budgetAxis,
  deadlineOf,
  findReached,
  leftOf,
  pausedMs,
  type LedgerReference,
  type ReferenceAccount,
} from "./ledger-reference.ts";

const USAGE_FIELDS = UsageSchema().keyof().options;

/** Throws at the first violation. `own` is the usage of each account itself, in opening order. */
export function checkAccounts(
  ledger: BudgetLedger,
  reference: LedgerReference,
  own: readonly Usage[],
  nowMs: number,
): void {
  const accounts = ledger.snapshot();
  const childTotals = new Map<string, Record<string, number>>();
  // Children are opened after their parents, so in reverse order every child comes before its
  // parent.
  for (const [index, account] of [...accounts.entries()].toReversed()) {
    checkLimits(account);
    const expected = reference.accounts[index];
    if (expected === undefined) throw new Error(`There is no account ${account.agentPath}.`);
    checkAgainst(account, expected);
    const stood = pausedMs(expected.time, nowMs);
    hold(account.pausedMs === stood, `stood still for ${stood} ms`, account);
    const deadlineAtMs = deadlineOf(expected, nowMs);
    const isSo = ledger.getAccount(account.agentId).deadlineAtMs() === deadlineAtMs;
    hold(isSo, `the deadline is ${String(deadlineAtMs)}`, account);
    checkRoom(ledger.getAccount(account.agentId), expected, reference.accounts[0], nowMs);
    const [used, total] = [toWholeAmounts(account.own), toWholeAmounts(account.total)];
    const below = childTotals.get(account.agentId) ?? {};
    for (const field of USAGE_FIELDS) {
      hold(account.own[field] === own[index]?.[field], `B3: own ${field}`, account);
      hold(
        total[field] === used[field] + (below[field] ?? 0),
        `B3: ${field} is own plus children's`,
        account,
      );
    }
    if (account.parentAgentId === null) continue;
    const siblings = childTotals.get(account.parentAgentId) ?? {};
    for (const field of USAGE_FIELDS) siblings[field] = (siblings[field] ?? 0) + total[field];
    childTotals.set(account.parentAgentId, siblings);
  }
}

/** Costs in whole micro-dollars. */
function toWholeAmounts(usage: Usage): Readonly<Record<keyof Usage, number>> {
  return { ...toAmounts(usage), costUsd: Math.round((usage.costUsd ?? 0) * 1_000_000) };
}

function spentOf(usage: Usage, axis: LedgerAxis): number {
  const { costUsd, ...counts } = toWholeAmounts(usage);
  return axis === "costMicroUsd" ? costUsd : counts[axis];
}

/** The remaining amounts that an agent and its new children are told. */
function checkRoom(
  account: BudgetAccount,
  expected: ReferenceAccount,
  root: ReferenceAccount | undefined,
  nowMs: number,
): void {
  const told = {
    left: { ...account.remaining() },
    leftForChildren: { ...account.remainingForChildren() },
    leftForRun: { ...account.runRemaining() },
    exhausted: account.exhaustedForReply(),
    exhaustedForChild: account.exhaustedForChild(),
    overshoots: findOvershoots(account),
  };
  const { limits, spent } = expected;
  const passed = LEDGER_AXES.filter((axis) => spent[axis] > (limits[axis] ?? Infinity));
  const wanted = {
    left: leftOf(expected, expected, nowMs),
    leftForChildren: leftOf(expected, undefined, nowMs),
    leftForRun: root === undefined ? {} : leftOf(root, root, nowMs),
    exhausted: findReached(expected, expected, nowMs),
    exhaustedForChild: findReached(expected, undefined, nowMs),
    overshoots: passed.map((axis) => ({
      axis: budgetAxis(axis),
      accountPath: expected.path,
      maximum: budgetAmount(axis, limits[axis] ?? Infinity),
      spent: budgetAmount(axis, spent[axis]),
      requested: 0,
    })),
  };
  if (!isDeepStrictEqual(told, wanted))
    throw new Error(`Expected ${JSON.stringify(wanted)}, got ${JSON.stringify(told)}.`);
}

function checkLimits(account: LedgerAccount): void {
  for (const axis of LEDGER_AXES) {
    const limit = account.limits[axis] ?? Infinity;
    const total = spentOf(account.total, axis);
    const taken = total - spentOf(account.own, axis);
    const toBeTaken = Math.max(0, limit - (account.reserve[axis] ?? 0));
    hold(
      taken <= toBeTaken + account.excess[axis],
      `X5: descendants leave the reserve on ${axis}`,
      account,
    );
    hold(
      account.reserved[axis] >= 0 && account.excess[axis] >= 0,
      `nothing below zero on ${axis}`,
      account,
    );
    hold(total + account.reserved[axis] <= limit + account.excess[axis], `B1 on ${axis}`, account);
  }
}

function checkAgainst(account: LedgerAccount, expected: ReferenceAccount): void {
  for (const axis of LEDGER_AXES) {
    hold(
      account.reserved[axis] === expected.reserved[axis],
      `reserved ${axis} is what open leases hold`,
      account,
    );
    hold(
      spentOf(account.total, axis) === expected.spent[axis],
      `spent ${axis} is what was booked`,
      account,
    );
    hold(
      account.excess[axis] === expected.excess[axis],
      `excess ${axis} is what went beyond leases`,
      account,
    );
  }
}

function hold(isSo: boolean, law: string, account: LedgerAccount): void {
  if (!isSo) throw new Error(`Broken: ${law}. ${JSON.stringify(account)}`);
}
