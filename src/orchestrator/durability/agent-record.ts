import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { MessageContent } from "../../protocol/message-content.ts";
import type { PausedAgent } from "./paused-run.ts";

/** Content that is no text is kept once: with the task, until a message has it. */
export function taskToKeep({ task, taskContent, currentState }: AgentRuntime): MessageContent {
  return currentState.log.isBriefed ? task : taskContent;
}

/** What is recorded of an agent besides its state and its children. */
export function agentRecord(
  node: AgentRuntime,
): Omit<PausedAgent, "state" | "children" | "ordinals"> {
  const { identity, role, metadata } = node;
  const { runId: _ofAll, ...place } = identity;
  return {
    ...place,
    role: role.name,
    task: taskToKeep(node),
    metadata,
    spawnCallId: node.spawnCallId ?? null,
    spawnStepId: node.spawnStepId ?? null,
    startedAtMs: node.startedAtMs,
    execution: node.execution,
    isDetached: node.isDetached,
    toolRules: node.toolLimits.rules,
    ...(node.draft === undefined ? {} : { draft: node.draft }),
  };
}
