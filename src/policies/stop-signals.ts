// Selects the winning stop signal, and derives the status of the execution. Signals are ranked by
// `STOP_CODES`; of equal ranks, the first raised wins.

import type { CancelReason } from "../kernel/cancel-signal.ts";
import {
  STOP_CODES,
  type StopReason,
  type StopSignal,
  type TerminalStatus,
} from "../protocol/stop.ts";

const RANKS: ReadonlyMap<string, number> = new Map(STOP_CODES.map((code, rank) => [code, rank]));
/**
 * The rank of codes that stop conditions declare: that of `tool_called`, below every limit and
 * above the model's own reasons.
 */
const DECLARED_RANK = STOP_CODES.indexOf("tool_called");

/**
 * Returns the highest signal, regardless of the order of arrival. Ignores signals that only record
 * an overshoot. `undefined` if no other signal was raised.
 */
export function findWinningSignal(signals: readonly StopSignal[]): StopSignal | undefined {
  let winner: StopSignal | undefined;
  for (const signal of signals) {
    if (signal.isOvershoot === true) continue;
    if (winner === undefined || getRank(signal) < getRank(winner)) winner = signal;
  }
  return winner;
}

/** Returns the status that belongs to a reason. */
export function getTerminalStatus(reason: StopReason): TerminalStatus {
  switch (reason.code) {
    case "error":
      return "failed";
    case "cancelled":
      return "cancelled";
    case "completed":
      return "completed";
    default:
      return "stopped";
  }
}

/** Describes a time limit that is over. */
export function describeTimeLimit(accountPath: string, maximumMs: number): string {
  return `The time limit of ${accountPath} allows ${maximumMs} ms; that time is over.`;
}

/** Returns the stop signal of an agent that was cancelled for this reason. */
export function toStopSignal(reason: CancelReason): StopSignal {
  const { message, agentId } = reason;
  if (reason.type === "deadline") {
    const { deadlineAtMs, maximumMs: maximum, agentPath: accountPath } = reason;
    const limit = { axis: "timeMs", accountPath, maximum, current: maximum };
    const data = { ...limit, deadlineAtMs, agentId };
    return { source: "budget", reason: { code: "time_limit", message, data } };
  }
  return { source: "caller", reason: { code: "cancelled", message, data: { agentId } } };
}

function getRank(signal: StopSignal): number {
  return RANKS.get(signal.reason.code) ?? DECLARED_RANK;
}
