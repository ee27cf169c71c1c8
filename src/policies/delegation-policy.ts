// Rules of how an agent delegates: in the foreground or background, with which part of its budget,
// and the effect of a subagent's end on its siblings.

import {
  checkAtLeastOne,
  checkBoolean,
  checkCount,
  checkKeys,
  mismatch,
} from "../kernel/argument-checks.ts";
import { deepFreeze, omitUndefined, isRecord } from "../kernel/json.ts";
import { checkBudget, type Budget } from "./budget.ts";
import { copyBudgetShare, COMMON_POOL, type BudgetShare } from "./budget-share.ts";

/**
 * Rules of how the agents of a role delegate. A definition sets any subset of them.
 *
 * @example
 * ```ts
 * const delegation: Partial<DelegationPolicy> = {
 *   background: true,
 *   failurePolicy: { quorum: 2 },
 *   share: { type: "pool", maxShare: 0.5 },
 *   reserve: { outputTokens: 2_000 },
 * };
 * ```
 */
export interface DelegationPolicy {
  /**
   * Lets the model start subagents in the background, and adds the tools `ListSubagents`,
   * `WaitForSubagents`, `MessageSubagent` and `CancelSubagent`.
   *
   * @default false
   */
  readonly background: boolean;
  /**
   * The treatment of background subagents that still run when the agent has answered. An agent that
   * is stopped, fails or is cancelled always cancels them.
   *
   * - `"await"`: the agent waits for them and reads their results.
   * - `"cancel"`: they are cancelled.
   * - `"detach"`: they continue on their own. `run.result` does not wait for them, `run.settled`
   *   does.
   *
   * @default "await"
   *
   * @example
   * ```ts
   * const delegation: Partial<DelegationPolicy> = { background: true, parentEndPolicy: "detach" };
   * ```
   */
  readonly parentEndPolicy: "await" | "cancel" | "detach";
  /**
   * The effect of a subagent's end on the other subagents that the same reply started.
   *
   * - `"isolate"`: none. Each runs to its own end.
   * - `"fail_fast"`: the first subagent that does not complete cancels the others.
   * - `{ quorum: n }`: the others are cancelled once `n` have completed, or can no longer complete.
   *
   * @default "isolate"
   *
   * @example
   * ```ts
   * const firstAnswerWins: Partial<DelegationPolicy> = { failurePolicy: { quorum: 1 } };
   * ```
   */
  readonly failurePolicy:
    /** Each subagent runs to its own end. */
    | "isolate"
    /** The first subagent that does not complete cancels the others. */
    | "fail_fast"
    | {
        /** Number of completed subagents that decide the group. At least 1. */
        readonly quorum: number;
      };
  /**
   * The division of the remaining budget among subagents.
   *
   * @default { type: "pool" }
   *
   * @example
   * ```ts
   * const delegation: Partial<DelegationPolicy> = {
   *   share: { type: "weighted", weights: { researcher: 3, writer: 1 } },
   * };
   * ```
   */
  readonly share: BudgetShare;
  /**
   * The part of the agent's remaining budget that subagents must leave for its final answer. The
   * budget of the root includes the `budget` of `start`. An axis without a limit cannot have a
   * reserve. A reserve that reaches the limit refuses all subagents. Time cannot be reserved: set
   * `timeMs` in the `budget` of the roles of the subagents.
   *
   * @default nothing is reserved
   *
   * @example
   * ```ts
   * const lead = defineAgent({
   *   name: "lead",
   *   instructions: "Delegate the research, then write the answer.",
   *   model,
   *   subagents: [researcher],
   *   delegation: { reserve: { steps: 1, costUsd: 0.1 } },
   * });
   * orchestrator.start(lead, "What do pears cost?", { budget: { steps: 20, costUsd: 1 } });
   * ```
   */
  readonly reserve: Omit<Budget, "timeMs">;
  /**
   * Maximum number of times that one run may start the same role with the same task. The next time
   * needs an approval, and is refused without an approver. Calls of the same reply count once.
   *
   * @default 2
   */
  readonly maxIdenticalDelegations: number | "unlimited";
}

/** The treatment of background subagents that still run when their parent has answered. */
export type ParentEndPolicy = DelegationPolicy["parentEndPolicy"];
/** The effect of a subagent's end on the other subagents that the same reply started. */
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

/**
 * Returns the given policy merged over the defaults. Throws `invalid_argument` if a field is unknown
 * or invalid.
 */
export function resolveDelegationPolicy(
  field: string,
  options: Partial<DelegationPolicy>,
): DelegationPolicy {
  checkKeys(field, options, Object.keys(DEFAULTS));
  const policy: DelegationPolicy = { ...DEFAULTS, ...omitUndefined(options) };
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
    share: copyBudgetShare(`${field}.share`, policy.share),
    reserve: { ...reserve },
  });
}

function checkFailurePolicy(field: string, failurePolicy: FailurePolicy): void {
  if (failurePolicy === "isolate" || failurePolicy === "fail_fast") return;
  if (!isRecord(failurePolicy))
    throw mismatch(field, "isolate, fail_fast or { quorum }", failurePolicy, "Choose one of them.");
  checkKeys(field, failurePolicy, ["quorum"]);
  const advice = "Set how many subagents of a reply have to complete.";
  checkAtLeastOne(`${field}.quorum`, failurePolicy.quorum, advice);
}

function checkReserve(field: string, reserve: Budget): void {
  checkBudget(field, reserve);
  if (reserve.timeMs === undefined) return;
  const advice = "Leave it out: time is not shared. Set timeMs in the budgets of the subagents.";
  throw mismatch(`${field}.timeMs`, "left out", reserve.timeMs, advice);
}
