// How a paused run that a caller hands in is taken in: read, checked for contradictions, and held to the roles in code.

import { findContradiction } from "../durability/paused-run-checks.ts";
import {
  invalidPausedRun,
  parsePausedRun,
  type PausedRun,
  type PausedRunRecord,
} from "../durability/paused-run.ts";

/**
 * Reads a paused run that was handed in.
 *
 * Throws `unsupported_version` or `invalid_paused_run`.
 */
export function acceptPausedRun(stored: PausedRun | string): PausedRunRecord {
  const run = parsePausedRun(stored);
  const problem = findContradiction(run);
  if (problem !== undefined) throw invalidPausedRun(problem);
  return run;
}
