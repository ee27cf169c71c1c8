/** Promise that a test resolves by hand. Created by `latch()`. */
export interface Latch {
  /**
   * Promise that resolves when the latch is opened. Pass it as `after` of a scripted reply, or
   * await it in a tool.
   */
  readonly opened: Promise<void>;
  /** Resolves `opened`. Has no effect the second time. */
  open(): void;
}

/**
 * Creates a closed latch. It holds a model or a tool until the test opens it, in place of a sleep.
 *
 * @example
 * ```ts
 * const gate = latch();
 * const model = new ScriptedModel([says("Done.", { after: gate.opened })]);
 * const worker = defineAgent({ name: "worker", instructions: "Work.", model });
 * const run = new Orchestrator().start(worker, "Go.");
 * await flushEventLoop(); // the run now waits for the reply
 * gate.open();
 * const { text } = await run.result;
 * ```
 */
export function latch(): Latch {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}
