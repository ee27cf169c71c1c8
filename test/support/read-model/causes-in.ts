// Helpers for the tests of causes: roles with scripted models, and the causes of their runs as
// lines.

import { z } from "zod";

import {
  defineAgent,
  defineTool,
  type AgentDefinition,
  type AgentRole,
} from "../../../src/index.ts";
import { asks, ScriptedModel, type ScriptedReply } from "../../../src/testing/index.ts";
import type { Cause } from "../../../src/read-model/viewer-data.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { foldOf } from "./fold-of.ts";

export function times<T>(count: number, one: T): readonly T[] {
  return Array.from({ length: count }, () => one);
}

export function agent(
  name: string,
  replies: ConstructorParameters<typeof ScriptedModel>[0],
  more: Partial<AgentDefinition> = {},
): AgentRole {
  const model = new ScriptedModel(replies, { allowUnknownTools: true });
  return defineAgent({ name, description: "Works.", instructions: "Work.", model, ...more });
}

export function read(execute: () => string) {
  return defineTool({ name: "read", description: "Reads.", inputSchema: z.object({}), execute });
}

export function spawn(role: string, task: string): ScriptedReply {
  return asks("SpawnSubagent", { role, task });
}

export async function causesIn(lead: AgentRole, budget = {}): Promise<readonly string[]> {
  const fixture = newFixture();
  await fixture.run(lead, { budget });
  return foldOf(fixture.sink.events).causes().map(line);
}

/** Messages of limits are long, so the line omits them. */
export function line({ agentPath, step, toolName, code, message, isLimit }: Cause): string {
  const place = [agentPath, `step ${step}`, ...(toolName === undefined ? [] : [toolName])];
  return [...place, isLimit ? `${code}, a limit` : `${code}: ${message}`].join(" ");
}
