// Hooks at the points of an execution: a chain of them is one effect, whose result is a patch or an error.

import type { PointInput, PointPatch, TransformPoint } from "../hooks/hook-points.ts";
import { runChain, type ChainResult } from "../hooks/run-chain.ts";
import type { JsonValue } from "../kernel/json.ts";
import type { ErrorRecord } from "../protocol/stop.ts";
import type { EventPosition } from "./agent-identity.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import { consult } from "./consult.ts";
import type { Consulted } from "./effects.ts";
import { hookBounds } from "./hook-bounds.ts";

/** Where hooks are asked, and about what. */
export interface HookQuestion<P extends TransformPoint> {
  readonly point: P;
  readonly stepNumber: number;
  readonly place: EventPosition;
  readonly input: PointInput[P];
  /** The tool that it is about; hooks that are for other tools are left out. */
  readonly toolName?: string;
}

/** What hooks want changed, or what went wrong with them. */
export type Hooked<P extends TransformPoint> =
  | {
      readonly type: "patched";
      readonly patch: PointPatch[P];
      readonly changedBy: ChainResult<P>["changedBy"];
    }
  /** The agent has to end: what the hooks returned does not matter any more. */
  | { readonly type: "cancelled" }
  | { readonly type: "failed"; readonly error: ErrorRecord };

/** Asks the hooks of a point, in their order; undefined if there are none. What they changed is recorded. */
export async function consultHooks<P extends TransformPoint>(
  agent: AgentRuntime,
  question: HookQuestion<P>,
): Promise<Hooked<P> | undefined> {
  const asked = askHooks(agent, question);
  return asked === undefined ? undefined : heard(agent, question, await asked);
}

/** The asking alone, for several chains that are to run at once; undefined if there are no hooks. */
export function askHooks<P extends TransformPoint>(
  agent: AgentRuntime,
  { point, stepNumber, input, toolName, place }: HookQuestion<P>,
): Promise<Consulted<ChainResult<P>>> | undefined {
  if (!agent.hooks.points.has(point) || agent.effects.isEnding) return undefined;
  const chain = agent.hooks.chain(point, toolName);
  if (chain.length === 0) return undefined;
  return consult(agent, () => runChain(point, chain, input, hookBounds(agent, stepNumber)), place);
}

/** Records what hooks changed. */
export function heard<P extends TransformPoint>(
  agent: AgentRuntime,
  { point, place }: HookQuestion<P>,
  said: Consulted<ChainResult<P>>,
  change: { readonly before?: JsonValue; readonly after?: JsonValue } = {},
): Hooked<P> {
  if (said.type !== "returned") return said;
  const { patch, changedBy } = said.value;
  if (changedBy.length > 0)
    agent.effects.record({ type: "hook.applied", point, changedBy, ...change }, place);
  return { type: "patched", patch, changedBy };
}
