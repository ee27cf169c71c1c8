// Restored runs, which are to continue: paused runs, and runs whose process crashed.

import { restoreState } from "../../agent/agent-snapshot.ts";
import type { AgentState, PendingState, SettledState } from "../../agent/agent-state.ts";
import type { InFlightWork } from "../../agent/in-flight-work.ts";
import type { PersistedHold } from "../../budget/ledger-operation.ts";
import type { AgentId } from "../../protocol/ids.ts";
import { collectFailedAgents, type PausedAgent, type PausedRunRecord } from "./paused-run.ts";

/** Agent of a restored run. */
export interface RestoredAgent extends Omit<PausedAgent, "state"> {
  readonly state: PendingState | SettledState;
  /** Effects in flight when its process crashed. */
  readonly inFlight?: InFlightWork | undefined;
  /** State in the journal, if it differs. */
  readonly persistedState?: AgentState;
}

export interface RestoredRun extends Omit<PausedRunRecord, "version" | "agents"> {
  readonly agents: readonly RestoredAgent[];
  /** Failed agents in order. */
  readonly failedIds: readonly AgentId[];
  /** Leases that are not settled yet. */
  readonly leases?: readonly PersistedHold[];
}

/** Returns the restored form of a paused run. */
export function restorePausedRun(paused: PausedRunRecord): RestoredRun {
  const { version: _form, agents, ...run } = paused;
  return {
    ...run,
    agents: agents.map((agent) => ({ ...agent, state: restoreState(agent.state) })),
    failedIds: collectFailedAgents(paused),
  };
}
