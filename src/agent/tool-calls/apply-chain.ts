// A chain of hooks inside the effect of a call: run, its time counted, and what it changed recorded.

import type { PointInput, PointPatch, TransformPoint } from "../../hooks/hook-points.ts";
import type { Chain } from "../../hooks/hook-set.ts";
import { runChain } from "../../hooks/run-chain.ts";
import type { EventPosition } from "../agent-identity.ts";
import type { EffectPosition } from "../agent-identity.ts";
import { hookBounds } from "../hook-bounds.ts";
import type { AgentRuntime } from "../agent-runtime.ts";

/** A chain, and what it is asked about. */
export interface ChainCall<P extends TransformPoint> {
  readonly point: P;
  readonly chain: Chain<P>;
  readonly input: PointInput[P];
  readonly place: Pick<EffectPosition, "stepNumber">;
  /** Where the event belongs that says what was changed. */
  readonly at: EventPosition;
}

/** What the chain came to, and the hook that had the last word; rejects with the coded error of a hook that broke. */
export async function applyChain<P extends TransformPoint>(
  agent: AgentRuntime,
  { point, chain, input, place, at }: ChainCall<P>,
): Promise<{ readonly patch: PointPatch[P]; readonly by: string | undefined }> {
  agent.time.beginWork();
  try {
    const { patch, changedBy } = await runChain(
      point,
      chain,
      input,
      hookBounds(agent, place.stepNumber),
    );
    if (changedBy.length > 0) agent.emit({ type: "hook.applied", point, changedBy }, at);
    return { patch, by: changedBy.at(-1)?.hook };
  } finally {
    agent.time.endWork();
  }
}
