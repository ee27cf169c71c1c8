// The time of a run. Pure.

import type { RunTime } from "./viewer-data.ts";

/** Returns the time of a run at a later moment. It is the only definition of that time. */
export function timeAt(
  { startedAtMs, endedAtMs, durationMs, restMs, isResting }: RunTime,
  nowMs: number,
): Pick<RunTime, "durationMs" | "restMs"> {
  // The clock of the process that runs it may be ahead.
  const untilMs = endedAtMs ?? Math.max(startedAtMs + durationMs, nowMs);
  const laterMs = untilMs - startedAtMs - durationMs;
  return { durationMs: durationMs + laterMs, restMs: isResting ? restMs + laterMs : restMs };
}

/** Returns what is left of a limit in time at a later moment. It does not run while the run rests. */
export function runTimeLeft(limitMs: number, time: RunTime, nowMs: number): number {
  const { durationMs, restMs } = timeAt(time, nowMs);
  return Math.max(0, limitMs - (durationMs - restMs));
}
