// Ledger operations on plain accounts: each creates live accounts, changes them, and returns the
// new plain accounts.

import type { BudgetRefusal, LeaseAsk, Remaining } from "../../src/budget/lease.ts";
import { BudgetAccount } from "../../src/budget/budget-account.ts";
import { decideLease, type LeaseAnswer } from "../../src/budget/lease-decision.ts";
import type { Amounts } from "../../src/policies/budget.ts";
import { parseId } from "../../src/protocol/ids.ts";
import type { LedgerAccount } from "../../src/protocol/account.ts";
import type { Usage } from "../../src/protocol/usage.ts";

/** Accounts as values: own first, root last. */
export type Path = readonly LedgerAccount[];

const leaseId = parseId<"LeaseId">("lease_1");

function liveOf([own, ...above]: Path, atMs = 0): BudgetAccount {
  if (own === undefined) throw new Error("A path has an account.");
  const parts = { clock: { nowMs: () => atMs }, watch: {}, queue: undefined, leaseCount: 0 };
  return new BudgetAccount(parts, own, above.length === 0 ? undefined : liveOf(above, atMs));
}

function valuesOf(account: BudgetAccount | undefined): Path {
  return account === undefined ? [] : [account.snapshotAt(0), ...valuesOf(account.parent)];
}

/** An account whose one lease is open, with the amounts that it holds. */
function holderOf(path: Path, hold: Amounts): BudgetAccount {
  const account = liveOf(path);
  const lease = { leaseId, inputTokens: hold.inputTokens, maxOutputTokens: hold.outputTokens };
  account.adopt({ agentId: account.agentId, lease, hold, waitedMs: 0, underWay: 1 });
  return account;
}

/** The accounts after an operation. */
function after(account: BudgetAccount, operation: (account: BudgetAccount) => void): Path {
  operation(account);
  return valuesOf(account);
}

type Reserved =
  | (Extract<LeaseAnswer, { type: "granted" }> & { readonly path: Path })
  | Exclude<LeaseAnswer, { type: "granted" }>
  | { readonly type: "wait" };

/** The operations of a ledger, each on accounts of its own. */
export const core = {
  reserve(path: Path, question: LeaseAsk, atMs: number): Reserved {
    const account = liveOf(path, atMs);
    const decision = decideLease(account, question, { nowMs: () => atMs });
    if (decision.type === "wait") return { type: "wait" };
    if (decision.type === "refused") return decision;
    account.carryOut(question, decision, 0);
    return { ...decision, path: valuesOf(account) };
  },
  settle: (path: Path, held: Amounts, usage: Usage): Path =>
    after(holderOf(path, held), (account) => account.settle({ leaseId }, usage)),
  release: (path: Path, held: Amounts): Path =>
    after(holderOf(path, held), (account) => account.release({ leaseId })),
  chargeToolCall(path: Path, atMs: number): Path | BudgetRefusal {
    const account = liveOf(path, atMs);
    return account.chargeToolCall() ?? valuesOf(account);
  },
  exhausted: (path: Path, atMs: number): BudgetRefusal | undefined =>
    liveOf(path, atMs).exhaustedForReply(),
  remaining: (path: Path, atMs: number): Remaining => liveOf(path, atMs).remaining(),
};
