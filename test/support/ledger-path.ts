// The operations of a ledger on accounts that are plain values: each is done on live accounts made of them, and gives what they have become.

import type { BudgetRefusal, LeaseAsk, Remaining } from "../../src/budget/lease.ts";
import { LedgerAccount } from "../../src/budget/ledger-account.ts";
import type { ReserveOutcome } from "../../src/budget/ledger-arithmetic.ts";
import * as arithmetic from "../../src/budget/ledger-arithmetic.ts";
import type { Amounts } from "../../src/policies/budget.ts";
import type { Account } from "../../src/protocol/account.ts";
import type { Usage } from "../../src/protocol/usage.ts";

/** Accounts as values: own first, root last. */
export type Path = readonly Account[];

function liveOf([own, ...above]: Path): LedgerAccount {
  if (own === undefined) throw new Error("A path has an account.");
  return new LedgerAccount(own, above.length === 0 ? undefined : liveOf(above));
}

function valuesOf(account: LedgerAccount | undefined): Path {
  return account === undefined ? [] : [account.snapshotAt(0), ...valuesOf(account.parent)];
}

/** What an operation makes of accounts. */
function after(path: Path, operation: (account: LedgerAccount) => void): Path {
  const account = liveOf(path);
  operation(account);
  return valuesOf(account);
}

function at(atMs: number): { nowMs(): number } {
  return { nowMs: () => atMs };
}

type Reserved =
  | (Extract<ReserveOutcome, { type: "granted" }> & { readonly path: Path })
  | Exclude<ReserveOutcome, { type: "granted" }>;

/** The operations of a ledger, each on accounts of its own. */
export const core = {
  reserve(path: Path, question: LeaseAsk, atMs: number): Reserved {
    const outcome = arithmetic.reserveLease(liveOf(path), question, at(atMs));
    if (outcome.type !== "granted") return outcome;
    return { ...outcome, path: after(path, (account) => account.hold(outcome.hold)) };
  },
  settle: (path: Path, held: Amounts, usage: Usage): Path =>
    after(path, (account) => account.book(held, usage)),
  release: (path: Path, held: Amounts): Path => after(path, (account) => account.giveBack(held)),
  chargeToolCall: (path: Path, atMs: number): Path | BudgetRefusal =>
    arithmetic.toolCallRefusal(liveOf(path), at(atMs)) ??
    after(path, (account) => account.bookToolCall()),
  exhausted: (path: Path, atMs: number): BudgetRefusal | undefined =>
    arithmetic.exhausted(liveOf(path), at(atMs)),
  remaining: (path: Path, atMs: number): Remaining => arithmetic.remaining(liveOf(path), at(atMs)),
};
