// A chain of hooks inside the effect of a call: run, its time counted, and what it changed recorded.

import type { PointInput, PointPatch, TransformPoint } from "../../hooks/hook-points.ts";
import type { Chain } from "../../hooks/hook-set.ts";
import { runChain } from "../../hooks/run-chain.ts";
import type { EventPlace } from "../agent-context.ts";
import type { EffectPlace } from "../effects.ts";
import { hookBounds } from "../hook-bounds.ts";
import type { LocalEffectsOptions } from "../local-options.ts";

/** A chain, and what it is asked about. */
export interface ChainCall<P extends TransformPoint> {
  readonly point: P;
  readonly chain: Chain<P>;
  readonly input: PointInput[P];
  readonly place: Pick<EffectPlace, "stepNumber">;
  /** Where the event belongs that says what was changed. */
  readonly at: EventPlace;
}

/** What the chain came to, and the hook that had the last word; rejects with the coded error of a hook that broke. */
export async function applyChain<P extends TransformPoint>(
  options: LocalEffectsOptions,
  { point, chain, input, place, at }: ChainCall<P>,
): Promise<{ readonly patch: PointPatch[P]; readonly by: string | undefined }> {
  const rest = options.working();
  try {
    const { patch, changedBy } = await runChain(point, chain, input, hookBounds(options, place));
    if (changedBy.length > 0) options.record({ type: "hook.applied", point, changedBy }, at);
    return { patch, by: changedBy.at(-1)?.hook };
  } finally {
    rest();
  }
}
