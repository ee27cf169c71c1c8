import type { Clock } from "../../src/kernel/clock.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { spyTool } from "../harness/tools.ts";

/** A tool that runs alone and keeps the process busy, and the clock on which that is seen. */
export function busyTool(busyMs: number): {
  readonly tool: ReturnType<typeof spyTool>;
  readonly options: { readonly clock: Clock };
} {
  const inner = new ManualClock();
  let lateMs = 0;
  const clock: Clock = {
    nowMs: () => inner.nowMs() + lateMs,
    monotonicMs: () => inner.monotonicMs() + lateMs,
    setTimer: (delayMs, wake) => inner.setTimer(delayMs, wake),
  };
  const work = (): void => {
    lateMs += busyMs;
  };
  return { tool: spyTool("busy", work, { sequential: true }), options: { clock } };
}
