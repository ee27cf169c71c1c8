// The parts of a comparison of two ledgers that need no schedule.

import { isDeepStrictEqual } from "node:util";

import type { BudgetAccount } from "../../../src/budget/budget-account.ts";
import type { Lease, ReachedThreshold } from "../../../src/budget/lease.ts";
import { addUsd } from "../../../src/kernel/money.ts";
import type { BudgetLedger } from "../../../src/budget/ledger.ts";
import type { Amounts, SpendLimits } from "../../../src/policies/budget.ts";
import { LEDGER_AXES } from "../../../src/protocol/account.ts";
import type { AgentId, LeaseId } from "../../../src/protocol/ids.ts";
import { NO_USAGE, type Usage } from "../../../src/protocol/usage.ts";
import { MOST, type Operation } from "./ledger-operations.ts";
import {
  leftOf,
  openHoldOf,
  type ReferenceAnswer,
  type ReferenceLease,
  type ReferenceThreshold,
} from "./ledger-reference.ts";

/** Reports a threshold of a limit once, when it is reached (X6). */
export function matchThresholds(
  reached: readonly ReachedThreshold[],
  wanted: readonly ReferenceThreshold[],
): void {
  const told = reached.map(({ agentId: _agentId, ...one }) => shown(one));
  const expected = wanted.map(({ accountPath, axis, threshold, spent, maximum }) =>
    shown({ accountPath, axis, threshold, spent, maximum }),
  );
  if (!isDeepStrictEqual(told.toSorted(), expected.toSorted())) throw wrong(expected, told);
}

/** Expects that the remaining amount is as if the holder's lease had not been granted. */
export function matchRoomWith(
  holder: BudgetAccount,
  lease: ReferenceLease,
  leaseId: LeaseId | undefined,
  nowMs: number,
): void {
  if (leaseId === undefined) throw new Error("A lease of the reference was never granted.");
  const told = { ...holder.remainingWith({ leaseId }) };
  const expected = leftOf(lease.account, lease.account, nowMs, openHoldOf(lease));
  if (!isDeepStrictEqual(told, expected)) throw wrong(expected, told);
}

/** Expects that a granted lease equals the reference. */
export function matchLease(
  given: Lease,
  leaseId: LeaseId,
  { hold, lastStep, waiter: { extended } }: Extract<ReferenceAnswer, { readonly type: "granted" }>,
): void {
  const lease = {
    leaseId,
    inputTokens: hold.inputTokens,
    maxOutputTokens: hold.outputTokens,
    ...(lastStep === undefined ? {} : { lastStep }),
    ...(extended === undefined ? {} : { attempt: extended.parts.length }),
  };
  if (!isDeepStrictEqual(given, lease)) throw wrong(lease, given);
}

/** Returns a usage below, exactly at, or beyond the amount of a lease. */
export function usageOfLease(
  held: Amounts,
  { input, output, cached }: Readonly<Record<"input" | "output" | "cached", number>>,
): Usage {
  const inputTokens = Math.max(0, held.inputTokens + input);
  const outputTokens = Math.max(0, held.outputTokens + output);
  const cost = Math.max(0, held.costMicroUsd + input + output);
  return {
    ...NO_USAGE,
    modelCalls: 1,
    steps: held.steps,
    inputTokens,
    cachedInputTokens: Math.min(cached, inputTokens),
    outputTokens,
    totalTokens: inputTokens + outputTokens,
    costUsd: held.costMicroUsd === 0 ? 0 : cost / 1_000_000,
  };
}

export function throwsAny(action: () => unknown): boolean {
  try {
    action();
    return false;
  } catch {
    return true;
  }
}

/** Restores a ledger from its stored form: its accounts and its open leases. */
export function restoredFrom(
  ledger: BudgetLedger,
  holders: ReadonlyMap<LeaseId, AgentId>,
  fresh: BudgetLedger,
): BudgetLedger {
  const leases = [...holders].flatMap(([leaseId, agentId]) => {
    const open = ledger.getAccount(agentId).getLease(leaseId);
    if (open === undefined) return [];
    const { parts: _parts, ...stored } = open;
    return [stored];
  });
  fresh.restore(ledger.snapshot(), ledger.leaseCount, leases);
  return fresh;
}

/** Adds one booking to the usage of an account, independently of the ledger. */
export function addOwn(own: Usage, usage: Usage): Usage {
  return {
    ...own,
    modelCalls: own.modelCalls + usage.modelCalls,
    steps: own.steps + usage.steps,
    toolCalls: own.toolCalls + usage.toolCalls,
    inputTokens: own.inputTokens + usage.inputTokens,
    cachedInputTokens: own.cachedInputTokens + usage.cachedInputTokens,
    outputTokens: own.outputTokens + usage.outputTokens,
    totalTokens: own.totalTokens + usage.totalTokens,
    costUsd: addUsd(own.costUsd ?? 0, usage.costUsd ?? 0),
  };
}

export function raiseOf(
  limits: SpendLimits,
  {
    axis,
    isForeign,
    percent,
  }: Pick<Extract<Operation, { type: "grant" }>, "axis" | "isForeign" | "percent">,
): SpendLimits {
  const axes = LEDGER_AXES.filter((one) => isForeign || limits[one] !== undefined);
  const raised = axes[axis % Math.max(1, axes.length)];
  return raised === undefined ? {} : { [raised]: Math.ceil((MOST[raised] * percent) / 100) };
}

/** The total usage of a call: the charges of its earlier attempts, and the last attempt. */
export function wholeOf({ charged }: ReferenceLease, usage: Usage): Usage {
  const { costMicroUsd, ...counts } = charged;
  const whole = { ...usage, costUsd: addUsd(usage.costUsd ?? 0, costMicroUsd / 1_000_000) };
  for (const axis of LEDGER_AXES) if (axis !== "costMicroUsd") whole[axis] += counts[axis];
  return whole;
}

export function wrong(expected: unknown, got: unknown): Error {
  return new Error(`Expected ${shown(expected)}, got ${shown(got)}.`);
}

function shown(value: unknown): string {
  return JSON.stringify(value, (key, part: unknown) => (key === "parent" ? undefined : part));
}
