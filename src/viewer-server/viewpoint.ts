// Determines whether a live process owns a run, as far as this process can see.

import { pid } from "node:process";

import { isProcessGone, getHostname } from "../store/ownership-rules.ts";
import type { StoredRun } from "../store/run-store.ts";
import type { Viewpoint } from "../read-model/run-row.ts";

/** A process without a heartbeat for longer than this counts as dead. */
const SILENT_MS = 30_000;

/** Returns true if a live process owns the run. */
export function hasOwner({ owner, heartbeatAtMs }: StoredRun, nowMs: number): boolean {
  if (owner === null || heartbeatAtMs === null) return false;
  if (owner.hostname === getHostname() && isProcessGone(owner.processId)) return false;
  return Math.abs(nowMs - heartbeatAtMs) < SILENT_MS;
}

/** Returns the viewpoint of this process. */
export function createViewpoint(nowMs: number): Viewpoint {
  return { nowMs, hostname: getHostname(), processId: pid, isProcessGone };
}
