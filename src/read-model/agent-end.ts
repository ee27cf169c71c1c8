// How the executions of an agent ended or paused.

import type { ErrorRecord, SettledStatus, StopReason } from "../protocol/stop.ts";

/** Activities of an agent that is paused or ended. */
export const SETTLED_STATUSES = ["paused", "completed", "stopped", "failed", "cancelled"] as const;

/** How an execution of an agent ended or paused. */
export interface AgentEnd {
  /** Status at the end, or `paused`. */
  readonly status: SettledStatus;
  /** Reason of the end or the pause. */
  readonly reason: StopReason;
  /** Error of a failed execution. `undefined` if it did not fail. */
  readonly error?: ErrorRecord | undefined;
  /** Time of the end or the pause in milliseconds since the epoch. */
  readonly atMs: number;
  /** Duration of the execution in milliseconds, pauses included. */
  readonly durationMs: number;
}

/** How one of several executions of an agent ended or paused. */
export interface ExecutionEnd extends AgentEnd {
  /** Number of the execution, from 1. */
  readonly execution: number;
  /** Number of the event that began the execution. */
  readonly startSeq: number;
  /** Number of the event that ended or paused the execution. */
  readonly endSeq: number;
  /** Number of the last step of the execution; 0 if the execution had no step. */
  readonly step: number;
}
