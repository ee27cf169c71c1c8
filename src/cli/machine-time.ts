// The time of the machine, for commands that read runs.

/** Returns the wall-clock time, in milliseconds since the epoch. Heartbeats of runs use it, too. */
export function getTimeMs(): number {
  // oxlint-disable-next-line no-restricted-properties -- an adapter to the machine
  return Date.now();
}

/** Wakes once after a delay. The returned function cancels it. */
export function wakeAfter(delayMs: number, wake: () => void): () => void {
  // oxlint-disable-next-line no-restricted-globals -- an adapter to the machine
  const timer = setTimeout(wake, delayMs);
  return () => clearTimeout(timer);
}
