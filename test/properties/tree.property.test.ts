// Goal: the laws of a tree hold whatever its models, tools, watchers and callers do, and whenever
// they do it.
// Method: random worlds (trees, budgets, limits, scripts) with faults at every effect and moments
// from outside; each is played to its end and then judged by laws that know nothing of how it came
// about. See tree-world.ts, tree-stage.ts and tree-laws.ts.

import { assert, asyncProperty } from "fast-check";
import { expect, vi } from "vitest";

import { proves } from "../harness/proves.ts";
import { takeWarnings } from "../harness/set-up.ts";
import { checkLaws } from "./tree-laws.ts";
import { play, type Played } from "./tree-stage.ts";
import { worlds } from "./tree-world.ts";

const RUNS = 2_000;

vi.setConfig({ testTimeout: 120_000 });

// The laws: T1, T2, T3, T5, L2, L3, L4, B1, B2, B3, B4, S1, S3, and X18.
proves(["X1", "X18", "R18"], "every tree keeps the laws, whatever is done to it", async () => {
  const seen = new Set<string>();
  await assert(
    asyncProperty(worlds(), async (world) => {
      const played = await play(world);
      checkLaws(world, played);
      for (const sight of sights(played)) seen.add(sight);
    }),
    { numRuns: RUNS },
  );
  const strangers = takeWarnings().filter((warning) => !warning.startsWith("EspalierWarning: "));
  expect(strangers).toEqual([]);
  const unseen = EXPECTED.filter((sight) => !seen.has(sight));
  expect(unseen, "what two thousand worlds never showed").toEqual([]);
});

/** What the worlds must come across: else their laws say little. */
const EXPECTED: readonly string[] = [
  ...["completed", "stopped", "failed", "cancelled"].map((status) => `agent ${status}`),
  ...["succeeded", "retry", "failed", "refused", "not_executed", "cancelled"].map(
    (type) => `call ${type}`,
  ),
  "unknown_role",
  "depth_limit",
  "breadth_limit",
  "total_limit",
  "budget_exhausted",
  "setup_failed",
  "steps_limit",
  "token_limit",
  "time_limit",
  "cost_limit",
  "tool_calls_limit",
  "retry_limit",
  "error_budget",
  "stop_requested",
  "depth 1",
  "depth 2",
  "depth 3",
  "model.retried",
  "budget.denied",
  "waited",
  "overspent",
  "more than six",
];

function sights({ result, events }: Played): readonly string[] {
  return [
    ...events.map((event) => event.type),
    ...events.map((event) => `depth ${event.depth}`),
    ...Object.keys(result.refusalsByCode),
    ...result.agents.flatMap((agent) => [
      `agent ${agent.status}`,
      agent.reason.code,
      ...(agent.waitedMs > 0 ? ["waited"] : []),
      ...agent.steps.flatMap((step) => step.tools.executions.map(({ type }) => `call ${type}`)),
    ]),
    ...(result.accounts.some((account) => account.excess.totalTokens > 0) ? ["overspent"] : []),
    ...(result.agents.length > 6 ? ["more than six"] : []),
  ];
}
