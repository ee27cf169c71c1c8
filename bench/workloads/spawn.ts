// spawn: what a subagent costs from its creation to its settlement, one model call included, with models in the same process and a budget
// over the whole tree.

import {
  alone,
  ESPALIER,
  within,
  type Measured,
  type MeasuringTask,
  type Variant,
  type Workload,
} from "../harness/workload.ts";

const UNTRACED = "espalier, untraced";

/** `hundreds`: one root, replies of 100 delegations. `once`: one root, all in one reply. `tens`: ten subagents below every agent. */
export type Shape = "hundreds" | "once" | "tens";

function spawnWorkload(shape: Shape, title: string, contenders: readonly Variant[]): Workload {
  // The limits are those of one shape; the others are there to be compared with it.
  const limits = shape === "hundreds";
  return {
    id: "spawn",
    title: `10,000 subagents: ${title}`,
    contenders,
    measure: (task) => measureTree(shape, task),
    rows: [
      ...contenders.map((contender) => {
        const isTraced = contender === ESPALIER;
        const kind = isTraced ? "traced" : "untraced";
        const limit = isTraced ? "≤ 120 µs" : "≤ 60 µs";
        return within(
          {
            figure: `CPU per spawn, ${kind}; ratio to trees of 100`,
            unit: "µs",
            of: "largeUs",
            ...(limits ? { limit } : {}),
          },
          contender,
          "smallUs",
        );
      }),
      alone({
        figure: "longest block",
        unit: "ms",
        of: "blockMs",
        ...(limits ? { limit: "≤ 60 ms" } : {}),
      }),
      alone({ figure: "heap afterwards, beyond that before", unit: "MB", of: "heapMb" }),
    ],
  };
}

async function measureTree(shape: Shape, task: MeasuringTask): Promise<Measured> {
  const { spawnFigures } = await import("./spawn-runs.ts");
  return await spawnFigures(shape, task);
}

export const SPAWN_WORKLOADS: readonly Workload[] = [
  spawnWorkload("hundreds", "one root, replies of 100 delegations", [UNTRACED, ESPALIER]),
  spawnWorkload("once", "one root, all in one reply", [ESPALIER]),
  spawnWorkload("tens", "ten below every agent", [ESPALIER]),
];
