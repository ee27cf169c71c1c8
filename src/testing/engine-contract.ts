import { leadingChecks } from "./engine-contract-leading.ts";
import type { EngineCheck } from "./engine-contract-fixture.ts";
import { waitingChecks } from "./engine-contract-waiting.ts";

export type { EngineCheck, EngineSetup } from "./engine-contract-fixture.ts";

/**
 * What every engine promises to clients and workers, as checks that any test runner can run: for engines of your own.
 * `for (const { name, run } of engineContract()) test(name, () => run(() => makeMyPlace()));`
 *
 * A place is what the processes of a check share: `store`, in which nothing is kept yet, and `engine()`, which gives an engine of its own each
 * time. Workers and clients are those of `orchestrator.work` and `RunClient`, with models that are scripted; nothing of it needs a network
 * but the engine and the store. An engine of your own
 *
 * - leads each run that it got by `lead` until `settle` resolves, at least once: it repeats what rejects, and a `lead` during a `settle`
 *   counts as one after it;
 * - leads a run at `atMs` and not before, also where `settle` gives a time until which a run waits;
 * - hands a run only to workers that have its role in its version, and refuses with `unknown_role` at most what no worker ever had;
 * - aborts `releaseSignal` of all that is led when a worker closes, and waits for it; what was left, and what no worker took, is led by the next worker.
 */
export function engineContract(): readonly EngineCheck[] {
  return [...leadingChecks, ...waitingChecks];
}
