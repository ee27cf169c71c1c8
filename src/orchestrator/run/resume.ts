// Prepares a paused run that a caller hands in: resumed as the same run, or forked as another one from a
// step of its root. The paused run is checked for contradictions and limited by the roles in code.

import type { Answer } from "../../protocol/question.ts";
import { alreadyResumed, resumedJournal } from "../durability/open-journal.ts";
import {
  type PausedRun,
  type PausedRunRecord,
  invalidPausedRun,
  parsePausedRun,
  parsePausedText,
} from "../durability/paused-run.ts";
import { type RestoredRun, restoredFrom } from "../durability/restored-run.ts";
import { type Settings, findStorage, registryOf } from "../tree/settings.ts";
import { assertReady, checkOutputs, rolesOf, rootRole } from "./check-continuation.ts";
import { type Continuation, checkContinuation, restoreRun } from "./continue-run.ts";
import type { PreparedRun } from "./live-run.ts";
import { withCeilings } from "./role-ceilings.ts";
import {
  type ForkOptions,
  type ResumeOptions,
  checkForkOptions,
  checkResumeOptions,
} from "./start-options.ts";
import { verifyWaitingCalls } from "./waiting-calls.ts";
import { instructionsFor } from "../../agent/agent-role.ts";
import type { UserMessage } from "../../protocol/message.ts";
import { forkedRun } from "./fork-run.ts";
import { RoleRegistry } from "../tree/role-registry.ts";
import { findContradiction } from "../durability/paused-run-checks.ts";
import { invalidSignature, isSigned } from "../durability/paused-run-signature.ts";

/** Returns the parts of a run that is resumed; see `Orchestrator.resume` for what it throws. */
export function prepareResumption(
  settings: Settings,
  stored: PausedRun | string,
  answers: readonly Answer[],
  options: ResumeOptions,
): PreparedRun {
  checkResumeOptions(options);
  const accepted = acceptPausedRun(settings, stored);
  const registry = registryOf(settings, rootRole(accepted, options.role, settings.roles));
  const verified =
    settings.signer === undefined
      ? verifyWaitingCalls(accepted, rolesOf(accepted, registry), registry)
      : accepted;
  const paused = withCeilings(verified, registry, settings.limits);
  const run = restoredFrom(paused);
  const ready = checkContinuation(settings, run, options, { answers, wasCutOff: false });
  const giveBack = takePause(run, settings.tracing); // Where nothing happens it may be tried again.
  const storage = findStorage(settings);
  const journal = storage && resumedJournal(storage, paused, giveBack);
  try {
    return restoreRun(settings, run, ready, { journal });
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

/** Returns the parts of a fork; see `Orchestrator.fork` for what it throws. */
export function prepareFork(
  settings: Settings,
  stored: PausedRun | string,
  options: ForkOptions,
): PreparedRun {
  checkForkOptions(options);
  const accepted = acceptPausedRun(settings, stored);
  const role = rootRole(accepted, options.role, settings.roles);
  const isReplacing = options.role !== undefined;
  const registry = new RoleRegistry(role, settings, { isReplacing });
  const original = withCeilings(accepted, registry, settings.limits);
  const { run: paused, message, forkedFrom } = forkedRun(original, options, settings);
  const run = restoredFrom(paused);
  assertReady(run, registry);
  const ready = checkFork(run, registry, message, options);
  const storage = findStorage(settings);
  const journal = storage && resumedJournal(storage, paused);
  return restoreRun(settings, run, ready, { journal, forkedFrom });
}

/** Returns what a fork begins with. None of its agents works yet. `message`: the one to its root. */
export function checkFork(
  run: RestoredRun,
  registry: RoleRegistry,
  message: UserMessage | undefined,
  { onPiece, context }: Pick<ForkOptions, "onPiece" | "context">,
): Continuation {
  const roles = rolesOf(run, registry);
  checkOutputs(run, roles);
  const next = { instructions: instructionsFor(registry.root, context), message };
  const given = { answers: new Map(), grants: [], mail: [[], new Map()] as const };
  return { registry, roles, onPiece, context, next, session: undefined, ...given };
}

/**
 * Reads a paused run that was handed in. With a key its signature is verified, and nothing else of it needs to be.
 *
 * Throws `unsupported_version`, `invalid_paused_run` or `invalid_signature`.
 */
function acceptPausedRun(
  { signer }: Pick<Settings, "signer">,
  stored: PausedRun | string,
): PausedRunRecord {
  if (signer !== undefined) {
    const value = typeof stored === "string" ? parsePausedText(stored) : stored;
    if (isSigned(value)) return parsePausedRun(signer.verify(value));
    // For example a promise, or the result: the error names that mistake, and not the signature.
    parsePausedRun(value);
    throw invalidSignature("missing");
  }
  const run = parsePausedRun(stored);
  if (isSigned(run)) throw invalidSignature("unverifiable");
  const problem = findContradiction(run);
  if (problem !== undefined) throw invalidPausedRun(problem);
  return run;
}
