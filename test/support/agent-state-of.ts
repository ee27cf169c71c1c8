// Returns the state behind the read-only view that `iterate()` yields.

import type { AgentState } from "../../src/agent/agent-state.ts";
import type { PhaseState } from "../../src/agent/phase-report.ts";

export function agentStateOf(shown: PhaseState): AgentState {
  if (isAgentState(shown)) return shown;
  throw new Error("Expected the state of an agent, got another object.");
}

function isAgentState(shown: object): shown is AgentState {
  return "conversation" in shown && "log" in shown && "telemetry" in shown;
}
