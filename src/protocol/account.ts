// One agent's account in the ledger, as plain data: part of a run's result, and of a paused run that another process resumes.

import { z } from "zod";

import { AgentIdSchema } from "./ids.ts";
import { UsageSchema } from "./usage.ts";

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
const AmountsSchema = z.record(AxisSchema, z.int().nonnegative()).readonly();

/** An account of the ledger, as it is stored. */
export const AccountSchema = z.strictObject({
  agentId: AgentIdSchema,
  /** Null for the root. */
  parentId: AgentIdSchema.nullable(),
  path: z.string(),
  limits: z.partialRecord(AxisSchema, z.number().nonnegative()).readonly(),
  /** No request starts at or after it, whoever waited for what. Never later than the parent's; null: none. */
  fixedDeadlineAtMs: z.number().nullable(),
  /** Limit of the agent's own in time, counted from `openedAtMs` without `stoodMs`; null: none. Not inherited: an ancestor's holds beside it. */
  timeLimitMs: z.number().nonnegative().nullable(),
  openedAtMs: z.number(),
  /** Time in which the agent's clock stood still: somebody was asked, and nothing else went on below it. */
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
