import type { AgentId, CallId, ExecutionId, RunId, StepId } from "../protocol/ids.ts";

/** The ids of one agent in one execution. */
export interface AgentIdentity {
  readonly runId: RunId;
  readonly agentId: AgentId;
  readonly parentAgentId: AgentId | null;
  readonly agentPath: string;
  readonly depth: number;
  readonly executionId: ExecutionId;
}

/** Where in an execution an event belongs. */
export interface EventPosition {
  readonly stepId?: StepId;
  readonly callId?: CallId;
  /** From 2: a further call that hooks made of one model call. */
  readonly modelCallNumber?: number;
}
