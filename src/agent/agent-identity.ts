// Who an agent is: its ids, its place in the tree, and the name by which its parent calls it.

import { EspalierError } from "../kernel/error.ts";
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

/** Where an effect stands in its execution. */
export interface EffectPosition {
  readonly stepId: StepId;
  readonly stepNumber: number;
  /** Set for a model call whose step is counted already: its first request was too long for the model, which is called again. */
  readonly isStepCounted?: true;
  /** Set for a model call besides that of the step: its name there, and the tool call that it serves. Without one it is in no step. */
  readonly sideCall?: { readonly name: string; readonly callId?: CallId };
}

/** Returns how many steps a model call adds: 0 for a side call, and for one of a step that is counted already. */
export function countAddedSteps({ sideCall, isStepCounted }: EffectPosition): 0 | 1 {
  return sideCall === undefined && isStepCounted !== true ? 1 : 0;
}

/**
 * Returns where events of a model call belong: to its step, to the tool call that it serves, or to the agent.
 * `number`: which of the calls that hooks made of one it is.
 */
export function toEventPosition({ stepId, sideCall }: EffectPosition, number = 1): EventPosition {
  const { callId } = sideCall ?? {};
  const at = sideCall === undefined ? { stepId } : callId === undefined ? {} : { stepId, callId };
  return number === 1 ? at : { ...at, modelCallNumber: number };
}

/** What a parent calls the subagent at this path: the end of it, such as `researcher#2`. */
export function getChildName(agentPath: string): string {
  return agentPath.slice(agentPath.lastIndexOf("/") + 1);
}

/** The number of an agent among those of its role: `lead/leaf#2` is the second. */
export function parseOrdinal(agentPath: string): number {
  const [, ordinal = 1] = /#(\d+)$/.exec(agentPath) ?? [];
  return Number(ordinal);
}

/** Returns the error for an id that is not that of an agent of the run. */
export function createUnknownAgentError(agentId: unknown): EspalierError {
  return new EspalierError({
    code: "unknown_agent",
    message: `Expected the id of an agent of this run, got ${JSON.stringify(agentId)}. Take the id from an event or from the result.`,
    data: { agentId: String(agentId) },
  });
}
