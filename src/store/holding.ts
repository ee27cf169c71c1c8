// The rules of ownership of runs, the same for every store (D4).

import { hostname } from "node:os";

import { EspalierError } from "../kernel/error.ts";
import type { JournalBatch, Ownership, RunOwner, StoredStatus } from "./run-store.ts";
import { runFenced } from "./store-errors.ts";

/** What a store knows about the owner of a run. */
export interface Holding {
  readonly epoch: number;
  /** Of its owner, or of the last one: an owner that gives a run up twice has merely missed the first acknowledgement. */
  readonly token: string;
  /** Null: it has no owner. */
  readonly owner: RunOwner | null;
  /** For how long its owner has given no sign of life. */
  readonly silentMs: number;
}

/** Who claims a run, and by which rule a former owner is replaced. */
export interface Claim {
  readonly claimant: Claimant;
  readonly takeOver: boolean;
  readonly ownerLost: boolean;
}

/** The process that claims a run, and when it takes an owner for gone. */
export interface Claimant {
  readonly runId: string;
  /** The machine on which processes can be asked for. */
  readonly hostname: string;
  readonly staleAfterMs: number;
  readonly isProcessGone: (processId: number) => boolean;
}

/** Returns true if the claim replaces an owner that was lost. Throws `run_active` if the claim is not allowed. */
export function countsAsCrash(holding: Holding, claim: Claim): boolean {
  const { claimant, takeOver, ownerLost } = claim;
  const { owner } = holding;
  if (owner === null) return false;
  if (ownerLost || isGone(owner, holding, claimant)) return true;
  if (!takeOver) throw runAlive(owner, holding, claimant);
  return false;
}

/** Throws `run_active` if the run has an owner that is not gone. */
export function checkFree(holding: Holding, claimant: Claimant): void {
  const { owner } = holding;
  if (owner !== null && !isGone(owner, holding, claimant)) throw runAlive(owner, holding, claimant);
}

function isGone(owner: RunOwner, { silentMs }: Holding, claimant: Claimant): boolean {
  // A clock that was set back makes no sign of life younger than now.
  if (Math.max(0, silentMs) >= claimant.staleAfterMs) return true;
  return owner.hostname === claimant.hostname && claimant.isProcessGone(owner.processId);
}

function runAlive(
  { processId, hostname: host }: RunOwner,
  { silentMs }: Holding,
  { runId }: Claimant,
): EspalierError {
  return new EspalierError({
    code: "run_active",
    message: `Cannot claim run ${JSON.stringify(runId)}: it has a live owner, process ${processId} on ${host}. Wait until that process has ended, or take the run over.`,
    data: { runId, hostname: host, processId, silentMs },
  });
}

/** Throws `run_fenced` unless this ownership is the one that holds the run. */
export function checkHeld(ownership: Ownership, holding: Holding): void {
  if (isLastOwner(ownership, holding) && holding.owner !== null) return;
  throw runFenced(ownership, holding.epoch);
}

/** Whether the run was not taken over since. */
function isLastOwner({ token, epoch }: Ownership, holding: Holding): boolean {
  return holding.token === token && holding.epoch === epoch;
}

/** Whether the process that gives the run up so has done that already: only the answer was lost. `found`: the status that the run has. */
export function hasReleased(
  ownership: Ownership,
  holding: Holding,
  status: StoredStatus,
  found: StoredStatus,
): boolean {
  // A post opens a paused run.
  const isSame = found === status || (found === "open" && status === "paused");
  return isSame && holding.owner === null && isLastOwner(ownership, holding);
}

/** Whether a process asks for what it has already: its token is unique, so only the answer was lost. */
export function hasAlready(holding: Holding, { token }: RunOwner): boolean {
  return holding.owner !== null && holding.token === token;
}

/** Where a batch belongs: next in line, where records are already (the same ones: D5; or others), or not at all. */
export function positionOf(
  batch: JournalBatch,
  recordCount: number,
): "next" | "taken" | "misplaced" {
  if (batch.firstNumber === recordCount + 1) return "next";
  const lastNumber = batch.firstNumber + batch.records.length - 1;
  return lastNumber <= recordCount ? "taken" : "misplaced";
}

/** Whether a process of this machine has ended. Of what cannot be asked for, it is not said. */
export function isProcessGone(processId: number): boolean {
  // 0 and less would ask for whole groups of processes.
  if (processId <= 0) return false;
  try {
    process.kill(processId, 0);
    return false;
  } catch (cause) {
    return cause instanceof Error && "code" in cause && cause.code === "ESRCH";
  }
}

/** The name of this machine, as owners give it. */
export function thisHostname(): string {
  return hostname();
}
