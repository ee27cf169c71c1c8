// Situations that must occur in the worlds of the tree property; otherwise their compliance proves
// little.

import type { Played } from "./tree-fixture.ts";

export const EXPECTED: readonly string[] = [
  ...["completed", "stopped", "failed", "cancelled"].map((status) => `agent ${status}`),
  ...["succeeded", "retry", "failed", "refused", "not_executed", "cancelled"].map(
    (type) => `call ${type}`,
  ),
  ...["completed", "partial", "no_output", "failed", "cancelled"].map((one) => `outcome ${one}`),
  "unknown_role",
  "unknown_subagent",
  "subagent_running",
  "subagent_ended",
  "group_decided",
  "depth_limit",
  "breadth_limit",
  "total_limit",
  "budget_exhausted",
  "setup_failed",
  "parent_stopped",
  "step_limit",
  "token_limit",
  "time_limit",
  "cost_limit",
  "tool_call_limit",
  "error_budget",
  "stop_requested",
  "depth 1",
  "depth 2",
  "depth 3",
  "subagent.continued",
  "subagent.detached",
  "message.delivered",
  "question.answered",
  "result.summarized",
  "tool.paused",
  "tool.resumed",
  "hook.applied",
  "conversation.compacted",
  "model.retried",
  "budget.refused",
  "budget.granted",
  "budget.released",
  "budget.threshold_reached",
  "removed not_allowed",
  "removed denied",
  "removed no_depth_left",
  "waited",
  "overspent",
  "more than six",
  "paused twice",
  "revived",
  "forked",
  "a written role",
  "several background",
];

/** Returns the situations that occurred in a played world. */
export function sights({ runs }: Played): readonly string[] {
  return runs.flatMap(({ events, results, origin }) => {
    const last = results.at(-1);
    const background = events.filter((event) => "isBackground" in event && event.isBackground);
    return [
      ...events.flatMap((event) => {
        const basic = [event.type, `depth ${event.depth}`];
        if (event.type === "subagent.ended") return [...basic, `outcome ${event.outcome}`];
        if (event.type !== "subagent.spawned") return basic;
        const { inherited: context, childPath } = event;
        const isWritten = childPath.includes("/draft") ? ["a written role"] : [];
        return [
          ...basic,
          ...isWritten,
          ...context.removedTools.map(({ rule }) => `removed ${rule}`),
        ];
      }),
      ...Object.keys(last?.refusalsByCode ?? {}),
      ...(last?.agents ?? []).flatMap((agent) => [
        `agent ${agent.status}`,
        agent.reason.code,
        ...(agent.budgetWaitMs > 0 ? ["waited"] : []),
        ...agent.steps.flatMap(({ tools }) => tools.executions.map(({ type }) => `call ${type}`)),
      ]),
      ...(last?.accounts.some(({ excess }) => excess.totalTokens > 0) === true
        ? ["overspent"]
        : []),
      ...((last?.agents.length ?? 0) > 6 ? ["more than six"] : []),
      ...(results.filter(({ status }) => status === "paused").length > 1 ? ["paused twice"] : []),
      ...(results.slice(0, -1).some(({ status }) => status === "stopped") ? ["revived"] : []),
      ...(origin !== undefined && events.length > 0 ? ["forked"] : []),
      ...(background.length > 2 ? ["several background"] : []),
    ];
  });
}
