// Rules of ownership of runs, the same for every store (D4).

import { hostname } from "node:os";

import { EspalierError } from "../kernel/error.ts";
import type { JournalBatch, Ownership, RunOwner, StoredStatus } from "./run-store.ts";
import { createRunFencedError } from "./store-errors.ts";

/** State of the ownership of a run, as a store has it. */
export interface Holding {
  readonly epoch: number;
  /**
   * Token of the owner, or of the last owner if the run has no owner now. An owner that releases a
   * run twice has only missed the first acknowledgement.
   */
  readonly token: string;
  /** `null` if the run has no owner. */
  readonly owner: RunOwner | null;
  /** Time in milliseconds since the owner's last heartbeat. */
  readonly silentMs: number;
  /** See `StoredRun.isQueued`. */
  readonly isQueued: boolean;
}

/**
 * An attempt of a process to become the owner, and the rule by which it may replace a former owner.
 */
export interface Claim {
  readonly claimant: Claimant;
  readonly takeOver: boolean;
  readonly ownerLost: boolean;
}

/** Process that claims a run, and the criteria by which a former owner counts as gone. */
export interface Claimant {
  readonly runId: string;
  /** Machine on which the store can check whether a process exists. */
  readonly hostname: string;
  readonly staleAfterMs: number;
  readonly isProcessGone: (processId: number) => boolean;
}

/**
 * Returns true if the claim replaces an owner that was lost while it executed the run. Throws
 * `run_active` if the claim is not allowed.
 */
export function countsAsCrash(holding: Holding, claim: Claim): boolean {
  const { claimant, takeOver, ownerLost } = claim;
  const { owner } = holding;
  if (owner === null) return false;
  if (ownerLost || isGone(owner, holding, claimant)) return !holding.isQueued;
  if (!takeOver) throw createRunActiveError(owner, holding, claimant);
  return false;
}

/** Throws `run_active` if the run has an owner that is not gone. */
export function checkFree(holding: Holding, claimant: Claimant): void {
  const { owner } = holding;
  if (owner !== null && !isGone(owner, holding, claimant))
    throw createRunActiveError(owner, holding, claimant);
}

function isGone(owner: RunOwner, { silentMs }: Holding, claimant: Claimant): boolean {
  // Prevents a clock that was set back from making a heartbeat look younger.
  if (Math.max(0, silentMs) >= claimant.staleAfterMs) return true;
  return owner.hostname === claimant.hostname && claimant.isProcessGone(owner.processId);
}

function createRunActiveError(
  { processId, hostname: host }: RunOwner,
  { silentMs }: Holding,
  { runId }: Claimant,
): EspalierError {
  return new EspalierError({
    code: "run_active",
    message: `Cannot claim run ${JSON.stringify(runId)}: it has a live owner, process ${processId} on ${host}. Wait until that process has ended, or take the run over: \`takeOver: true\`, on the command line \`--take-over\`.`,
    data: { runId, hostname: host, processId, silentMs },
  });
}

/** Throws `run_fenced` unless the run is held under this ownership. */
export function checkHeld(ownership: Ownership, holding: Holding): void {
  if (isLastOwner(ownership, holding) && holding.owner !== null) return;
  throw createRunFencedError(ownership, holding.epoch);
}

/** Returns true if no other process has claimed the run since. */
function isLastOwner({ token, epoch }: Ownership, holding: Holding): boolean {
  return holding.token === token && holding.epoch === epoch;
}

/**
 * Returns true if this owner has already released the run, and only missed the acknowledgement.
 * `present` is the present status of the run.
 */
export function hasReleased(
  ownership: Ownership,
  holding: Holding,
  status: StoredStatus,
  present: StoredStatus,
): boolean {
  // Mail changes a paused run to open.
  const isSame = present === status || (present === "open" && status === "paused");
  return isSame && holding.owner === null && isLastOwner(ownership, holding);
}

/**
 * Returns true if the process already owns the run. Its token is unique, so only the
 * acknowledgement was lost.
 */
export function hasAlready(holding: Holding, { token }: RunOwner): boolean {
  return holding.owner !== null && holding.token === token;
}

/**
 * Returns the position of a batch: it comes next, repeats existing record numbers (with identical
 * records, D5, or others), or leaves a gap.
 */
export function classifyBatchPosition(
  batch: JournalBatch,
  recordCount: number,
): "next" | "taken" | "misplaced" {
  if (batch.firstNumber === recordCount + 1) return "next";
  const lastNumber = batch.firstNumber + batch.records.length - 1;
  return lastNumber <= recordCount ? "taken" : "misplaced";
}

/** Returns true if a process of this machine has ended. False if that cannot be determined. */
export function isProcessGone(processId: number): boolean {
  // A process id of 0 or less would address process groups.
  if (processId <= 0) return false;
  try {
    process.kill(processId, 0);
    return false;
  } catch (cause) {
    return cause instanceof Error && "code" in cause && cause.code === "ESRCH";
  }
}

/** Returns the name of this machine, as owners use it. */
export function getHostname(): string {
  return hostname();
}
