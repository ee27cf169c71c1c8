// The input of a world's caller when the run continues: answers and grants.

import type { ResumeGrant } from "../../../src/orchestrator/run/run-options.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { Budget } from "../../../src/policies/budget.ts";
import type { Account, BudgetAxis } from "../../../src/protocol/account.ts";
import {
  approve,
  deny,
  provideResult,
  provideError,
  type Answer,
  type Question,
} from "../../../src/protocol/question.ts";
import type { World } from "./tree-world.ts";

export function answerTo(question: Question, isYes: boolean): Answer {
  if (question.kind === "external")
    return isYes
      ? provideResult(question, { fetched: true })
      : provideError(question, "Not there.");
  return isYes ? approve(question) : deny(question);
}

/** Enough for another while. */
export const REVIVAL = { which: 0, amount: 4 };

/**
 * Grants more of the limited axes of one agent of the run; of a run that is to be continued, its
 * root.
 */
export function grantsOf(
  { accounts }: RunResult,
  grant: World["grants"][number] | undefined,
  isRevived: boolean,
): readonly ResumeGrant[] {
  if (grant === undefined) return [];
  const account = isRevived ? accounts[0] : accounts[grant.which % accounts.length];
  if (account === undefined) return [];
  const budget = moreOf(account, grant.amount);
  if (Object.keys(budget).length === 0) return [];
  return [{ budget, by: "world", agentPath: account.agentPath }];
}

function moreOf({ limits, timeLimitMs }: Account, amount: number): Budget {
  const budget: Partial<Record<BudgetAxis, number>> = {};
  for (const axis of SAME_AXES) if (limits[axis] !== undefined) budget[axis] = amount * 10;
  if (limits.steps !== undefined) budget.steps = amount;
  if (limits.costUsd !== undefined) budget.costUsd = amount * 0.000_1;
  if (timeLimitMs !== null) budget.timeMs = amount * 1_000;
  return budget;
}

/** Axes with the same name in a budget and on an account. */
const SAME_AXES = [
  "inputTokens",
  "cachedInputTokens",
  "outputTokens",
  "totalTokens",
  "toolCalls",
] as const;
