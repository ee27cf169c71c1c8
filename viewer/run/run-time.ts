import { projectRunTime, runTimeLeft } from "../../src/view/run-row.ts";
import type { AxisAmounts, RunRow, RunTime } from "../../src/view/viewer-data.ts";
import { tickMs } from "../data/page-clock.ts";
import type { RunState } from "../data/run-state.ts";
import { restsOf, TimeScale } from "./time-scale.ts";

export function elapsedMs(state: RunState): number {
  return timeNow(state.head.value).durationMs;
}

/** Returns the time of a run until now. A run that has ended does not depend on the clock. */
export function timeNow(run: RunTime): Pick<RunTime, "durationMs" | "idleMs"> {
  return projectRunTime(run, run.endedAtMs ?? tickMs.value);
}

/** Returns the time of a run in a list. `undefined` if the run was not read yet. */
export function timeIn(run: Partial<RunTime>): RunTime | undefined {
  const { startedAtMs, endedAtMs, durationMs, idleMs = 0, isIdle = false } = run;
  if (startedAtMs === undefined || durationMs === undefined) return undefined;
  return { startedAtMs, endedAtMs, durationMs, idleMs, isIdle };
}

export function leftNow(run: Pick<RunRow, "budget" | "remaining"> & Partial<RunTime>): AxisAmounts {
  const { budget = {}, remaining: left = {} } = run;
  const { timeMs: limitMs } = budget;
  const time = timeIn(run);
  if (limitMs === undefined || time === undefined) return left;
  return { ...left, timeMs: runTimeLeft(limitMs, time, time.endedAtMs ?? tickMs.value) };
}

export function scaleOf(state: RunState): TimeScale {
  const endMs = elapsedMs(state);
  return new TimeScale(endMs, restsOf(state.spansOf(0), endMs));
}
