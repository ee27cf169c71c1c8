// A delegation on its way to the spawner: hooks of the parent see it first.

import type { SpawnOutcome, SpawnRequest } from "../../protocol/subagent.ts";
import type { EffectPlace } from "../effects.ts";
import { applyChain } from "./apply-chain.ts";
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
  const input = { role, task, childDepth: options.identity.depth + 1 };
  const { patch } = await applyChain(options, { point, chain, input, place, at: call });
  if (options.startSignal.aborted) {
    const message = "Not started: the agent was told to end before the subagent could start.";
    return { type: "refused", refusal: { code: "setup_failed", message } };
  }
  return await options.spawn({ role, task: patch.task ?? task }, call);
}
