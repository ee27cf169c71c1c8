// Runs user code that decides or observes: a chain of hooks, a stop condition, a section or a
// processor.

import type { EventPosition } from "./agent-identity.ts";
import type { StopSignal } from "../protocol/stop.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import type { Consulted } from "./effect-outcomes.ts";
import { serializeError } from "./serialize-error.ts";
import type { PointInput, PointPatch, TransformPoint, HookContext } from "../hooks/hook-points.ts";
import { runChain, type ChainResult, type HookBounds } from "../hooks/run-chain.ts";
import type { JsonValue } from "../kernel/json.ts";
import { checkText } from "../kernel/argument-checks.ts";

/**
 * Runs user code and counts its time as the agent's. Never rejects. `at` is the position to which
 * its log lines belong.
 */
export async function runUserCode<T>(
  agent: AgentRuntime,
  work: () => T | Promise<T>,
  at: EventPosition = {},
): Promise<Consulted<T>> {
  agent.beginWork();
  try {
    const run = async (): Promise<Consulted<T>> => ({ type: "returned", value: await work() });
    const { persistence } = agent;
    return await (persistence === undefined
      ? agent.runAt(at, run)
      : persistence.consult(() => agent.runAt(at, run)));
  } catch (cause) {
    return classifyUserCodeError(agent, cause);
  } finally {
    agent.endWork();
  }
}

/** Returns the outcome of user code that threw. */
export function classifyUserCodeError(agent: AgentRuntime, cause: unknown): Consulted<never> {
  if (agent.cancelSignal.aborted) return { type: "cancelled" };
  return { type: "failed", error: serializeError(cause) };
}

// Hooks at the points of an execution. A chain of hooks is one effect, whose result is a patch or
// an error.

/** The point at which hooks run, and their input. */
export interface HookQuestion<P extends TransformPoint> {
  readonly point: P;
  readonly stepNumber: number;
  readonly position: EventPosition;
  readonly input: PointInput[P];
  /** The tool that the input is about. Hooks for other tools do not run. */
  readonly toolName?: string;
}

/**
 * The changes that hooks request, or their failure. `cancelled` if the agent has to end, so that
 * the result is not needed.
 */
export type Hooked<P extends TransformPoint> = Consulted<ChainResult<P>>;

/**
 * Runs the hooks of a point in their order and records their changes. `undefined` without hooks.
 */
export async function consultHooks<P extends TransformPoint>(
  agent: AgentRuntime,
  question: HookQuestion<P>,
): Promise<Hooked<P> | undefined> {
  const pending = askHooks(agent, question);
  return pending === undefined ? undefined : recordHooks(agent, question, await pending);
}

/**
 * Runs the hooks of a point without recording their changes, for several chains that run at once.
 * `undefined` without hooks.
 */
export function askHooks<P extends TransformPoint>(
  agent: AgentRuntime,
  { point, stepNumber, input, toolName, position }: HookQuestion<P>,
): Promise<Hooked<P>> | undefined {
  if (!agent.hooks.points.has(point) || agent.isEnding) return undefined;
  const chain = agent.hooks.chain(point, toolName);
  if (chain.length === 0) return undefined;
  return runUserCode(
    agent,
    () => runChain(point, chain, input, createHookBounds(agent, stepNumber)),
    position,
  );
}

/** Records the changes that hooks made, and returns their result. */
export function recordHooks<P extends TransformPoint>(
  agent: AgentRuntime,
  { point, position }: HookQuestion<P>,
  outcome: Hooked<P>,
  change: { readonly before?: JsonValue; readonly after?: JsonValue } = {},
): Hooked<P> {
  const changedBy = outcome.type === "returned" ? outcome.value.changedBy : [];
  if (changedBy.length > 0)
    agent.record({ type: "hook.applied", point, changedBy, ...change }, position);
  return outcome;
}

// A chain of hooks inside the effect of a call.

/**
 * Runs a chain, counts its time and records its changes. Returns the patch and the hook that made
 * the last change. Rejects with the coded error of a hook that broke.
 */
export async function applyChain<P extends TransformPoint>(
  agent: AgentRuntime,
  { point, stepNumber, position, input, toolName }: HookQuestion<P>,
): Promise<{ readonly patch: PointPatch[P]; readonly by: string | undefined }> {
  const chain = agent.hooks.chain(point, toolName);
  agent.beginWork();
  try {
    const result = await runChain(point, chain, input, createHookBounds(agent, stepNumber));
    const { patch, changedBy } = result;
    if (changedBy.length > 0)
      agent.recordWithinCall({ type: "hook.applied", point, changedBy }, position);
    return { patch, by: changedBy.at(-1)?.hook };
  } finally {
    agent.endWork();
  }
}

/** Returns the facts about an agent that all user code receives. */
export function readAgentFacts({ identity, facts, run: { context } }: AgentRuntime) {
  const { metadata } = facts;
  const { runId, agentId, agentPath, depth, executionId } = identity;
  return { runId, agentId, agentPath, depth, executionId, metadata, context };
}

/** Returns the time limits and the context of the hooks at a step. */
export function createHookBounds(agent: AgentRuntime, stepNumber: number): HookBounds {
  return {
    ...agent.bounds,
    createContext: (hookName) => createHookContext(agent, stepNumber, hookName),
  };
}

/** Returns the context of a hook at a step of an execution. */
export function createHookContext(
  agent: AgentRuntime,
  stepNumber: number,
  hookName: string,
): HookContext {
  return Object.freeze({
    ...readAgentFacts(agent),
    role: agent.role.name,
    stepNumber,
    hookName,
    signal: agent.cancelSignal.abortSignal,
    requestStop: (message: string) => {
      checkText("message", message);
      const reason = { code: "stop_requested", message, data: {} };
      const request: StopSignal = { source: "hook", reason, name: hookName };
      agent.persistence?.onStopRequested(request);
      agent.requestStop(request);
    },
  });
}
