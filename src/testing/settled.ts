/**
 * Lets everything run that waits neither for a latch, nor for a manual clock, nor for the world: what comes of it can be looked at then.
 * One turn of the event loop. At most 64 runs, delegations and model calls begin in a turn: after more, await it again.
 */
export function flushEventLoop(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
