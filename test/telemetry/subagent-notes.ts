// What an agent notes of subagents that it has had for some time. Every text that a model wrote holds CANARY.

import type { EventBody } from "../../src/protocol/event.ts";
import type { AgentScript } from "./run-script.ts";
import { CANARY } from "./run-script-facts.ts";

/** It continues one that had ended. */
export function continued(child: AgentScript): EventBody<"subagent.continued"> {
  const isBackground = true;
  return { type: "subagent.continued", ...whoIs(child), task: CANARY, isBackground, execution: 2 };
}

/** It leaves one to the run. */
export function detached(child: AgentScript): EventBody<"subagent.detached"> {
  const { childDepth: _depth, ...who } = whoIs(child);
  return { type: "subagent.detached", ...who };
}

function whoIs(child: AgentScript) {
  const { agentId: childId, agentPath: childPath, depth: childDepth } = child.scope();
  return { childId, childPath, role: child.role, childDepth };
}
