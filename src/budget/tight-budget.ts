// Where the room of a budget is short: what a lease may still hold, and the refusal that says which limit forbids it. Pure.

import type { BudgetRefusal, LastStep, LeaseAsk } from "./lease.ts";
import { dearestCost, heldRates, type ModelPrice } from "../model/model-price.ts";
import type { Amounts } from "../policies/budget.ts";
import type { SpendAxis } from "../protocol/account.ts";
import type { Asker, LedgerAccount } from "./ledger-account.ts";

/** The account whose budget of steps leaves the agent none after these, reservations taken off; undefined: there is none. */
export function lastStep(account: LedgerAccount, asked: number): LastStep | undefined {
  for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) {
    const { path: accountPath, limits, reserved } = at;
    const { steps } = limits;
    if (steps === undefined || at.roomFor(account, "steps") > reserved.steps + asked) continue;
    return { accountPath, maximum: Math.max(0, steps - at.keptFrom(account, "steps")) };
  }
  return undefined;
}

/** The largest output cap, up to the one asked for, for which the path will have room. The least cap is known to fit. */
export function clampOutput(account: LedgerAccount, ask: LeaseAsk, least: number): number {
  let cap = ask.maxOutputTokens;
  for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) {
    cap = Math.min(
      cap,
      at.roomFor(account, "outputTokens"),
      at.roomFor(account, "totalTokens") - ask.inputTokens,
    );
    if (at.limits.costMicroUsd !== undefined && ask.price !== undefined)
      cap = payable(ask, ask.price, { cap, least, room: at.roomFor(account, "costMicroUsd") });
  }
  return Math.max(least, cap);
}

/** The largest cap down to the least one that the room can pay. */
function payable(
  ask: LeaseAsk,
  price: ModelPrice,
  { cap: wanted, least, room }: Readonly<Record<"cap" | "least" | "room", number>>,
): number {
  const { inputUsdPerMillion, outputUsdPerMillion } = heldRates(price, ask.inputTokens);
  if (outputUsdPerMillion === 0) return wanted;
  const inputCost = ask.inputTokens * inputUsdPerMillion;
  let cap = Math.min(wanted, Math.ceil((room - inputCost) / outputUsdPerMillion));
  while (cap > least && dearestCost(price, ask.inputTokens, cap) > room) cap -= 1;
  return cap;
}

/** The limit that can never have room for the hold. */
export function unfit(account: LedgerAccount, hold: Amounts): BudgetRefusal | undefined {
  for (const axis of account.axes) {
    const asked = hold[axis];
    const at = asked === 0 ? undefined : account.tightest(account, axis);
    if (at !== undefined && asked > at.roomFor(account, axis))
      return refusalOf(at, { axis, asked, asker: account });
  }
  return undefined;
}

interface Shortage {
  readonly axis: SpendAxis;
  readonly asked: number;
  readonly asker: Asker;
}

/** The refusal in the name of an account; what it keeps for its own agent is named apart from what is spent. */
export function refusalOf(at: LedgerAccount, { axis, asked, asker }: Shortage): BudgetRefusal {
  const { path: accountPath, limits } = at;
  const [maximum, spent] = [limits[axis] ?? Infinity, at.spentOf(axis)];
  const kept = Math.min(at.keptFrom(asker, axis), Math.max(0, maximum - spent));
  return { axis, accountPath, maximum, spent, asked, ...(kept > 0 ? { kept } : {}) };
}
