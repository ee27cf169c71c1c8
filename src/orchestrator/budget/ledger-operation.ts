// What may happen to a ledger, as plain data: kept in a journal, and done once more on a copy of the accounts after a crash. Pure.

import { invariant } from "../../kernel/assert.ts";
import type { Amounts } from "../../policies/budget.ts";
import { AmountsSchema, GrantSchema, type Account } from "../../protocol/account.ts";
import { AgentIdSchema, LeaseIdSchema, type AgentId, type LeaseId } from "../../protocol/ids.ts";
import { z } from "../../protocol/late-zod.ts";
import {
  addUsage,
  isCountable,
  NO_USAGE,
  subtractUsage,
  UsageSchema,
  type Usage,
} from "../../protocol/usage.ts";
import { joined, LedgerAccount, parted } from "./ledger-account.ts";
import { raise } from "./ledger-grant.ts";

const LeaseSchema = z.strictObject({
  leaseId: LeaseIdSchema,
  inputTokens: z.int().nonnegative(),
  maxOutputTokens: z.int().nonnegative(),
  lastStep: z
    .strictObject({ accountPath: z.string(), maximum: z.int().nonnegative() })
    .exactOptional(),
});

export const LedgerOperationSchema = z.discriminatedUnion("operation", [
  z.strictObject({
    operation: z.literal("lease"),
    agentId: AgentIdSchema,
    lease: LeaseSchema,
    hold: AmountsSchema,
    waitedMs: z.number().nonnegative(),
  }),
  z.strictObject({
    operation: z.literal("extend"),
    leaseId: LeaseIdSchema,
    hold: AmountsSchema,
  }),
  /** An attempt of the call has ended: what it used is booked, and its part of the hold goes back. The lease stays open. */
  z.strictObject({
    operation: z.literal("charge"),
    leaseId: LeaseIdSchema,
    hold: AmountsSchema,
    usage: UsageSchema.readonly(),
  }),
  /** `usage`: of the whole call, what was charged before included. */
  z.strictObject({
    operation: z.literal("settle"),
    leaseId: LeaseIdSchema,
    usage: UsageSchema.readonly(),
  }),
  z.strictObject({ operation: z.literal("release"), leaseId: LeaseIdSchema }),
  z.strictObject({ operation: z.literal("toolCall"), agentId: AgentIdSchema }),
  z.strictObject({
    operation: z.literal("grant"),
    agentId: AgentIdSchema,
    grant: GrantSchema.readonly(),
  }),
  /** The account's clock stands still from here on. */
  z.strictObject({
    operation: z.literal("stand"),
    agentId: AgentIdSchema,
    atMs: z.number(),
  }),
  /** It goes, having stood still for so long in all. */
  z.strictObject({
    operation: z.literal("goOn"),
    agentId: AgentIdSchema,
    stoodMs: z.number().nonnegative(),
  }),
]);
/** One operation of a ledger, done. */
export type LedgerOperation = Readonly<z.infer<typeof LedgerOperationSchema>>;

/** What is done to a lease while its call is under way. */
export type Booking = Extract<LedgerOperation, { readonly operation: "charge" | "extend" }>;

/** A lease that is not settled. */
export interface PersistedHold extends Omit<
  Extract<LedgerOperation, { readonly operation: "lease" }>,
  "operation"
> {
  /** What attempts of the call that have ended were charged. */
  readonly charged?: Usage;
}

/** The accounts of a ledger, as its operations leave them. */
export class LedgerCopy {
  readonly #accounts = new Map<AgentId, LedgerAccount>();
  readonly #leases = new Map<LeaseId, PersistedHold>();
  #leaseCount: number;

  constructor(accounts: readonly Account[] = [], leaseCount = 0) {
    for (const account of accounts) this.open(account);
    this.#leaseCount = leaseCount;
  }

  open(account: Account): void {
    const { agentId, parentId } = account;
    const parent = parentId === null ? undefined : this.#account(parentId);
    this.#accounts.set(agentId, new LedgerAccount(account, parent));
  }

  /** Does it once more. Throws where it does not fit what was done before. */
  redo(done: LedgerOperation): void {
    switch (done.operation) {
      case "lease": {
        const { operation: _done, ...kept } = done;
        this.#account(kept.agentId).hold(kept.hold);
        this.#leases.set(kept.lease.leaseId, kept);
        this.#leaseCount += 1;
        return;
      }
      case "extend": {
        const kept = this.#lease(done.leaseId);
        this.#account(kept.agentId).hold(done.hold);
        this.#leases.set(done.leaseId, { ...kept, hold: joined(kept.hold, done.hold) });
        return;
      }
      case "charge": {
        const kept = this.#lease(done.leaseId);
        this.#account(kept.agentId).book(done.hold, done.usage);
        const charged = addUsage(kept.charged ?? NO_USAGE, done.usage);
        const hold = parted(kept.hold, done.hold);
        this.#leases.set(done.leaseId, { ...kept, hold, charged });
        return;
      }
      case "settle": {
        const { agentId, hold, charged = NO_USAGE } = this.#take(done.leaseId);
        // Early releases kept a settlement that they could not book: that reservation stayed for good.
        const usage = isCountable(done.usage) ? done.usage : usageOfHold(hold, done.usage);
        this.#account(agentId).book(hold, subtractUsage(usage, charged));
        return;
      }
      case "release": {
        const { agentId, hold } = this.#take(done.leaseId);
        this.#account(agentId).giveBack(hold);
        return;
      }
      case "toolCall":
        this.#account(done.agentId).bookToolCall();
        return;
      case "grant":
        raise(this.#account(done.agentId), done.grant);
        return;
      case "stand":
        this.#account(done.agentId).standsSinceMs = done.atMs;
        return;
      case "goOn":
        this.#account(done.agentId).runAfter(done.stoodMs);
    }
  }

  get leaseCount(): number {
    return this.#leaseCount;
  }

  /** All accounts, parents before their children; those whose clock stands still have stood until `atMs`. */
  accounts(atMs: number): readonly Account[] {
    return Array.from(this.#accounts.values(), (account) => account.snapshotAt(atMs));
  }

  get openLeases(): readonly PersistedHold[] {
    return [...this.#leases.values()];
  }

  #account(agentId: AgentId): LedgerAccount {
    const account = this.#accounts.get(agentId);
    invariant(account !== undefined, `${agentId} has an account`);
    return account;
  }

  #lease(leaseId: LeaseId): PersistedHold {
    const kept = this.#leases.get(leaseId);
    invariant(kept !== undefined, `B2: ${leaseId} is open`);
    return kept;
  }

  #take(leaseId: LeaseId): PersistedHold {
    const kept = this.#lease(leaseId);
    this.#leases.delete(leaseId);
    return kept;
  }
}

/** What a call is charged whose reported usage cannot be booked: all that its lease holds. */
function usageOfHold(hold: Amounts, { unpricedCalls }: Usage): Usage {
  const { toolCalls: _none, ...amounts } = hold;
  return {
    ...NO_USAGE,
    ...amounts,
    cachedInputTokens: 0,
    modelCalls: 1,
    unpricedCalls,
    estimatedCalls: 1,
  };
}
