import { checkText } from "../kernel/check.ts";
import type { HookBounds } from "../hooks/call-hook.ts";
import type { HookContext } from "../hooks/hook-points.ts";
import type { AgentRuntime } from "./agent-runtime.ts";

/** How long the hooks at a step may take, and what they may know. */
export function hookBounds(agent: AgentRuntime, stepNumber: number): HookBounds<HookContext> {
  return {
    ...agent.bounds,
    contextFor: (hookName) => hookContext(agent, stepNumber, hookName),
  };
}

/** What a hook may know and do at a step of an execution. */
export function hookContext(
  agent: AgentRuntime,
  stepNumber: number,
  hookName: string,
): HookContext {
  const { runId, agentId, agentPath, depth, executionId } = agent.identity;
  return Object.freeze({
    runId,
    agentId,
    agentPath,
    depth,
    executionId,
    role: agent.role.name,
    stepNumber,
    hookName,
    metadata: agent.metadata,
    context: agent.run.context,
    signal: agent.signal.abortSignal,
    requestStop: (message: string) => {
      checkText("message", message);
      const reason = { code: "stop_requested", message, data: {} };
      agent.requestOwnStop({ source: "hook", reason, name: hookName });
    },
  });
}
