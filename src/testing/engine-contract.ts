import { executionChecks } from "./engine-contract-execution.ts";
import type { EngineCheck } from "./engine-contract-fixture.ts";
import { waitingChecks } from "./engine-contract-waiting.ts";

export type { EngineCheck, EngineSetup } from "./engine-contract-fixture.ts";

/**
 * Returns the checks that every engine must pass, for tests of your own engine with any test
 * runner. The checks run real workers and clients with scripted models. They need no network beside
 * that of the engine and the store.
 *
 * An engine executes each enqueued run until `execute` resolves, at least once. It repeats a call
 * that rejects. A run that is enqueued during its execution is executed again.
 *
 * It executes a run not before `atMs`. A waiting run is executed at its `untilMs`, or when it is
 * enqueued.
 *
 * It hands a run only to workers that have its role in its version. It rejects with `unknown_role`
 * only for a role that no worker ever had.
 *
 * When a worker closes, the engine aborts `releaseSignal` of all its executions and waits for them.
 * The next worker gets the released runs, and those that no worker took.
 *
 * @example
 * ```ts
 * import { test } from "node:test";
 *
 * const createSetup = async (): Promise<EngineSetup> => {
 *   const store = memoryStore();
 *   return { store, createEngine: () => storeEngine(), close: () => store.close() };
 * };
 * for (const { name, run } of engineContract()) test(name, () => run(createSetup));
 * ```
 */
export function engineContract(): readonly EngineCheck[] {
  return [...executionChecks, ...waitingChecks];
}
