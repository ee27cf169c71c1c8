import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { MessageContent } from "../../protocol/message-content.ts";
import type { PausedAgent } from "./paused-run.ts";

/**
 * Returns the task as it is persisted. Attachments are stored once: with the task, until the
 * history contains them.
 */
export function getPersistedTask({ taskText, facts, currentState }: AgentRuntime): MessageContent {
  return currentState.log.isTaskHandled ? taskText : facts.task;
}

/** Returns the record of an agent, without its state and the names of its subagents. */
export function createAgentRecord(node: AgentRuntime): Omit<PausedAgent, "state" | "ordinals"> {
  const { identity, role, facts } = node;
  const { runId: _ofAll, ...place } = identity;
  return {
    ...place,
    role: role.name,
    task: getPersistedTask(node),
    metadata: facts.metadata,
    spawnCallId: facts.spawnCallId ?? null,
    spawnStepId: facts.spawnStepId ?? null,
    startedAtMs: node.firstStartedAtMs,
    execution: node.execution,
    isDetached: node.isDetached,
    toolRules: node.toolLimits.rules,
    ...(facts.roleDefinition === undefined ? {} : { draft: facts.roleDefinition }),
  };
}
