// What a run costs other code in the process: how long the event loop is held up at most, and how much memory is in use.

import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";

/** Watches from now on. Call the result for the longest time in ms that nothing else could run. */
export async function longestBlock(): Promise<() => Promise<number>> {
  const histogram = monitorEventLoopDelay({ resolution: 1 });
  histogram.enable();
  await pause(10);
  histogram.reset();
  await pause(10); // The first interval after a reset is not counted.
  return async () => {
    await pause(10);
    histogram.disable();
    return histogram.max / 1e6;
  };
}

/** What is in use once all that can go has gone. The process must run with `--expose-gc`. */
export async function memoryInUse(): Promise<NodeJS.MemoryUsage> {
  const { gc } = globalThis;
  if (gc === undefined) throw new Error("Expected node --expose-gc, got a process without gc().");
  for (let round = 0; round < 3; round += 1) {
    await pause(50);
    await gc({ execution: "async" });
  }
  return process.memoryUsage();
}
