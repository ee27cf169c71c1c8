// Which process leads a run, as far as this process can see.

import { pid } from "node:process";

import { isProcessGone, thisHostname } from "../store/holding.ts";
import type { StoredRun } from "../store/run-store.ts";
import type { Viewpoint } from "../view/run-row.ts";

/** A process that gave no sign of life for so long is taken for dead. */
const SILENT_MS = 30_000;

/** Whether a process leads the run. */
export function hasOwner({ owner, heartbeatAtMs }: StoredRun, nowMs: number): boolean {
  if (owner === null || heartbeatAtMs === null) return false;
  if (owner.hostname === thisHostname() && isProcessGone(owner.processId)) return false;
  return Math.abs(nowMs - heartbeatAtMs) < SILENT_MS;
}

/** Runs are looked at from here. */
export function onlooker(nowMs: number): Viewpoint {
  return { nowMs, hostname: thisHostname(), processId: pid, isProcessGone };
}
