// One measurement in a fresh process: `measure.ts <task>`, which is JSON. Prints what was measured as JSON.

import type { MeasuringTask } from "./workload.ts";
import { WORKLOADS } from "../workloads/workloads.ts";

interface Task extends MeasuringTask {
  /** In `WORKLOADS`. */
  readonly workload: number;
}

function isTask(value: unknown): value is Task {
  return typeof value === "object" && value !== null && "workload" in value && "sizes" in value;
}

const task: unknown = JSON.parse(process.argv[2] ?? "null");
if (!isTask(task)) throw new Error("Expected a task, which run.ts makes.");
const workload = WORKLOADS[task.workload];
if (workload === undefined) throw new Error(`Expected a workload, got ${task.workload}.`);
process.stdout.write(JSON.stringify(await workload.measure(task)));
