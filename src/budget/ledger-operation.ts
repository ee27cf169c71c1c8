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

export const LedgerOperationSchema = lazyUnion("operation", () => [
  z.strictObject({
    operation: z.literal("lease"),
    agentId: AgentIdSchema(),
    lease: LeaseSchema(),
    hold: AmountsSchema(),
    waitedMs: z.number().nonnegative(),
  }),
  z.strictObject({
    operation: z.literal("extend"),
    leaseId: LeaseIdSchema(),
    hold: AmountsSchema(),
  }),
  /**
   * An attempt of the call has ended: its usage is booked, and its part of the hold is released.
   * The lease stays open.
   */
  z.strictObject({
    operation: z.literal("charge"),
    leaseId: LeaseIdSchema(),
    hold: AmountsSchema(),
    usage: UsageSchema().readonly(),
  }),
  /**
   * `usage` is that of the whole call, earlier charges included. `otherModels` is the part used by
   * models other than the first.
   */
  z.strictObject({
    operation: z.literal("settle"),
    leaseId: LeaseIdSchema(),
    usage: UsageSchema().readonly(),
    otherModels: z.array(ModelUsageSchema().readonly()).readonly().exactOptional(),
  }),
  z.strictObject({ operation: z.literal("release"), leaseId: LeaseIdSchema() }),
  z.strictObject({ operation: z.literal("toolCall"), agentId: AgentIdSchema() }),
  z.strictObject({
    operation: z.literal("grant"),
    agentId: AgentIdSchema(),
    grant: GrantSchema().readonly(),
  }),
  /** The account's clock is paused. */
  z.strictObject({
    operation: z.literal("pauseClock"),
    agentId: AgentIdSchema(),
    atMs: z.number(),
  }),
  /** The account's clock is resumed. `pausedMs` is the total time for which it has been paused. */
  z.strictObject({
    operation: z.literal("resumeClock"),
    agentId: AgentIdSchema(),
    pausedMs: z.number().nonnegative(),
  }),
]);
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
