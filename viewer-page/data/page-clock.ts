// The clock of the page, and timers. All other files use this clock.

import { signal } from "@preact/signals";

/** Difference between the clocks of server and page, from the last response of the server. */
let skewMs = 0;

/** Returns the time by the clock of the server, in milliseconds since the epoch. */
export function nowMs(): number {
  return Date.now() + skewMs;
}

/** Current time, updated once a second, for rendering elapsed times. */
export const tickMs = signal(Date.now());

setInterval(() => {
  if (!document.hidden) tickMs.value = nowMs();
}, 1000);

/** Adjusts the clock of the page to that of the server. */
export function setServerTime(serverMs: number): void {
  skewMs = serverMs - Date.now();
  tickMs.value = serverMs;
}

/** Calls back once. The returned function cancels the timer. */
export function startTimer(delayMs: number, callback: () => void): () => void {
  const timer = setTimeout(callback, delayMs);
  return () => clearTimeout(timer);
}

/** Resolves after the delay, or at once when the signal is aborted. */
export function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const stop = startTimer(delayMs, finish);
    function finish(): void {
      stop();
      signal.removeEventListener("abort", finish);
      resolve();
    }
    signal.addEventListener("abort", finish);
  });
}
