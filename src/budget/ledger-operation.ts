// Operations of a ledger as plain data: recorded in a journal, and repeated after a crash.

import type { Amounts } from "../policies/budget.ts";
import { AmountsSchema, GrantSchema } from "../protocol/account.ts";
import { AgentIdSchema, LeaseIdSchema } from "../protocol/ids.ts";
import { lazyObject, lazyUnion, z } from "../protocol/lazy-schema.ts";
import { ModelUsageSchema, UsageSchema, type Usage } from "../protocol/usage.ts";

const LeaseSchema = lazyObject(() => ({
  leaseId: LeaseIdSchema(),
  inputTokens: z.int().nonnegative(),
  maxOutputTokens: z.int().nonnegative(),
  lastStep: z
    .strictObject({ accountPath: z.string(), maximum: z.int().nonnegative() })
    .exactOptional(),
}));

/** Creates the schema of one operation. */
function defineOperation<Name extends string, Shape extends z.core.$ZodLooseShape>(
  operation: Name,
  shape: Shape,
) {
  return z.strictObject({ operation: z.literal(operation), ...shape });
}

export const LedgerOperationSchema = lazyUnion("operation", () => {
  const [agentId, leaseId] = [AgentIdSchema(), LeaseIdSchema()];
  const [hold, usage] = [AmountsSchema(), UsageSchema().readonly()];
  const otherModels = z.array(ModelUsageSchema().readonly()).readonly().exactOptional();
  const waitedMs = z.number().nonnegative();
  return [
    defineOperation("lease", { agentId, lease: LeaseSchema(), hold, waitedMs }),
    defineOperation("extend", { leaseId, hold }),
    /**
     * An attempt of the call has ended: its usage is booked, and its part of the hold is released.
     * The lease stays open.
     */
    defineOperation("charge", { leaseId, hold, usage }),
    /**
     * `usage` is that of the whole call, earlier charges included. `otherModels` is the part used
     * by models other than the first.
     */
    defineOperation("settle", { leaseId, usage, otherModels }),
    defineOperation("release", { leaseId }),
    defineOperation("toolCall", { agentId }),
    defineOperation("grant", { agentId, grant: GrantSchema().readonly() }),
    /** The account's clock is paused. */
    defineOperation("pauseClock", { agentId, atMs: z.number() }),
    /** The account's clock is resumed. `pausedMs` is the total time for which it was paused. */
    defineOperation("resumeClock", { agentId, pausedMs: z.number().nonnegative() }),
  ];
});
/** Completed operation of a ledger. */
export type LedgerOperation = Readonly<z.infer<ReturnType<typeof LedgerOperationSchema>>>;

/** Operation on a lease while its call is in progress. */
export type Booking = Extract<LedgerOperation, { readonly operation: "charge" | "extend" }>;

/** A lease that is not settled. */
export interface PersistedHold extends Omit<
  Extract<LedgerOperation, { readonly operation: "lease" }>,
  "operation"
> {
  /** Usage that was charged for ended attempts of the call. */
  readonly charged?: Usage;
  /** Attempts of the call that are not charged yet. Hooks may run several at once. */
  readonly underWay: number;
}

/** Lease of a live account. */
export interface OpenLease extends PersistedHold {
  /** Amounts that the lease holds now. */
  hold: Amounts;
  charged?: Usage;
  underWay: number;
  /**
   * Part of the hold for each attempt of the call, in order. Zero amounts once the attempt has
   * ended.
   */
  readonly parts: Amounts[];
}
