// Which tools a request offers, and how the model may choose, for roles that say so.

import { deepFreeze } from "../../kernel/json.ts";
import type { ToolSpec } from "../../model/model.ts";
import type { ToolChoice } from "../../protocol/model-settings.ts";
import { hiddenTools, type HiddenTool } from "../../tools/tool-filter.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { stepPosition, type AgentState } from "../agent-state.ts";
import { FINISH_TOOL_NAME } from "../finish-tool.ts";

/** The tools of a request, and those that filters took away. */
export interface OfferedTools {
  readonly tools: readonly ToolSpec[];
  readonly hiddenTools: readonly HiddenTool[];
}

/** The tools that filters leave in this step; `Finish` is none of their business. */
export function filteredTools(agent: AgentRuntime, state: AgentState): OfferedTools {
  const { identity, role, tools, metadata } = agent;
  const position = stepPosition(agent, state);
  const names = tools.names.filter((name) => name !== FINISH_TOOL_NAME);
  const facts = deepFreeze({
    agentPath: identity.agentPath,
    depth: identity.depth,
    stepNumber: position.stepNumber,
    steps: state.log.steps,
    usage: state.telemetry.usage,
    remaining: { ...agent.account.remaining() },
    metadata,
  });
  const { context } = agent.run; // The user's own: never frozen.
  const removed = hiddenTools(role.toolFilters, names, Object.freeze({ ...facts, context }));
  if (removed.length > 0) agent.effects.record({ type: "tools.filtered", removed }, position);
  const hidden = new Set(removed.map(({ toolName }) => toolName));
  return { tools: tools.specs.filter(({ name }) => !hidden.has(name)), hiddenTools: removed };
}

/** The role's choice of tools, as far as they are offered. What forces a call holds for one step: an agent must be able to end. */
export function toolChoiceNow(
  toolChoice: ToolChoice,
  { log }: AgentState,
  offered: readonly ToolSpec[],
): ToolChoice | undefined {
  if (offered.length === 0) return undefined;
  if (toolChoice === "auto" || toolChoice === "none") return toolChoice;
  if (log.steps.length > 0) return undefined;
  if (toolChoice === "required") return toolChoice;
  const isOffered = (name: string): boolean => offered.some((tool) => tool.name === name);
  if ("tool" in toolChoice) return isOffered(toolChoice.tool) ? toolChoice : undefined;
  const oneOf = toolChoice.oneOf.filter(isOffered);
  return oneOf.length === 0 ? undefined : { oneOf };
}
