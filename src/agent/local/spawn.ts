// A delegation on its way to the spawner: hooks of the parent see it first.

import { runChain } from "../../hooks/run-chain.ts";
import type { SpawnOutcome, SpawnRequest } from "../../protocol/subagent.ts";
import type { EffectPlace } from "../effects.ts";
import { hookBounds } from "./hook-bounds.ts";
import type { DelegatedCall, LocalEffectsOptions } from "./local-options.ts";

/** Starts a subagent with the task as hooks changed it. Rejects with the coded error of a hook that broke, and with nothing else. */
export async function spawnWithHooks(
  options: LocalEffectsOptions,
  place: EffectPlace,
  request: SpawnRequest,
  call: DelegatedCall,
): Promise<SpawnOutcome> {
  const point = "subagentStart";
  const chain = options.hooks.chain(point);
  if (chain.length === 0) return await options.spawn(request, call);
  const { role, task } = request;
  const childDepth = options.identity.depth + 1;
  const rest = options.working();
  const asked = runChain(point, chain, { role, task, childDepth }, hookBounds(options, place));
  const { patch, changedBy } = await asked.finally(rest);
  if (changedBy.length > 0) options.record({ type: "hook.applied", point, changedBy }, call);
  if (options.startSignal.aborted) {
    const message = "Not started: the agent was told to end before the subagent could start.";
    return { type: "refused", refusal: { code: "setup_failed", message } };
  }
  return await options.spawn({ role, task: patch.task ?? task }, call);
}
