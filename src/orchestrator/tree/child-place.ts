// Where an event about a subagent belongs, and whom it is about.

import type { Correlation } from "../../protocol/event.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { AgentNode } from "./agent-node.ts";

/** A place in an execution of the agent. */
export function placeIn(
  { identity }: AgentNode,
  { stepId = null, callId = null }: Partial<Correlation>,
): Correlation {
  return { ...identity, stepId, callId };
}

/** The subagent, as events name it. */
export function whoIs({ identity, role }: AgentNode): {
  readonly childId: AgentId;
  readonly childPath: string;
  readonly role: string;
  readonly childDepth: number;
} {
  return {
    childId: identity.agentId,
    childPath: identity.agentPath,
    role: role.name,
    childDepth: identity.depth,
  };
}
