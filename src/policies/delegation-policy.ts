// How an agent delegates: in the fore- or background, with which part of its budget, and what one subagent's end means for the others.

import { checkBoolean, checkCount, checkKeys, mismatch } from "../kernel/check.ts";
import { deepFreeze, defined, isRecord } from "../kernel/json.ts";
import { checkBudget, type Budget } from "./budget.ts";
import { budgetShare, COMMON_POOL, type BudgetShare } from "./budget-share.ts";

/** Decides how the agents of a role delegate. Everything has a default. */
export interface DelegationPolicy {
  /**
   * Lets the model start subagents in the background, and gives it the tools to list, wait for, write to and cancel them.
   * Default false.
   */
  readonly background: boolean;
  /**
   * What becomes of subagents in the background that live when the agent has given its answer: it waits for them and reads what
   * they say (default), cancels them, or leaves them to the run. An agent that is stopped, fails or is cancelled cancels them.
   */
  readonly parentEndPolicy: "await" | "cancel" | "detach";
  /** What the end of one subagent means for those that were started by the same reply. Default `isolate`. */
  readonly failurePolicy:
    /** Nothing: each runs to its own end. */
    | "isolate"
    /** The first that does not complete cancels the others, and they are waited for. */
    | "fail_fast"
    | {
        /** Once so many have completed, or cannot any more, the others are cancelled and waited for. */
        readonly quorum: number;
      };
  /** How the budget is shared among the subagents. Default: a common pool. */
  readonly share: BudgetShare;
  /** What subagents must leave of the agent's own budget, for its last word. Default: nothing. */
  readonly reserve: Budget;
  /**
   * How often the same role may be started with the same task in one run; the next one is asked about, or
   * refused without an approver. Calls of one reply count once. Default 2.
   */
  readonly maxIdenticalDelegations: number | "unlimited";
}

export type ParentEndPolicy = DelegationPolicy["parentEndPolicy"];
export type FailurePolicy = DelegationPolicy["failurePolicy"];

const ENDS: readonly ParentEndPolicy[] = ["await", "cancel", "detach"];
const DEFAULTS: DelegationPolicy = deepFreeze({
  background: false,
  parentEndPolicy: "await",
  failurePolicy: "isolate",
  share: COMMON_POOL,
  reserve: {},
  maxIdenticalDelegations: 2,
});

/** The given policy over the defaults. Throws `invalid_option` for a field that does not exist or does not fit. */
export function delegationPolicy(
  field: string,
  given: Partial<DelegationPolicy>,
): DelegationPolicy {
  checkKeys(field, given, Object.keys(DEFAULTS));
  const policy: DelegationPolicy = { ...DEFAULTS, ...defined(given) };
  const {
    background,
    parentEndPolicy,
    failurePolicy,
    reserve,
    maxIdenticalDelegations: most,
  } = policy;
  checkBoolean(`${field}.background`, background);
  if (!ENDS.includes(parentEndPolicy))
    throw mismatch(
      `${field}.parentEndPolicy`,
      ENDS.join(", "),
      parentEndPolicy,
      "Choose one of them.",
    );
  checkFailurePolicy(`${field}.failurePolicy`, failurePolicy);
  checkReserve(`${field}.reserve`, reserve);
  const advice = 'Use "unlimited" for no limit.';
  if (most !== "unlimited") checkCount(`${field}.maxIdenticalDelegations`, most, advice);
  return deepFreeze({
    ...policy,
    failurePolicy: typeof failurePolicy === "string" ? failurePolicy : { ...failurePolicy },
    share: budgetShare(`${field}.share`, policy.share),
    reserve: { ...reserve },
  });
}

function checkFailurePolicy(field: string, failurePolicy: FailurePolicy): void {
  if (failurePolicy === "isolate" || failurePolicy === "fail_fast") return;
  if (!isRecord(failurePolicy))
    throw mismatch(field, "isolate, fail_fast or { quorum }", failurePolicy, "Choose one of them.");
  checkKeys(field, failurePolicy, ["quorum"]);
  checkCount(`${field}.quorum`, failurePolicy.quorum);
  if (failurePolicy.quorum === 0)
    throw mismatch(
      `${field}.quorum`,
      "at least 1",
      0,
      "Use at least 1: a quorum of 0 decides nothing.",
    );
}

function checkReserve(field: string, reserve: Budget): void {
  checkBudget(field, reserve);
  if (reserve.timeMs === undefined) return;
  const advice = "Leave it out: time is not shared. Set timeMs in the budgets of the subagents.";
  throw mismatch(`${field}.timeMs`, "left out", reserve.timeMs, advice);
}
