// What a run whose process died makes up for before its agents continue: calls that were lost are charged, requests are made again.

import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { backgroundOf } from "../../agent/agent-state.ts";
import { callUsage } from "../../agent/call-usage.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import { addUsage } from "../../protocol/usage.ts";
import type { FoldedRun } from "../durability/fold-journal.ts";
import { scopeOutsideExecutions } from "../tree/budget-events.ts";
import type { RunRuntime } from "../tree/run-runtime.ts";

/**
 * Charges model calls whose outcome is unknown, by estimate: their requests may have been sent. Releases
 * the leases of calls whose requests never left the process.
 */
export function chargeLost(run: RunRuntime, { lost, unsent }: FoldedRun): void {
  const { tree, recorder, ledger } = run;
  for (const { agentId, lease } of unsent) {
    const node = tree.find(agentId);
    if (node === undefined) continue;
    ledger.accountView(agentId).release(lease);
    recorder.record(scopeOutsideExecutions(node), {
      type: "budget.released",
      leaseId: lease.leaseId,
    });
  }
  for (const { agentId, lease, charged, underWay } of lost) {
    const node = tree.find(agentId);
    if (node === undefined) continue;
    const { model } = node;
    const abandoned = { ...callUsage(node, lease, { type: "abandoned" }), steps: 0 };
    const further = { ...abandoned, modelCalls: 0, unpricedCalls: 0 };
    let usage = charged ?? abandoned;
    // Attempts that were charged have ended. Each other one may have been sent.
    for (let nth = charged === undefined ? 2 : 1; nth <= underWay; nth += 1)
      usage = addUsage(usage, further);
    const { account } = node;
    account.settle(lease, usage);
    recorder.record(scopeOutsideExecutions(node), {
      type: "budget.settled",
      leaseId: lease.leaseId,
      usage,
      remaining: account.remaining(),
      runRemaining: account.runRemaining(),
      lostCall: { provider: model.provider, model: model.id },
    });
  }
}

/** Makes the root fail, and ends all agents below it. */
export function failRoot(root: AgentRuntime, { code, message, data }: ErrorRecord): void {
  root.cancel("The run has failed.");
  const reason = { code: "error", message, data: { ...data, error: code } };
  root.requestStop({ source: "loop", reason });
}

/** Requests to agents before their process died that they have not handled yet. */
export function reapply(
  run: RunRuntime,
  { run: restored, cancelled, overdue, stops, unknownIds }: FoldedRun,
): void {
  const { tree } = run;
  const living = (agentId: AgentId): AgentRuntime | undefined => {
    const node = tree.find(agentId);
    return node?.hasEnded === true ? undefined : node;
  };
  for (const { agentId, message } of cancelled) living(agentId)?.cancel(message);
  for (const { agentId, deadlineAtMs } of overdue) living(agentId)?.endAt(deadlineAtMs);
  for (const stop of stops) tree.stop(stop);
  for (const { agentId, inFlight } of restored.agents) {
    const node = living(agentId);
    if (node === undefined) continue;
    const { signals = [], messages = [] } = inFlight ?? {};
    for (const signal of signals) node.requestStop(signal);
    for (const text of messages) void node.openMailbox().write(text);
  }
  for (const childId of unknownIds) {
    const parent = tree.find(childId)?.parent;
    if (parent === undefined || parent.hasEnded) continue;
    // A subagent that the state of its parent names continues with the parent.
    if (!backgroundOf(parent.currentState).includes(childId))
      run.subagents.reactivate(parent, [childId]);
  }
}
