// How a run at rest is resumed: by the paused run that it left.

import type { Answer } from "../../protocol/question.ts";
import { alreadyResumed, resumedJournal } from "../durability/open-journal.ts";
import type { PausedRun } from "../durability/paused-run.ts";
import { restoredFrom, type RestoredRun } from "../durability/restored-run.ts";
import { registryOf, findStorage, type Settings } from "../tree/settings.ts";
import { acceptPausedRun } from "./accept-paused-run.ts";
import { rootRole } from "./check-continuation.ts";
import { continuedParts, readyToContinue } from "./continue-run.ts";
import { LiveRun } from "./live-run.ts";
import { rolesOf } from "./pause-run.ts";
import { withCeilings } from "./role-ceilings.ts";
import { checkResumeOptions, type ResumeOptions } from "./run-options.ts";
import { verifyWaitingCalls } from "./waiting-calls.ts";

/** Continues a run at rest; see `Orchestrator.resume` for what it throws before anything has happened. */
export function resumeRun(
  settings: Settings,
  stored: PausedRun | string,
  answers: readonly Answer[],
  options: ResumeOptions,
): LiveRun {
  checkResumeOptions(options);
  const accepted = acceptPausedRun(settings, stored);
  const registry = registryOf(settings, rootRole(accepted, options.role, settings.roles));
  const verified =
    settings.signer === undefined
      ? verifyWaitingCalls(accepted, rolesOf(accepted, registry), registry)
      : accepted;
  const paused = withCeilings(verified, registry, settings.limits);
  const run = restoredFrom(paused);
  const ready = readyToContinue(settings, run, options, { answers, wasCutOff: false });
  const giveBack = takePause(run, settings.tracing); // Where nothing happens it may be tried again.
  const storage = findStorage(settings);
  const journal = storage && resumedJournal(storage, paused, giveBack);
  try {
    return new LiveRun(continuedParts(settings, run, ready, { journal }));
  } catch (cause) {
    giveBack();
    throw cause;
  }
}

/**
 * Pauses from which this process continued, with whatever orchestrator: what was approved once is not run twice (X17). Ids of runs may be made
 * to repeat, and a tracing that was handed in may make trace ids that follow from them: they count for it alone. Ours are drawn by chance.
 */
const resumedBy = new WeakMap<object, Set<string>>();
const OWN_TRACING = {};

/**
 * Takes the pause at which the run stands for this process. Call the result to give it back. `tracing`: the one that the orchestrator was
 * handed. Throws `already_resumed`.
 */
function takePause(run: RestoredRun, tracing: object = OWN_TRACING): () => void {
  const { runId, pauses, traceId } = run;
  const pause = `${runId} ${pauses} ${traceId}`;
  const known = resumedBy.get(tracing) ?? new Set();
  if (known.has(pause)) throw alreadyResumed(run);
  resumedBy.set(tracing, known.add(pause));
  return () => void known.delete(pause);
}
