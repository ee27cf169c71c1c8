// How far the time of a run goes: to its end, or to now.

import { runTimeMs } from "../../src/view/run-row.ts";
import { tickMs } from "../data/page-clock.ts";
import type { RunState } from "../data/run-state.ts";
import { restsOf, TimeScale } from "./time-scale.ts";

/** Milliseconds after its start. */
export function elapsedMs(state: RunState): number {
  const run = state.head.value;
  // A run that has ended does not depend on the clock.
  return runTimeMs(run, run.endedAtMs ?? tickMs.value);
}

export function scaleOf(state: RunState): TimeScale {
  const endMs = elapsedMs(state);
  return new TimeScale(endMs, restsOf(state.spansOf(0), endMs));
}
