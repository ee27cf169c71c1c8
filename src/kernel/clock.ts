/** Where time comes from. Everything that asks for the time or waits gets a clock, so that tests move it by hand. */
export interface Clock {
  /** Milliseconds since the epoch. */
  nowMs(): number;
  /** Calls `wake` once after `delayMs`, unless the returned function is called before. */
  setTimer(delayMs: number, wake: () => void): () => void;
}

/** What `setTimeout` can wait at once: 24.8 days. Longer waits go in stages. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/** The clock of the machine. Its timers keep the process alive only while something waits for them. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  setTimer: (delayMs, wake) => setTimer(delayMs, wake, (timer) => timer),
};

/** The same, but nothing that waits keeps the process alive. */
export const idleClock: Clock = {
  nowMs: () => Date.now(),
  setTimer: (delayMs, wake) => setTimer(delayMs, wake, (timer) => timer.unref()),
};

function setTimer(
  delayMs: number,
  wake: () => void,
  kept: (timer: NodeJS.Timeout) => NodeJS.Timeout,
): () => void {
  let timer: NodeJS.Timeout;
  const wait = (leftMs: number): void => {
    const stageMs = Math.min(leftMs, LONGEST_TIMEOUT_MS);
    timer = kept(setTimeout(() => (leftMs > stageMs ? wait(leftMs - stageMs) : wake()), stageMs));
  };
  wait(delayMs);
  return () => clearTimeout(timer);
}

/** Resolves after `delayMs`, or at once when `signal` is aborted. Never rejects: ask the signal which it was. */
export function sleep(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted || delayMs <= 0) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      stopTimer();
      signal.removeEventListener("abort", done);
      resolve();
    };
    const stopTimer = clock.setTimer(delayMs, done);
    signal.addEventListener("abort", done);
  });
}
