// Parts for tests of subagents: the calls by which a model manages them, and how agents became
// inactive.

import { expect } from "vitest";

import { isRecord } from "../../src/kernel/json.ts";
import { SPAWN_TOOL_NAME } from "../../src/agent/agent-role.ts";
import type { ModelRequest } from "../../src/model/model.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import type { AgentId } from "../../src/protocol/ids.ts";
import type { EspalierEvent } from "../../src/protocol/event.ts";
import type { ScriptedCall } from "../../src/testing/scripted-model.ts";
import { newFixture, type Fixture } from "../harness/run-scripted.ts";

/** A call that starts a subagent in the background. */
export function beside(role: string, task = "Work."): ScriptedCall {
  return { toolName: SPAWN_TOOL_NAME, arguments: { role, task, background: true } };
}

/** A call that lets a subagent continue that has ended. */
export function onward(childName: string, task: string, more: object = {}): ScriptedCall {
  const role = childName.slice(0, childName.indexOf("#"));
  return { toolName: SPAWN_TOOL_NAME, arguments: { role, task, continue: childName, ...more } };
}

/** A call of one of the tools for subagents in the background. */
export function verb(name: string, input: object = {}): ScriptedCall {
  return { toolName: name, arguments: input };
}

export const list = (): ScriptedCall => verb("ListSubagents");
export const waitFor = (...subagents: readonly string[]): ScriptedCall =>
  verb("WaitForSubagents", subagents.length === 0 ? {} : { subagents });
export const write = (subagent: string, message: string): ScriptedCall =>
  verb("MessageSubagent", { subagent, message });
export const cancel = (subagent: string, reason?: string): ScriptedCall =>
  verb("CancelSubagent", { subagent, ...(reason === undefined ? {} : { reason }) });

/** Where each agent rests, and why. */
export function rests(result: RunResult): Readonly<Record<string, string>> {
  return Object.fromEntries(
    result.agents.map(({ agentPath, status, reason }) => [
      agentPath,
      status === "completed" ? status : `${status} (${reason.code})`,
    ]),
  );
}

/** Returns the results of subagents that a model reads, without figures. */
export function outcomes(texts: readonly string[]): readonly unknown[] {
  return texts.map((text) => {
    try {
      const said: unknown = JSON.parse(text);
      if (!isRecord(said)) return said;
      return Object.fromEntries(
        Object.entries(said).filter(([key]) => key !== "steps" && key !== "totalTokens"),
      );
    } catch {
      return text;
    }
  });
}

/** Texts of the messages of an origin in a request, in order. */
export function heard(request: ModelRequest | undefined, origin: string): readonly string[] {
  return (request?.messages ?? []).flatMap((message) =>
    message.role === "user" && message.origin === origin ? [message.text] : [],
  );
}

/** Which subagents have reported, by the messages of a request. */
export function reporters(request: ModelRequest | undefined): readonly string[] {
  return heard(request, "report").map((text) => text.slice(0, text.indexOf(",")));
}

/** Returns the agents that settled, in order, with their status. */
export function settlements({ sink }: Fixture): readonly string[] {
  return sink.ofType("subagent.ended").map(({ childPath, outcome }) => `${childPath} ${outcome}`);
}

/** Paths of the agents in the order in which they ended. */
export function endings({ sink }: Fixture): readonly string[] {
  return sink.ofType("agent.ended").map(({ agentPath }) => agentPath);
}

/** The id of the agent at a path. */
export function idOf(result: RunResult, agentPath: string): AgentId {
  const agent = result.agents.find((one) => one.agentPath === agentPath);
  return agent?.agentId ?? expect.fail(`no agent ${agentPath}`);
}

/** The event by which a subagent was started. */
export function spawnOf({ sink }: Fixture, childPath: string): EspalierEvent<"subagent.spawned"> {
  const event = sink.ofType("subagent.spawned").find((one) => one.childPath === childPath);
  return event ?? expect.fail(`${childPath} was not started`);
}

/** The result of a run, and its snapshot. */
export async function rested(s: Fixture, run: Run) {
  const result = await s.outcome(run);
  return { result, snapshot: run.snapshot() };
}

/** A fixture in which many may be started. */
export function newWideFixture(): Fixture {
  return newFixture({ limits: { maxBreadthPerParent: 20, maxTotalSubagents: 50, maxDepth: 6 } });
}
