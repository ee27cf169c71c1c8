// Events of a budget besides those of its agents: thresholds that were reached, and more that was granted. Events about an
// account belong to the agent whose account it is, also while that agent has settled.

import type { EventScope } from "../../protocol/event.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { ReachedThreshold } from "../budget/agent-account.ts";
import type { BudgetLedger } from "../budget/ledger.ts";
import type { BudgetGrant } from "../budget/ledger-grant.ts";
import type { EventRecorder } from "../../run-services/event-recorder.ts";
import type { RunTree } from "./run-tree.ts";

/** Records that so much of a limit is spent (X6). */
export function recordThreshold(
  { tree, recorder }: { readonly tree: RunTree; readonly recorder: EventRecorder },
  { agentId, ...reached }: ReachedThreshold,
): void {
  const owner = tree.find(agentId);
  if (owner !== undefined)
    recorder.record(scopeOutsideExecutions(owner), {
      type: "budget.threshold_reached",
      ...reached,
    });
}

/**
 * Raises limits of an agent's account; gives what records that (X7). `field` names the grant in errors.
 *
 * @throws EspalierError `invalid_option` for an axis on which the account has no limit.
 */
export function grantBudget(
  { ledger, recorder }: { readonly ledger: BudgetLedger; readonly recorder: EventRecorder },
  node: AgentRuntime,
  grant: BudgetGrant,
  field?: string,
): () => void {
  const { agentId, agentPath } = node.identity;
  const { by, budget } = ledger.grant(agentId, grant, field);
  node.time?.rearm();
  const remaining = node.account.remaining();
  return () =>
    recorder.record(scopeOutsideExecutions(node), {
      type: "budget.granted",
      accountPath: agentPath,
      budget,
      by,
      remaining,
    });
}

/** The ids of an event about the run itself, or about an account, which outlives executions: it is in none of them (L2). */
export function scopeOutsideExecutions({ identity }: AgentRuntime): EventScope {
  return { ...identity, executionId: null, stepId: null, callId: null };
}
