// waiters: what 10,000 subagents cost that wait for their budget at once, beside as many for which there is room. Models in the same
// process answer in the next turn; about fifty calls have room at a time.

import { ESPALIER, within, type Workload } from "../harness/workload.ts";

/** `root`: one limit over all. `subtrees`: a limit for each hundred. */
export type LimitAt = "root" | "subtrees";

function waitersWorkload(limitAt: LimitAt, title: string): Workload {
  return {
    id: "waiters",
    title: `10,000 subagents that wait for budget: ${title}`,
    contenders: [ESPALIER],
    measure: async ({ sizes }) => {
      const { waiterFigures } = await import("./waiters-runs.ts");
      return { figures: await waiterFigures(limitAt, sizes.largeTree) };
    },
    rows: [
      within(
        { figure: "CPU per subagent; ratio to one that has room", unit: "µs", of: "waitingUs" },
        ESPALIER,
        "freeUs",
      ),
    ],
  };
}

export const WAITERS_WORKLOADS: readonly Workload[] = [
  waitersWorkload("root", "one limit at the root"),
  waitersWorkload("subtrees", "a hundred limits, one over each hundred"),
];
