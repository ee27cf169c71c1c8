// The arithmetic of the ledger: what comes of an ask, and what is left, over an account and those above it. Nothing here moves a figure, and
// the clock is read only where time is limited. What a lease may hold where room is short, and refusals: tight-budget.ts. Time:
// account-time.ts.
//
// B1. spent + reserved ≤ limit + excess, for every account and axis, after every operation. `excess` is what providers reported
//     beyond a lease; it is booked, never dropped, and closes the axis to new leases.
//
// Room: what is not spent of a limit. Descendants of an account must leave its reserve; the agent itself need not (X5).

import type { BudgetRefusal, LeaseAsk, Remaining } from "./lease.ts";
import type { Clock } from "../kernel/clock.ts";
import { dearestCost } from "../model/model-price.ts";
import { NO_AMOUNTS, type Amounts } from "../policies/budget.ts";
import { type SpendAxis } from "../protocol/account.ts";
import type { Asker, LedgerAccount } from "./ledger-account.ts";
import { deadlineRefusal, timeLeft } from "./account-time.ts";
import { clampOutput, refusalOf, unfit } from "./tight-budget.ts";

/** The clock of a ledger. */
export type Now = Pick<Clock, "nowMs">;

export type ReserveOutcome =
  | { readonly type: "granted"; readonly hold: Amounts }
  /** It does not fit now, but may once calls in flight settle. */
  | { readonly type: "wait" }
  /** It can never fit. */
  | { readonly type: "refused"; readonly refusal: BudgetRefusal };

/** What is answered at once. */
export type SettledOutcome = Exclude<ReserveOutcome, { readonly type: "wait" }>;

const WAIT: ReserveOutcome = Object.freeze({ type: "wait" });

/**
 * What comes of an ask for a lease from the account and all above it. The output cap is clamped to what the tightest of them has not
 * spent; room that calls in flight hold is waited for, not clamped away.
 */
export function reserveLease(account: LedgerAccount, ask: LeaseAsk, clock: Now): ReserveOutcome {
  const overdue = account.isTimed ? deadlineRefusal(account, clock.nowMs()) : undefined;
  if (overdue !== undefined) return { type: "refused", refusal: overdue };
  const whole = holdFor(ask, Math.max(1, ask.maxOutputTokens));
  if (lackingAccount(account, whole) === undefined) return { type: "granted", hold: whole };
  const refusal = unfit(account, leastHold(ask));
  if (refusal !== undefined) return { type: "refused", refusal };
  const hold = wantedHold(account, ask);
  return lackingAccount(account, hold) === undefined ? { type: "granted", hold } : WAIT;
}

/** Returns the first account on the path that lacks room beside the calls in flight. */
export function lackingAccount(account: LedgerAccount, hold: Amounts): LedgerAccount | undefined {
  for (let at = account.limiting; at !== undefined; at = at.parent?.limiting)
    if (lacksRoom(account, at, hold)) return at;
  return undefined;
}

/** True if the account lacks room for a hold at an account on its path, beside the calls in flight. */
export function lacksRoom(account: LedgerAccount, at: LedgerAccount, hold: Amounts): boolean {
  for (const axis of account.axes)
    if (hold[axis] > 0 && hold[axis] > at.roomFor(account, axis) - at.reserved[axis]) return true;
  return false;
}

/** What a lease for the ask holds at least: with room for the smallest reply. */
export function leastHold(ask: LeaseAsk): Amounts {
  return holdFor(ask, leastOutput(ask));
}

function leastOutput({ minOutputTokens = 1, maxOutputTokens }: LeaseAsk): number {
  return Math.max(1, Math.min(minOutputTokens, maxOutputTokens));
}

/** What a lease for the ask would hold, clamped to what the path has not spent. The least hold must fit. */
export function wantedHold(account: LedgerAccount, ask: LeaseAsk): Amounts {
  return holdFor(ask, clampOutput(account, ask, leastOutput(ask)));
}

/** The limit that forbids one more tool call. */
export function toolCallRefusal(account: LedgerAccount, clock: Now): BudgetRefusal | undefined {
  const overdue = account.isTimed ? deadlineRefusal(account, clock.nowMs()) : undefined;
  if (overdue !== undefined || !account.axes.includes("toolCalls")) return overdue;
  return unfit(account, ONE_TOOL_CALL);
}

/** The axes on which a reply may exhaust a budget: once one is, nothing that the reply asks for may start (C5). */
const REPLY_AXES: readonly SpendAxis[] = [
  "totalTokens",
  "inputTokens",
  "cachedInputTokens",
  "outputTokens",
  "costMicroUsd",
];
/** Those on which a new child needs something. */
const CHILD_AXES: readonly SpendAxis[] = ["steps", ...REPLY_AXES];

/** The first axis, or the deadline, that is reached for the asker. */
export function exhausted(
  account: LedgerAccount,
  clock: Now,
  asker: Asker = account,
): BudgetRefusal | undefined {
  for (const axis of account.axes) {
    if (!(asker === null ? CHILD_AXES : REPLY_AXES).includes(axis)) continue;
    const at = account.tightest(asker, axis);
    if (at !== undefined && at.roomFor(asker, axis) <= 0)
      return refusalOf(at, { axis, asked: 0, asker });
  }
  return account.isTimed ? deadlineRefusal(account, clock.nowMs()) : undefined;
}

const UNLIMITED: Remaining = Object.freeze({});

/** On each limited axis the least room on the path, reservations but for `returned` taken off; never below zero. */
export function remaining(
  account: LedgerAccount,
  clock: Now,
  asker: Asker = account,
  returned = NO_AMOUNTS,
): Remaining {
  const { axes, isTimed } = account;
  if (axes.length === 0 && !isTimed) return UNLIMITED;
  const left: Record<string, number> = {};
  for (const axis of axes)
    left[axis] = Math.max(0, leastRoomNow(account, axis, asker) + returned[axis]);
  if (isTimed) left["wallTimeMs"] = timeLeft(account, clock.nowMs());
  return left;
}

const ONE_TOOL_CALL: Amounts = Object.freeze({ ...NO_AMOUNTS, toolCalls: 1 });

/** The hold for a call with a given output cap. All input may turn out to be cached, or none: both are held. */
function holdFor(ask: LeaseAsk, outputTokens: number): Amounts {
  const { inputTokens, price } = ask;
  return {
    steps: ask.steps ?? 1,
    totalTokens: inputTokens + outputTokens,
    inputTokens,
    cachedInputTokens: inputTokens,
    outputTokens,
    costMicroUsd: price === undefined ? 0 : dearestCost(price, inputTokens, outputTokens),
    toolCalls: 0,
  };
}

/** The least on the path of what is neither spent nor held. */
function leastRoomNow(account: LedgerAccount, axis: SpendAxis, asker: Asker): number {
  let least = Infinity;
  for (let at = account.limiting; at !== undefined; at = at.parent?.limiting)
    least = Math.min(least, at.roomFor(asker, axis) - at.reserved[axis]);
  return least;
}
