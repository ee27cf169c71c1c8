// flat: whether a run costs the same when a thousand of them run at once, and a step the same after two thousand others; models in the
// same process, tracing as it comes. The trees of the spawn workload say the same of agents.

import { alone, ESPALIER, within, type Workload } from "../harness/workload.ts";

export const FLAT: Workload = {
  id: "flat",
  title: "1,000 runs at once, an agent of 2,000 steps",
  contenders: [ESPALIER],
  measure: async (task) => {
    const { flatFigures } = await import("./flat-runs.ts");
    return await flatFigures(task);
  },
  rows: [
    within(
      {
        figure: "CPU per run, 1,000 at once; ratio to ten at once",
        unit: "µs",
        of: "manyUs",
        limit: "ratio ≤ 1.15",
      },
      ESPALIER,
      "fewUs",
    ),
    within(
      {
        figure: "CPU per step, of 2,000; ratio to agents of 100",
        unit: "µs",
        of: "longUs",
        limit: "ratio ≤ 1.15",
      },
      ESPALIER,
      "shortUs",
    ),
    alone({ figure: "longest block", unit: "ms", of: "blockMs", limit: "≤ 60 ms" }),
    alone({ figure: "heap afterwards, beyond that before", unit: "MB", of: "heapMb" }),
  ],
};
