// Decides requests for budget: grants, refusals and waits, over an account and the accounts above it.
// Changes nothing. Reads the clock only where time is limited. `BudgetAccount.requestLease` asks
// here. The refusal of a step's call ends the agent: phases/prepare.ts, or phases/infer.ts for a
// further attempt, turns it into a stop signal (stop-requests.ts). A refused side call is left out.
//
// B1. spent + reserved ≤ limit + excess, for every account and axis, after every operation. `excess` is
//     usage that providers reported beyond a lease. It is booked like other usage.

import type { Clock } from "../kernel/clock.ts";
import { MICRO_PER_USD } from "../kernel/money.ts";
import { computeMaxCost, computeHighestRates, type ModelPrice } from "../model/model-price.ts";
import { NO_AMOUNTS, type Amounts } from "../policies/budget.ts";
import { LEDGER_AXES, type BudgetAxis, type LedgerAxis } from "../protocol/account.ts";
import {
  findUnspentRoom,
  findTightest,
  createBudgetRefusal,
  NEW_CHILD,
  type AccountFigures,
  type Asker,
} from "./account-figures.ts";
import { findTimeRefusal, computeTimeLeft } from "./account-time.ts";
import type { BudgetRefusal, LastStep, LeaseAsk, Remaining } from "./lease.ts";

/** The clock of a ledger. */
export type Now = Pick<Clock, "nowMs">;

/** A final decision. */
export type LeaseAnswer =
  | { readonly type: "granted"; readonly hold: Amounts }
  /** The request can never fit. */
  | { readonly type: "refused"; readonly refusal: BudgetRefusal };

export type LeaseDecision =
  | LeaseAnswer
  /** The hold does not fit at `at` now, but may fit once calls in flight settle. */
  | { readonly type: "wait"; readonly hold: Amounts; readonly at: AccountFigures };

/**
 * Decides a request for a lease. Clamps the output cap to the unspent room of the path. If calls in
 * flight hold the required room, the decision is to wait.
 */
export function decideLease(account: AccountFigures, ask: LeaseAsk, clock: Now): LeaseDecision {
  const overdue = account.isTimed ? findTimeRefusal(account, clock.nowMs()) : undefined;
  if (overdue !== undefined) return { type: "refused", refusal: overdue };
  const whole = createHold(ask, Math.max(1, ask.maxOutputTokens));
  if (findLackingAccount(account, whole) === undefined) return { type: "granted", hold: whole };
  const refusal = findUnfitLimit(account, createLeastHold(ask));
  if (refusal !== undefined) return { type: "refused", refusal };
  const hold = createWantedHold(account, ask);
  const at = findLackingAccount(account, hold);
  return at === undefined ? { type: "granted", hold } : { type: "wait", hold, at };
}

/** Returns the first account on the path that lacks room beside the calls in flight. */
function findLackingAccount(account: AccountFigures, hold: Amounts): AccountFigures | undefined {
  for (let at = account.limiting; at !== undefined; at = at.parent?.limiting)
    if (hasNoRoom(account, at, hold)) return at;
  return undefined;
}

/**
 * Returns true if an account on the path lacks room for a hold of `account`, besides the calls in
 * flight.
 */
export function hasNoRoom(account: AccountFigures, at: AccountFigures, hold: Amounts): boolean {
  for (const axis of account.axes)
    if (hold[axis] > 0 && hold[axis] > findUnspentRoom(at, account, axis) - at.reserved[axis])
      return true;
  return false;
}

/** Returns the limit that can never have room for the hold. */
export function findUnfitLimit(account: AccountFigures, hold: Amounts): BudgetRefusal | undefined {
  for (const axis of account.axes) {
    const requested = hold[axis];
    const at = requested === 0 ? undefined : findTightest(account, account, axis);
    if (at !== undefined && requested > findUnspentRoom(at, account, axis))
      return createBudgetRefusal(at, { axis, requested, asker: account });
  }
  return undefined;
}

/** Returns the hold of the smallest lease for the request, with room for the shortest reply. */
export function createLeastHold(ask: LeaseAsk): Amounts {
  return createHold(ask, findLeastOutput(ask));
}

function findLeastOutput({ minOutputTokens = 1, maxOutputTokens }: LeaseAsk): number {
  return Math.max(1, Math.min(minOutputTokens, maxOutputTokens));
}

/**
 * Returns the hold with the largest output cap that the unspent room can pay for. The least hold
 * must fit.
 */
export function createWantedHold(account: AccountFigures, ask: LeaseAsk): Amounts {
  const { inputTokens, price } = ask;
  const least = findLeastOutput(ask);
  let cap = ask.maxOutputTokens;
  for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) {
    const outputRoom = findUnspentRoom(at, account, "outputTokens");
    cap = Math.min(cap, outputRoom, findUnspentRoom(at, account, "totalTokens") - inputTokens);
    if (at.limits.costMicroUsd === undefined || price === undefined) continue;
    const room = findUnspentRoom(at, account, "costMicroUsd");
    cap = clampToCost(price, inputTokens, { cap, least, room });
  }
  return createHold(ask, Math.max(least, cap));
}

/** Returns the largest cap, from the least one up, that the room can pay for. */
function clampToCost(
  price: ModelPrice,
  inputTokens: number,
  { cap: wanted, least, room }: Readonly<Record<"cap" | "least" | "room", number>>,
): number {
  const { inputUsdPerMillion, outputUsdPerMillion } = computeHighestRates(price, inputTokens);
  if (outputUsdPerMillion === 0) return wanted;
  const inputCost = inputTokens * inputUsdPerMillion;
  let cap = Math.min(wanted, Math.ceil((room - inputCost) / outputUsdPerMillion));
  while (cap > least && computeMaxCost(price, inputTokens, cap) > room) cap -= 1;
  return cap;
}

/**
 * Returns the hold of a call with an output cap. Reserves the input on both axes, because all or
 * none of the input may be cached.
 */
function createHold(ask: LeaseAsk, outputTokens: number): Amounts {
  const { inputTokens, price } = ask;
  return {
    steps: ask.steps ?? 1,
    totalTokens: inputTokens + outputTokens,
    inputTokens,
    cachedInputTokens: inputTokens,
    outputTokens,
    costMicroUsd: price === undefined ? 0 : computeMaxCost(price, inputTokens, outputTokens),
    toolCalls: 0,
  };
}

/** Returns the limit of steps that leaves the agent no step after the requested ones, reservations included. */
export function findLastStep(account: AccountFigures, count: number): LastStep | undefined {
  for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) {
    const { agentPath: accountPath, limits, reserved, reserve } = at;
    const { steps } = limits;
    if (steps === undefined || findUnspentRoom(at, account, "steps") > reserved.steps + count)
      continue;
    const reservedSteps = at === account ? 0 : (reserve.steps ?? 0);
    return { accountPath, maximum: Math.max(0, steps - reservedSteps) };
  }
  return undefined;
}

/** The axes on which a new child needs room: all that a model call reserves. */
const CHILD_AXES: readonly LedgerAxis[] = LEDGER_AXES.filter((axis) => axis !== "toolCalls");
/**
 * The axes on which a reply may exhaust a budget. If one is exhausted, no tool call of the reply
 * may start.
 */
const REPLY_AXES: readonly LedgerAxis[] = CHILD_AXES.filter((axis) => axis !== "steps");

/**
 * Returns the limit that is reached on the first of the axes of a reply, of the account with the
 * least room on it. For `NEW_CHILD`, also checks steps.
 */
export function findReachedLimit(
  account: AccountFigures,
  clock: Now,
  asker: Asker = account,
): BudgetRefusal | undefined {
  for (const axis of account.axes) {
    if (!(asker === NEW_CHILD ? CHILD_AXES : REPLY_AXES).includes(axis)) continue;
    const at = findTightest(account, asker, axis);
    if (at !== undefined && findUnspentRoom(at, asker, axis) <= 0)
      return createBudgetRefusal(at, { axis, requested: 0, asker });
  }
  return account.isTimed ? findTimeRefusal(account, clock.nowMs()) : undefined;
}

const UNLIMITED: Remaining = Object.freeze({});

/**
 * Returns for each limited axis the least room on the path minus open holds, never below zero, in
 * the units of a budget. `returned` contains amounts of open holds that count as released.
 */
export function computeRemaining(
  account: AccountFigures,
  clock: Now,
  asker: Asker = account,
  returned = NO_AMOUNTS,
): Remaining {
  const { axes, isTimed } = account;
  if (axes.length === 0 && !isTimed) return UNLIMITED;
  const left: Partial<Record<BudgetAxis, number>> = {};
  for (const axis of axes) {
    let least = Infinity;
    for (let at = account.limiting; at !== undefined; at = at.parent?.limiting)
      least = Math.min(least, findUnspentRoom(at, asker, axis) - at.reserved[axis]);
    if (axis === "costMicroUsd") left.costUsd = Math.max(0, least + returned[axis]) / MICRO_PER_USD;
    else left[axis] = Math.max(0, least + returned[axis]);
  }
  if (isTimed) left.timeMs = computeTimeLeft(account, clock.nowMs());
  return left;
}

/**
 * Returns the limits of the account that its usage exceeds. Providers may report more than a lease
 * holds.
 */
export function findOvershoots(account: AccountFigures): readonly BudgetRefusal[] {
  const passed: BudgetRefusal[] = [];
  for (const axis of account.axes)
    if (findUnspentRoom(account, account, axis) < 0)
      passed.push(createBudgetRefusal(account, { axis, requested: 0, asker: account }));
  return passed;
}
