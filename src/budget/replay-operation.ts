// Repeats recorded operations on a ledger, when a journal is read or a replay reaches a call in
// flight.

import { sameJson } from "../kernel/json.ts";
import type { BudgetAccount } from "./budget-account.ts";
import type { BudgetLedger } from "./ledger.ts";
import type { Booking, LedgerOperation } from "./ledger-operation.ts";

/** Repeats an operation of an account. Throws if it does not fit the operations before it. */
export function replayOperation(account: BudgetAccount, done: LedgerOperation): void {
  switch (done.operation) {
    case "lease": {
      const { operation: _operation, ...lease } = done;
      account.openLease(lease);
      return;
    }
    case "extend":
      account.extendLease(done.leaseId, done.hold);
      return;
    case "charge":
      account.chargePart(done.leaseId, done.hold, done.usage);
      return;
    case "settle":
      account.settle(done, done.usage, done.otherModels);
      return;
    case "release":
      account.release(done);
      return;
    case "toolCall":
      account.bookToolCall();
      return;
    case "grant":
      account.raise(done.grant);
      return;
    case "pauseClock":
      account.pauseClock(done.atMs);
      return;
    case "resumeClock":
      account.resumeClockAfter(done.pausedMs);
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
