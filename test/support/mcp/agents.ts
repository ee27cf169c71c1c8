// An agent that makes the calls of a test, one in each reply, and their results.

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { ToolExecution } from "../../../src/protocol/tool-outcome.ts";
import { asks, says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import type { FunctionTool } from "../../../src/tools/tool.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";

/** A call: its name and its arguments. */
export type Asked = readonly [name: string, input?: object];

/** Creates an agent that makes these calls one after the other, and then says "Done.". */
export function caller(
  tools: readonly FunctionTool[],
  calls: readonly Asked[],
  more: Partial<Omit<AgentDefinition, "model" | "tools">> = {},
): AgentRole {
  const script: ScriptStep[] = calls.map(([name, input = {}]) => asks(name, input));
  return soloist([...script, says("Done.")], { ...more, tools }).role;
}

/** Runs such an agent and returns the execution of each call. */
export async function made(
  tools: readonly FunctionTool[],
  calls: readonly Asked[],
  { run }: Fixture = newFixture(),
): Promise<readonly ToolExecution[]> {
  return executionsOf(await run(caller(tools, calls)));
}

/** Returns all tool calls of the root, in order. */
export function executionsOf(result: RunResult): readonly ToolExecution[] {
  return result.steps.flatMap(({ tools }) => tools.executions);
}

/** Returns the text that the model read for each call. */
export function textsOf(executions: readonly ToolExecution[]): readonly string[] {
  return executions.map(({ text }) => text);
}
