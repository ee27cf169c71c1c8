// A delegation on its way to the spawner: hooks of the parent see it first.

import type { SpawnOutcome, SpawnRequest } from "../../protocol/subagent.ts";
import type { ContinueRequest } from "../../tools/tool-context.ts";
import type { EffectPlace } from "../effects.ts";
import { applyChain } from "./apply-chain.ts";
import type { DelegatedCall, LocalEffectsOptions } from "../local-options.ts";

/** Starts a subagent with the task as hooks changed it. Rejects with the coded error of a hook that broke, and with nothing else. */
export async function spawnWithHooks(
  options: LocalEffectsOptions,
  place: EffectPlace,
  request: SpawnRequest,
  call: DelegatedCall,
): Promise<SpawnOutcome> {
  const task = await taskAfterHooks(options, place, request, call);
  return await options.spawn({ ...request, task }, call);
}

/** The same for a subagent that has ended and is to go on. */
export async function continueWithHooks(
  options: LocalEffectsOptions,
  place: EffectPlace,
  request: ContinueRequest,
  call: DelegatedCall,
): Promise<SpawnOutcome> {
  const subagents = options.subagentsOf(call);
  const known = subagents.list().find(({ childName }) => childName === request.childName);
  if (known === undefined) return await subagents.continue(request);
  const asked = { role: known.role, task: request.task };
  const task = await taskAfterHooks(options, place, asked, call);
  return await subagents.continue({ ...request, task });
}

async function taskAfterHooks(
  options: LocalEffectsOptions,
  place: EffectPlace,
  { role, task }: Pick<SpawnRequest, "role" | "task">,
  call: DelegatedCall,
): Promise<string> {
  const point = "subagentStart";
  const chain = options.hooks.chain(point);
  const isUnderWay = options.log?.hasChildOf(call.callId ?? null, call.nth ?? 0) === true;
  if (chain.length === 0 || isUnderWay) return task;
  const input = { role, task, childDepth: options.identity.depth + 1 };
  const { patch } = await applyChain(options, { point, chain, input, place, at: call });
  return patch.task ?? task;
}
