// An agent that makes the calls a test wants, in one reply each, and what came of them.

import type { AgentRole } from "../../src/agent/agent-role.ts";
import type { AgentDefinition } from "../../src/agent/define-agent.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import type { ToolExecution } from "../../src/protocol/tool-outcome.ts";
import { asks, says, type ScriptStep } from "../../src/testing/scripted-model.ts";
import type { FunctionTool } from "../../src/tools/tool.ts";
import { newFixture, type Fixture } from "../harness/run-scripted.ts";
import { soloist } from "../harness/soloist.ts";

/** A call: a name and arguments. */
export type Asked = readonly [name: string, input?: object];

/** An agent that makes these calls one after the other, and then says "Done.". */
export function caller(
  tools: readonly FunctionTool[],
  calls: readonly Asked[],
  more: Partial<Omit<AgentDefinition, "model" | "tools">> = {},
): AgentRole {
  const script: ScriptStep[] = calls.map(([name, input = {}]) => asks(name, input));
  return soloist([...script, says("Done.")], { ...more, tools }).role;
}

/** Runs it, and gives what became of each call. */
export async function made(
  tools: readonly FunctionTool[],
  calls: readonly Asked[],
  { run }: Fixture = newFixture(),
): Promise<readonly ToolExecution[]> {
  return executionsOf(await run(caller(tools, calls)));
}

/** All tool calls of the root, in order. */
export function executionsOf(result: RunResult): readonly ToolExecution[] {
  return result.steps.flatMap(({ tools }) => tools.executions);
}

/** What the model read of each. */
export function textsOf(executions: readonly ToolExecution[]): readonly string[] {
  return executions.map(({ text }) => text);
}
