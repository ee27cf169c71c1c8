/** A promise that a test opens by hand. */
export interface Latch {
  /** Resolves once it is opened: `after` of a scripted reply, or awaited by a tool. */
  readonly opened: Promise<void>;
  /** Opens it; a second time does nothing. */
  open(): void;
}

/** A latch that is shut: it holds a model or a tool up until the test opens it, in the place of a pause of some length. */
export function latch(): Latch {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}
