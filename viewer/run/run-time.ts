// How far the time of a run goes: to its end, or to now.

import { tickMs } from "../data/page-clock.ts";
import type { RunState } from "../data/run-state.ts";
import { restsOf, TimeScale } from "./time-scale.ts";

/** Milliseconds after its start. */
export function elapsedMs(state: RunState): number {
  const { startedAtMs, endedAtMs, lastAtMs } = state.head.value;
  return (endedAtMs ?? Math.max(lastAtMs, tickMs.value)) - startedAtMs;
}

export function scaleOf(state: RunState): TimeScale {
  const endMs = elapsedMs(state);
  return new TimeScale(endMs, restsOf(state.spansOf(0), endMs));
}
