// Accessors for tests of removed tools: offered tools, messages, and removals in events and
// reports.

import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { RemovedTool } from "../../../src/protocol/tool-rule.ts";
import type { Fixture } from "../../harness/run-scripted.ts";
import type { Part } from "../../harness/scripted-agents.ts";

/** Returns the tools in the first request of an agent. */
export function offered({ model }: Part): readonly string[] | undefined {
  return model.requests[0]?.tools.map(({ name }) => name);
}

/** Returns the texts between a child's instructions and its task. */
export function texts({ model }: Part): readonly string[] {
  return (model.requests[0]?.messages ?? []).slice(1, -1).map(({ text }) => text);
}

export function removed(toolName: string, rule: RemovedTool["rule"], source = "lead"): RemovedTool {
  return { toolName, rule, source };
}

export function removedByEvent(s: Fixture): readonly (readonly RemovedTool[])[] {
  return s.sink.ofType("subagent.spawned").map(({ inherited: context }) => context.removedTools);
}

export function removedByReport(result: RunResult): readonly (readonly RemovedTool[])[] {
  return result.agents.map(({ removedTools }) => removedTools);
}
