// Budget account of an agent as plain data. Part of run results, and of paused runs that another
// process resumes.
//
// To add an axis (a limit of a new amount), begin with `BUDGET_AXES` and `LEDGER_AXES` below, the
// public types that write the axes out for the reference (here and in policies/budget.ts), and the
// field of `Usage` (protocol/usage.ts) that measures it. The compiler then names every table
// without it. It does not name these:
// - what measures it: if models report it, `TokenUsage` (model/token-usage.ts), its schemas
//   (model/check-reply.ts and agent/effect-outcomes.ts) and the adapters (model/wire-json.ts and its
//   callers); otherwise an operation such as `chargeToolCall` in budget/budget-account.ts, and its
//   event in read-model/budget-use.ts;
// - what reserves it: `LeaseAsk` and `Lease` in budget/, and model/count-tokens.ts;
// - the output cap: `createWantedHold` in budget/lease-decision.ts, if it grows with the reply;
// - `CHILD_AXES` and `REPLY_AXES` there, if a model call can do without it;
// - its unit: `checkBudget` and `toSpendAmount` in policies/budget.ts, unless it is a whole number;
// - a stop code of its own: `STOP_CODES` in protocol/stop.ts and `GRANTS` in cli/amount-options.ts;
// - the option of the command: cli/amount-options.ts, cli/command-tree.ts, kernel/option-names.json;
// - the places that show usage: terminal/report.ts, cli/agent-text.ts, telemetry/metrics,
//   `setUsage` in telemetry/spans, and viewer-page/agent;
// - records of earlier runs, which lack it: give it a default in `AmountsSchema` and `UsageSchema`.

import { AgentIdSchema, type AgentId } from "./ids.ts";
import { lazyObject, lazySchema, z } from "./lazy-schema.ts";
import { ModelUsageSchema, UsageSchema, type ModelUsage, type Usage } from "./usage.ts";

/**
 * Increase of an account's limits, granted during a run or a pause.
 *
 * @example
 * ```ts
 * for (const { agentPath, grants } of result.accounts)
 *   for (const { by, budget } of grants) console.log(`${by} granted ${agentPath}`, budget);
 * ```
 */
export interface AccountGrant {
  /** Name of the grantor, as the caller passed it. */
  readonly by: string;
  /** Time of the grant, in milliseconds since the epoch. */
  readonly atMs: number;
  /** Added budget by axis. */
  readonly budget: {
    /** Input tokens. */
    readonly inputTokens?: number;
    /** Input tokens read from a cache. Part of `inputTokens`. */
    readonly cachedInputTokens?: number;
    /** Output tokens. */
    readonly outputTokens?: number;
    /** Sum of input and output tokens. */
    readonly totalTokens?: number;
    /** Cost in US dollars. */
    readonly costUsd?: number;
    /** Number of steps. */
    readonly steps?: number;
    /** Number of tool calls. */
    readonly toolCalls?: number;
    /** Time in milliseconds. */
    readonly timeMs?: number;
  };
}

/** The axes of a budget, as users define it. */
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
/** An axis of a budget. */
export type BudgetAxis = (typeof BUDGET_AXES)[number];
/** An axis on which amounts are spent and add up over the tree. */
export type SpendAxis = Exclude<BudgetAxis, "timeMs">;

/**
 * Budget account of an agent: its limits and the usage of its subtree. Costs are in US dollars.
 *
 * @example
 * ```ts
 * for (const { agentPath, limits, total } of result.accounts)
 *   console.log(agentPath, `${total.costUsd ?? "?"} of ${limits.costUsd ?? "unlimited"} USD`);
 * ```
 */
export interface Account {
  /** Id of the agent. */
  readonly agentId: AgentId;
  /** Id of the parent agent. `null` for the root. */
  readonly parentAgentId: AgentId | null;
  /** Path of the agent in the tree, such as `lead/researcher#2`. */
  readonly agentPath: string;
  /** Limits of the account by axis, including grants. Contains limited axes only. */
  readonly limits: Readonly<Partial<Account["excess"]>>;
  /** Part of the limits that descendants must leave for the agent's own answer. */
  readonly reserve: Readonly<Partial<Account["excess"]>>;
  /** Grants, oldest first. */
  readonly grants: readonly AccountGrant[];
  /**
   * Grants of the run from which this one was forked. `limits` includes them. Absent without such
   * grants.
   */
  readonly grantsBeforeFork?: readonly AccountGrant[];
  /**
   * Deadline after which no request starts, in milliseconds since the epoch. Never later than the
   * parent's. `null` without a deadline.
   */
  readonly fixedDeadlineAtMs: number | null;
  /**
   * Time limit of the agent in milliseconds since `openedAtMs`, without `pausedMs`. `null` without
   * a time limit. Ancestors' time limits apply as well.
   */
  readonly timeLimitMs: number | null;
  /** Opening time of the account, in milliseconds since the epoch. */
  readonly openedAtMs: number;
  /**
   * Milliseconds that do not count against the time limit: a question was open and nothing else
   * worked below it.
   */
  readonly pausedMs: number;
  /** Usage of the agent itself. */
  readonly own: Usage;
  /**
   * Part of `own` by fallback models, without the first model. Absent if only the first model was
   * used.
   */
  readonly otherModels?: readonly ModelUsage[];
  /** Usage of the agent and its descendants. */
  readonly total: Usage;
  /** Amounts reserved by calls in flight. */
  readonly reserved: Account["excess"];
  /** Amounts that providers reported beyond the reservations. */
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
/** An axis in the ledger, which counts money in whole micro-dollars, so that sums are exact. */
export type LedgerAxis = (typeof LEDGER_AXES)[number];

/** An account in the units of the ledger, as it is stored: with whole micro-dollars. */
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

/** Amounts by budget axis, in the units of `Budget`. */
export const BudgetAmountsSchema = lazySchema(() =>
  z.partialRecord(z.enum(BUDGET_AXES), z.number()).readonly(),
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

/**
 * The first axis on which a request does not fit, and the account with the least room on it.
 * Amounts are in the units of a budget.
 */
export const RefusalSchema = lazyObject(() => ({
  axis: z.enum(BUDGET_AXES),
  /** The agent that has the limit. */
  accountPath: z.string(),
  maximum: z.number(),
  spent: z.number(),
  /** The least amount that the call needs on this axis, with the shortest reply. 0 for time. */
  requested: z.number(),
  /** The part of the remaining budget that this agent keeps for itself. */
  reserve: z.number().exactOptional(),
}));
