import { projectRunTime, runTimeLeft } from "../../src/read-model/run-row.ts";
import type { AxisAmounts, RunRow, RunTime } from "../../src/read-model/viewer-data.ts";
import { tickMs } from "../data/page-clock.ts";
import type { RunState } from "../data/run-state.ts";
import { listRests, TimeScale } from "./time-scale.ts";

export function computeElapsedMs(state: RunState): number {
  return computeTime(state.head.value).durationMs;
}

/** Returns the time of a run until now. A run that has ended does not depend on the clock. */
export function computeTime(run: RunTime): Pick<RunTime, "durationMs" | "idleMs"> {
  return projectRunTime(run, run.endedAtMs ?? tickMs.value);
}

/** Returns the time of a run in a list. `undefined` if the run was not read yet. */
export function readTime(run: Partial<RunTime>): RunTime | undefined {
  const { startedAtMs, endedAtMs, durationMs, idleMs = 0, isIdle = false } = run;
  if (startedAtMs === undefined || durationMs === undefined) return undefined;
  return { startedAtMs, endedAtMs, durationMs, idleMs, isIdle };
}

export function computeLeft(
  run: Pick<RunRow, "budget" | "remaining"> & Partial<RunTime>,
): AxisAmounts {
  const { budget = {}, remaining: left = {} } = run;
  const { timeMs: limitMs } = budget;
  const time = readTime(run);
  if (limitMs === undefined || time === undefined) return left;
  return { ...left, timeMs: runTimeLeft(limitMs, time, time.endedAtMs ?? tickMs.value) };
}

export function createScale(state: RunState): TimeScale {
  const endMs = computeElapsedMs(state);
  return new TimeScale(endMs, listRests(state.getSpans(0), endMs));
}
