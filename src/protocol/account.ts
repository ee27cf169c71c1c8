// One agent's account in the ledger, as plain data: part of a run's result, and of a paused run that another process resumes.

import { AgentIdSchema, type AgentId } from "./ids.ts";
import { lazyObject, lazySchema, z } from "./lazy-schema.ts";
import { ModelUsageSchema, UsageSchema, type ModelUsage, type Usage } from "./usage.ts";

/** More budget, given to one account while its tree ran or stood. */
export interface AccountGrant {
  /** Who granted it, in the words of the caller. */
  readonly by: string;
  /** When, in milliseconds since the epoch. */
  readonly atMs: number;
  /** What was added to limits, as it was given. */
  readonly budget: {
    /** Input of model calls. */
    readonly inputTokens?: number;
    /** Part of it: read from a cache. */
    readonly cachedInputTokens?: number;
    /** Output of model calls. */
    readonly outputTokens?: number;
    /** Input plus output. */
    readonly totalTokens?: number;
    /** US dollars. */
    readonly costUsd?: number;
    /** Steps. */
    readonly steps?: number;
    /** Tool calls. */
    readonly toolCalls?: number;
    /** Milliseconds. */
    readonly timeMs?: number;
  };
}

/** The axes of a budget as it is given. */
export const BUDGET_AXES = [
  "inputTokens",
  "cachedInputTokens",
  "outputTokens",
  "totalTokens",
  "costUsd",
  "steps",
  "toolCalls",
  "timeMs",
] as const satisfies readonly (keyof AccountGrant["budget"])[];

/** One agent's account. Costs are in US dollars. */
export interface Account {
  readonly agentId: AgentId;
  /** Null for the root. */
  readonly parentAgentId: AgentId | null;
  /** Place of the agent in the tree: `lead/researcher#2`. */
  readonly agentPath: string;
  /** Limited axes only. Grants are in it. */
  readonly limits: Readonly<Partial<Account["excess"]>>;
  /** What descendants must leave of the limits: it is kept for the agent itself. */
  readonly reserve: Readonly<Partial<Account["excess"]>>;
  /** The oldest first. */
  readonly grants: readonly AccountGrant[];
  /** Grants in the run from which this one was forked: the limits include them. Absent: there were none. */
  readonly grantsBeforeFork?: readonly AccountGrant[];
  /** No request starts at or after it, also after a wait. Never later than the parent's; null: none. */
  readonly fixedDeadlineAtMs: number | null;
  /** Limit of the agent's own in time, counted from `openedAtMs` without `pausedMs`; null: none. Not inherited: an ancestor's holds beside it. */
  readonly timeLimitMs: number | null;
  /** When the account was opened, in milliseconds since the epoch. */
  readonly openedAtMs: number;
  /** Time in which the agent's clock stood still: a question waited for its answer, and no work was under way below it. */
  readonly pausedMs: number;
  /** Spent by the agent itself. */
  readonly own: Usage;
  /** Part of `own`: spent on other models of a fallback than the first. Absent: there were none. */
  readonly otherModels?: readonly ModelUsage[];
  /** Spent by the agent and its descendants. */
  readonly total: Usage;
  /** Held by calls in flight. */
  readonly reserved: Account["excess"];
  /** What providers reported beyond a lease. */
  readonly excess: Readonly<
    Record<
      | "steps"
      | "totalTokens"
      | "inputTokens"
      | "cachedInputTokens"
      | "outputTokens"
      | "costUsd"
      | "toolCalls",
      number
    >
  >;
}

/** An axis on which amounts are spent and add up over the tree. */
export type SpendAxis = keyof Account["excess"];
/** An axis of a budget. */
export type BudgetAxis = SpendAxis | "timeMs";

/** All values of `LedgerAxis`. */
export const LEDGER_AXES = [
  "steps",
  "totalTokens",
  "inputTokens",
  "cachedInputTokens",
  "outputTokens",
  "costMicroUsd",
  "toolCalls",
] as const;
/** An axis in the ledger, where money is counted in whole micro-dollars, so that sums are exact. */
export type LedgerAxis = (typeof LEDGER_AXES)[number];

/** An account as the ledger counts, and as it is stored: with whole micro-dollars. */
export interface LedgerAccount extends Omit<Account, "limits" | "reserve" | "reserved" | "excess"> {
  readonly limits: Readonly<Partial<Record<LedgerAxis, number>>>;
  readonly reserve: Readonly<Partial<Record<LedgerAxis, number>>>;
  readonly reserved: Readonly<Record<LedgerAxis, number>>;
  readonly excess: Readonly<Record<LedgerAxis, number>>;
}

const AxisSchema = lazySchema(() => z.enum(LEDGER_AXES));
const LimitsSchema = lazySchema(() =>
  z.partialRecord(AxisSchema(), z.int().nonnegative()).readonly(),
);
export const AmountsSchema = lazySchema(() =>
  z.record(AxisSchema(), z.int().nonnegative()).readonly(),
);

export const GrantedBudgetSchema = lazySchema(() =>
  z.partialRecord(z.enum(BUDGET_AXES), z.number().nonnegative()).readonly(),
);

export const GrantSchema = lazyObject(() => ({
  by: z.string().min(1),
  atMs: z.number(),
  budget: GrantedBudgetSchema(),
})) satisfies () => z.ZodType<AccountGrant>;

export const AccountSchema = lazyObject(() => ({
  agentId: AgentIdSchema(),
  parentAgentId: AgentIdSchema().nullable(),
  agentPath: z.string(),
  limits: LimitsSchema(),
  reserve: LimitsSchema(),
  grants: z.array(GrantSchema().readonly()).readonly(),
  grantsBeforeFork: z.array(GrantSchema().readonly()).readonly().exactOptional(),
  fixedDeadlineAtMs: z.number().nullable(),
  timeLimitMs: z.number().nonnegative().nullable(),
  openedAtMs: z.number(),
  pausedMs: z.number().nonnegative(),
  own: UsageSchema().readonly(),
  otherModels: z.array(ModelUsageSchema().readonly()).readonly().exactOptional(),
  total: UsageSchema().readonly(),
  reserved: AmountsSchema(),
  excess: AmountsSchema(),
})) satisfies () => z.ZodType<LedgerAccount>;

/** The first limit on a path that leaves no room for a request. Amounts are in the units of a budget. */
export const RefusalSchema = lazyObject(() => ({
  axis: z.enum(BUDGET_AXES),
  /** The agent whose budget it is. */
  accountPath: z.string(),
  maximum: z.number(),
  spent: z.number(),
  requested: z.number(),
  /** The part of the rest that this agent keeps for itself. */
  reserve: z.number().exactOptional(),
}));
