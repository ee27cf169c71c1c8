// The hooks that see a task before the subagent that is to work on it starts.

import type { SpawnRequest } from "../../protocol/subagent.ts";
import type { EffectPosition } from "../agent-identity.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { DelegatedCall } from "../run-ports.ts";
import { applyChain } from "./apply-chain.ts";

/** The agent that delegates, and the step in which it does. */
export interface Delegator {
  readonly agent: AgentRuntime;
  readonly place: EffectPosition;
}

/** The task as hooks changed it. Rejects with the coded error of a hook that broke. */
export async function taskAfterHooks(
  { agent, place }: Delegator,
  { role, task }: Pick<SpawnRequest, "role" | "task">,
  call: DelegatedCall,
): Promise<string> {
  const point = "subagentStart";
  const chain = agent.hooks.chain(point);
  if (chain.length === 0) return task;
  const { callId = null, nth = 0 } = call;
  return await agent.effects.taskOf(callId, nth, task, async () => {
    const input = { role, task, childDepth: agent.identity.depth + 1 };
    const { patch } = await applyChain(agent, { point, chain, input, place, at: call });
    return patch.task ?? task;
  });
}
