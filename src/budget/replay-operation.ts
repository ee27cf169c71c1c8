// Repeats recorded operations on a ledger, when a journal is read or a replay reaches a call in
// flight.

import { sameJson } from "../kernel/json.ts";
import type { BudgetAccount } from "./budget-account.ts";
import type { BudgetLedger } from "./ledger.ts";
import type { Booking, LedgerOperation } from "./ledger-operation.ts";

/** Repeats an operation of an account. Throws if it does not fit the operations before it. */
export function replayOperation(account: BudgetAccount, done: LedgerOperation): unknown {
  switch (done.operation) {
    case "lease": {
      const { operation: _operation, ...lease } = done;
      return account.openLease(lease);
    }
    case "extend":
      return account.extendLease(done.leaseId, done.hold);
    case "charge":
      return account.chargePart(done.leaseId, done.hold, done.usage);
    case "settle":
      return account.settle(done, done.usage, done.otherModels);
    case "release":
      return account.release(done);
    case "toolCall":
      return account.bookToolCall();
    case "grant":
      return account.raise(done.grant);
    case "pauseClock":
      return account.pauseClock(done.atMs);
    case "resumeClock":
      return account.resumeClockAfter(done.pausedMs);
  }
}

/**
 * Repeats an operation of a call in flight, which a replay does not execute. Does nothing if the
 * operation does not fit.
 */
export function replayInFlight(ledger: BudgetLedger, done: Booking): void {
  const { leaseId, hold } = done;
  const account = ledger.findHolder(leaseId);
  const parts = account?.getLease(leaseId)?.parts ?? [];
  if (done.operation === "extend") account?.extendLease(leaseId, hold);
  const index = parts.findIndex((part) => sameJson(part, hold));
  if (done.operation === "charge" && index !== -1)
    account?.charge({ leaseId, attempt: index + 1 }, done.usage);
}
