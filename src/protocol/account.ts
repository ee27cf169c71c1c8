// One agent's account in the ledger, as plain data: part of a run's result, and of a paused run that another process resumes.

import { z } from "zod";

import { AgentIdSchema } from "./ids.ts";
import { AmountSchema, UsageSchema } from "./usage.ts";

/** The axes on which amounts are spent: those of `SpendAxis`. The ledger's arithmetic does not compile unless both agree. */
const AxisSchema = z.enum([
  "steps",
  "totalTokens",
  "inputTokens",
  "cachedInputTokens",
  "outputTokens",
  "costMicroUsd",
  "toolCalls",
]);
export const AmountsSchema = z.record(AxisSchema, AmountSchema).readonly();
const LimitsSchema = z.partialRecord(AxisSchema, z.int().nonnegative()).readonly();

/** What was added to limits, as it was given. */
export const GrantedBudgetSchema = z
  .partialRecord(
    z.enum([
      "inputTokens",
      "cachedInputTokens",
      "outputTokens",
      "totalTokens",
      "costUsd",
      "steps",
      "toolCalls",
      "wallTimeMs",
    ]),
    z.number().nonnegative(),
  )
  .readonly();

export const GrantSchema = z.strictObject({
  /** Who granted it, in the words of the caller. */
  by: z.string().min(1),
  atMs: z.number(),
  budget: GrantedBudgetSchema,
});
/** More budget, given to one account while its tree ran or stood (X7). */
export type AccountGrant = Readonly<z.infer<typeof GrantSchema>>;

/** An account of the ledger, as it is stored. */
export const AccountSchema = z.strictObject({
  agentId: AgentIdSchema,
  /** Null for the root. */
  parentId: AgentIdSchema.nullable(),
  path: z.string(),
  /** Grants are in it. */
  limits: LimitsSchema,
  /** What descendants must leave of the limits: it is kept for the agent itself. */
  reserve: LimitsSchema,
  /** The oldest first. */
  grants: z.array(GrantSchema.readonly()).readonly(),
  /** No request starts at or after it, also after a wait. Never later than the parent's; null: none. */
  fixedDeadlineAtMs: z.number().nullable(),
  /** Limit of the agent's own in time, counted from `openedAtMs` without `stoodMs`; null: none. Not inherited: an ancestor's holds beside it. */
  timeLimitMs: z.number().nonnegative().nullable(),
  openedAtMs: z.number(),
  /** Time in which the agent's clock stood still: a question waited for its answer, and no work was under way below it. */
  stoodMs: z.number().nonnegative(),
  /** Spent by the agent itself. */
  own: UsageSchema.readonly(),
  /** Spent by the agent and its descendants. */
  total: UsageSchema.readonly(),
  /** Held by calls in flight. */
  reserved: AmountsSchema,
  /** What providers reported beyond a lease. */
  excess: AmountsSchema,
});
/** One agent's account. */
export type Account = Readonly<z.infer<typeof AccountSchema>>;
