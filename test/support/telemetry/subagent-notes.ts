// Events of an agent about existing subagents. Every text that a model wrote contains CANARY.

import type { EventBody } from "../../../src/protocol/event.ts";
import type { AgentScript } from "./run-script.ts";
import { CANARY } from "./run-script-facts.ts";

/** Returns the event of continuing a subagent that had ended. */
export function continued(child: AgentScript): EventBody<"subagent.continued"> {
  const isBackground = true;
  return { type: "subagent.continued", ...whoIs(child), task: CANARY, isBackground, execution: 2 };
}

/** Returns the event of leaving a subagent to the run. */
export function detached(child: AgentScript): EventBody<"subagent.detached"> {
  const { childDepth: _depth, ...who } = whoIs(child);
  return { type: "subagent.detached", ...who };
}

function whoIs(child: AgentScript) {
  const { agentId: childId, agentPath: childPath, depth: childDepth } = child.scope();
  return { childId, childPath, role: child.role, childDepth };
}
