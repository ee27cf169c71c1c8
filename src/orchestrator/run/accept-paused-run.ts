// How a paused run that a caller hands in is taken in: read, checked for contradictions, and held to the roles in code.

import { findContradiction } from "../durability/paused-run-checks.ts";
import {
  invalidPausedRun,
  parsePausedRun,
  parsePausedText,
  type PausedRun,
  type PausedRunRecord,
} from "../durability/paused-run.ts";
import { invalidSignature, isSigned } from "../durability/paused-run-signature.ts";
import type { Settings } from "../tree/settings.ts";

/**
 * Reads a paused run that was handed in. With a key its signature is verified, and nothing else of it needs to be.
 *
 * Throws `unsupported_version`, `invalid_paused_run` or `invalid_signature`.
 */
export function acceptPausedRun(
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
