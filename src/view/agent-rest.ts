// How an agent came to rest, and in which of its executions.

import type { ErrorRecord, SettledStatus, StopReason } from "../protocol/stop.ts";

/** Every status of an agent that does nothing: paused, or ended. */
export const SETTLED_STATUSES = ["paused", "completed", "stopped", "failed", "cancelled"] as const;

/** How an agent came to rest. */
export interface AgentEnd {
  /** How it came to rest. */
  readonly status: SettledStatus;
  /** Why. */
  readonly reason: StopReason;
  /** What it failed of. Undefined: it did not fail. */
  readonly error?: ErrorRecord | undefined;
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  /** Of its execution. */
  readonly durationMs: number;
}

/** How one execution of an agent came to rest. */
export interface ExecutionEnd extends AgentEnd {
  /** Which execution, from 1. */
  readonly execution: number;
  /** The number of the event with which that execution began. */
  readonly startSeq: number;
  /** The number of the event with which it came to rest. */
  readonly endSeq: number;
  /** The last step of that execution. 0 if it had taken none. */
  readonly step: number;
}
