// A restored run, which is to continue: one that was paused, or one whose process died.

import { restoreState } from "../../agent/agent-snapshot.ts";
import type { AgentState, PendingState, SettledState } from "../../agent/agent-state.ts";
import type { InFlightWork } from "../../agent/in-flight.ts";
import type { PersistedHold } from "../../budget/ledger-operation.ts";
import type { AgentId } from "../../protocol/ids.ts";
import { failedIn, type PausedAgent, type PausedRunRecord } from "./paused-run.ts";

/** One of its agents. */
export interface RestoredAgent extends Omit<PausedAgent, "state"> {
  readonly state: PendingState | SettledState;
  /** What it had begun when its process died. */
  readonly inFlight?: InFlightWork | undefined;
  /** Its state as the journal has it, if that is another. */
  readonly kept?: AgentState;
}

export interface RestoredRun extends Omit<PausedRunRecord, "version" | "agents"> {
  readonly agents: readonly RestoredAgent[];
  /** Those that failed, in the order in which they did. */
  readonly failedIds: readonly AgentId[];
  /** Leases that are not settled yet. */
  readonly leases?: readonly PersistedHold[];
}

/** The run behind a paused one. */
export function restoredFrom(paused: PausedRunRecord): RestoredRun {
  const { version: _form, agents, ...run } = paused;
  return {
    ...run,
    agents: agents.map((agent) => ({ ...agent, state: restoreState(agent.state) })),
    failedIds: failedIn(paused),
  };
}
