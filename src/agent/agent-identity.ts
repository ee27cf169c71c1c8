// The identity of an agent: its ids, its position in the tree, and the name by which its parent
// refers to it.

import { EspalierError } from "../kernel/error.ts";
import type { AgentId, CallId, ExecutionId, RunId, StepId } from "../protocol/ids.ts";

/** The ids of an agent in an execution. */
export interface AgentIdentity {
  readonly runId: RunId;
  readonly agentId: AgentId;
  readonly parentAgentId: AgentId | null;
  readonly agentPath: string;
  readonly depth: number;
  readonly executionId: ExecutionId;
}

/** The position of an event in an execution. */
export interface EventPosition {
  readonly stepId?: StepId;
  readonly callId?: CallId;
  /** Set from 2 on, for further calls that hooks made in place of one model call. */
  readonly modelCallNumber?: number;
}

/** The position of an effect in its execution. */
export interface EffectPosition {
  readonly stepId: StepId;
  readonly stepNumber: number;
  /**
   * Set for a model call whose step is already counted: the first request was too long, and the
   * model is called again.
   */
  readonly isStepCounted?: true;
  /**
   * Set for a side call: its name, and the tool call that it serves. Without a tool call it belongs
   * to no step.
   */
  readonly sideCall?: { readonly name: string; readonly callId?: CallId };
}

/**
 * Returns the number of steps that a model call adds: 0 for a side call, and for a call whose step
 * is already counted.
 */
export function countAddedSteps({ sideCall, isStepCounted }: EffectPosition): 0 | 1 {
  return sideCall === undefined && isStepCounted !== true ? 1 : 0;
}

/**
 * Returns the position for the events of a model call: in its step, in the tool call that it
 * serves, or in the agent. `number` counts the calls that hooks made in its place.
 */
export function toEventPosition({ stepId, sideCall }: EffectPosition, number = 1): EventPosition {
  const { callId } = sideCall ?? {};
  const servedCall = callId === undefined ? {} : { stepId, callId };
  const at = sideCall === undefined ? { stepId } : servedCall;
  return number === 1 ? at : { ...at, modelCallNumber: number };
}

/** Returns the name of the subagent at this path: its last segment, such as `researcher#2`. */
export function getChildName(agentPath: string): string {
  return agentPath.slice(agentPath.lastIndexOf("/") + 1);
}

/** Returns the number of an agent among the agents of its role: `lead/leaf#2` is the second. */
export function parseOrdinal(agentPath: string): number {
  const [, ordinal = 1] = /#(\d+)$/.exec(agentPath) ?? [];
  return Number(ordinal);
}

/** Returns the error for an id that belongs to no agent of the run. */
export function createUnknownAgentError(agentId: unknown): EspalierError {
  return new EspalierError({
    code: "unknown_agent",
    message: `Expected the id of an agent of this run, got ${JSON.stringify(agentId)}. Take the id from an event or from the result.`,
    data: { agentId: String(agentId) },
  });
}
