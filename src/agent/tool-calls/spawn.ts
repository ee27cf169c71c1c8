// A delegation on its way to the tree: hooks of the parent see it first.

import type { SpawnOutcome, SpawnRequest } from "../../protocol/subagent.ts";
import type { ContinueRequest } from "../../tools/tool-context.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { EffectPosition } from "../agent-identity.ts";
import type { DelegatedCall } from "../run-ports.ts";
import { applyChain } from "./apply-chain.ts";

/** The agent that delegates, and the step in which it does. */
export interface Delegator {
  readonly agent: AgentRuntime;
  readonly place: EffectPosition;
}

/** Starts a subagent with the task as hooks changed it. Rejects with the coded error of a hook that broke, and with nothing else. */
export async function spawnWithHooks(
  delegator: Delegator,
  request: SpawnRequest,
  call: DelegatedCall,
): Promise<SpawnOutcome> {
  const { agent } = delegator;
  const isHooked = agent.hooks.points.has("subagentStart");
  // Awaited in any case: all calls of a reply are looked at before the first of them creates a subagent.
  const task = await (isHooked ? taskAfterHooks(delegator, request, call) : request.task);
  return await agent.run.subagents.spawn(agent, { ...request, task }, call);
}

/** The same for a subagent that has ended and is to continue. */
export async function continueWithHooks(
  delegator: Delegator,
  request: ContinueRequest,
  call: DelegatedCall,
): Promise<SpawnOutcome> {
  const { agent } = delegator;
  const { subagents } = agent.run;
  const known = agent.subagent(request.childName);
  if (known === undefined) return await subagents.continue(agent, request, call);
  const asked = { role: known.role.name, task: request.task };
  const task = await taskAfterHooks(delegator, asked, call);
  return await subagents.continue(agent, { ...request, task }, call);
}

async function taskAfterHooks(
  { agent, place }: Delegator,
  { role, task }: Pick<SpawnRequest, "role" | "task">,
  call: DelegatedCall,
): Promise<string> {
  const point = "subagentStart";
  const chain = agent.hooks.chain(point);
  const isInFlight = agent.log?.hasChildOf(call.callId ?? null, call.nth ?? 0) === true;
  if (chain.length === 0 || isInFlight) return task;
  const input = { role, task, childDepth: agent.identity.depth + 1 };
  const { patch } = await applyChain(agent, { point, chain, input, place, at: call });
  return patch.task ?? task;
}
