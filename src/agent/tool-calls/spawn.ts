// A delegation on its way to the spawner: hooks of the parent see it first.

import type { SpawnOutcome, SpawnRequest } from "../../protocol/subagent.ts";
import type { ContinueRequest } from "../../tools/tool-context.ts";
import type { EffectPlace } from "../effects.ts";
import { applyChain } from "./apply-chain.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { DelegatedCall } from "../run-ports.ts";

/** Starts a subagent with the task as hooks changed it. Rejects with the coded error of a hook that broke, and with nothing else. */
export async function spawnWithHooks(
  agent: AgentRuntime,
  place: EffectPlace,
  request: SpawnRequest,
  call: DelegatedCall,
): Promise<SpawnOutcome> {
  const task = await taskAfterHooks(agent, place, request, call);
  return await agent.run.subagents.spawn(agent, { ...request, task }, call);
}

/** The same for a subagent that has ended and is to go on. */
export async function continueWithHooks(
  agent: AgentRuntime,
  place: EffectPlace,
  request: ContinueRequest,
  call: DelegatedCall,
): Promise<SpawnOutcome> {
  const subagents = agent.run.subagents.serviceFor(agent, call);
  const known = subagents.list().find(({ childName }) => childName === request.childName);
  if (known === undefined) return await subagents.continue(request);
  const asked = { role: known.role, task: request.task };
  const task = await taskAfterHooks(agent, place, asked, call);
  return await subagents.continue({ ...request, task });
}

async function taskAfterHooks(
  agent: AgentRuntime,
  place: EffectPlace,
  { role, task }: Pick<SpawnRequest, "role" | "task">,
  call: DelegatedCall,
): Promise<string> {
  const point = "subagentStart";
  const chain = agent.hooks.chain(point);
  const isUnderWay = agent.log?.hasChildOf(call.callId ?? null, call.nth ?? 0) === true;
  if (chain.length === 0 || isUnderWay) return task;
  const input = { role, task, childDepth: agent.identity.depth + 1 };
  const { patch } = await applyChain(agent, { point, chain, input, place, at: call });
  return patch.task ?? task;
}
