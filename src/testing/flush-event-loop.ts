/**
 * Waits for one turn of the event loop. All work that waits neither for a latch, a manual clock nor
 * I/O has then run.
 *
 * At most 64 runs, delegations and model calls begin in one turn. Await it again if a test starts
 * more.
 *
 * @example
 * ```ts
 * const clock = new ManualClock();
 * const run = new Orchestrator({ clock }).start(role, "What do pears cost?");
 * await flushEventLoop();
 * clock.advance(60_000);
 * await flushEventLoop();
 * ```
 */
export function flushEventLoop(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
