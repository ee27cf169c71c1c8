// How far the time of a run goes: to its end, or to now.

import { timeAt } from "../../src/view/run-time.ts";
import type { RunTime } from "../../src/view/viewer-data.ts";
import { tickMs } from "../data/page-clock.ts";
import type { RunState } from "../data/run-state.ts";
import { restsOf, TimeScale } from "./time-scale.ts";

/** Milliseconds after its start. */
export function elapsedMs(state: RunState): number {
  return timeNow(state.head.value).durationMs;
}

/** Returns the time of a run until now. A run that has ended does not depend on the clock. */
export function timeNow(run: RunTime): Pick<RunTime, "durationMs" | "restMs"> {
  return timeAt(run, run.endedAtMs ?? tickMs.value);
}

export function scaleOf(state: RunState): TimeScale {
  const endMs = elapsedMs(state);
  return new TimeScale(endMs, restsOf(state.spansOf(0), endMs));
}
