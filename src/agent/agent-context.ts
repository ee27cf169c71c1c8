import type { AgentId, CallId, ExecutionId, RunId, StepId } from "../protocol/ids.ts";
import type { EventBody } from "../protocol/event.ts";
import type { StopSignal } from "../protocol/stop.ts";
import type { UsageReport } from "../protocol/usage.ts";
import type { ToolSet } from "../tools/tool-set.ts";
import type { AgentRole } from "./agent-role.ts";
import type { BudgetGate } from "./budget-gate.ts";
import type { Effects } from "./effects.ts";

/** Everything that one execution of one agent works with. Fixed for the execution; what changes is the state. */
export interface AgentContext {
  readonly identity: AgentIdentity;
  readonly role: AgentRole;
  readonly tools: ToolSet;
  readonly effects: Effects;
  readonly budget: BudgetGate;
  /** What the agent was told to do. */
  readonly task: string;
  /** The call in its parent that started it; undefined for the root. */
  readonly spawnCallId: CallId | undefined;
  /** Gives the stop signals that came from outside since it was last asked. Only the loop asks (L1). */
  takeSignals(): readonly StopSignal[];
  /** What the agent and its subtree have consumed. */
  usage(): UsageReport;
  record(body: EventBody, place?: EventPlace): void;
}

/** Where in an execution an event belongs. */
export interface EventPlace {
  readonly stepId?: StepId;
  readonly callId?: CallId;
}

/** The ids of one agent in one execution. */
export interface AgentIdentity {
  readonly runId: RunId;
  readonly agentId: AgentId;
  readonly parentAgentId: AgentId | null;
  readonly agentPath: string;
  readonly depth: number;
  readonly executionId: ExecutionId;
}
