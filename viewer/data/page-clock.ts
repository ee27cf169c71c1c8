// The time of the page, and what waits for it: all else in the page takes time from here.

import { signal } from "@preact/signals";

/** The time of the server, as far as its last answer tells: the page may stand on a machine with another clock. */
let skewMs = 0;

/** Milliseconds since 1970 by the clock of the server. */
export function nowMs(): number {
  return Date.now() + skewMs;
}

/** The same, a second apart, for what is drawn: how long something has been waiting. */
export const tickMs = signal(Date.now());

setInterval(() => {
  if (!document.hidden) tickMs.value = nowMs();
}, 1000);

/** Takes the clock of the server for that of the page. */
export function setServerTime(serverMs: number): void {
  skewMs = serverMs - Date.now();
  tickMs.value = serverMs;
}

/** Calls back once, unless what is returned is called before. */
export function later(delayMs: number, callback: () => void): () => void {
  const timer = setTimeout(callback, delayMs);
  return () => clearTimeout(timer);
}

/** Resolves after the time, or at once when the signal is aborted. */
export function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const stop = later(delayMs, done);
    function done(): void {
      stop();
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done);
  });
}
