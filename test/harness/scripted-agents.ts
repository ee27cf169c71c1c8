// Scripted agents for tests of trees: roles with scripted models, and the replies by which they
// start each other.

import { z } from "zod";

import { SPAWN_TOOL_NAME, type AgentRole } from "../../src/agent/agent-role.ts";
import { defineAgent, type AgentDefinition } from "../../src/agent/define-agent.ts";
import type { ModelRequest } from "../../src/model/model.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import type { Budget } from "../../src/policies/budget.ts";
import {
  says,
  ScriptedModel,
  type ScriptedCall,
  type ScriptedModelOptions,
  type ScriptedReply,
  type ScriptStep,
} from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import type { FunctionTool } from "../../src/tools/tool.ts";
import type { ToolContext } from "../../src/tools/tool-context.ts";
import { flushEventLoop } from "./run-scripted.ts";

/** A role with its scripted model. */
export interface Part {
  readonly role: AgentRole;
  readonly model: ScriptedModel;
}

type Script = readonly ScriptStep[] | ((request: ModelRequest) => ScriptedReply);

interface PartOptions extends Omit<
  AgentDefinition,
  "name" | "description" | "instructions" | "model"
> {
  readonly scripted?: ScriptedModelOptions;
}

/** Scripts repeat tasks; only tests of repeated delegations ask an approver about them. */
export const UNWATCHED = { maxIdenticalDelegations: "unlimited" } as const;

/** Creates a role whose agents follow a script; its model is called `<name>-model`. */
export function part(name: string, script: Script, options: PartOptions = {}): Part {
  const { scripted, delegation, ...definition } = options;
  const bounded = typeof script === "function" ? withEnd(script) : script;
  const id = `${name}-model`;
  const model = new ScriptedModel(bounded, { id, allowUnknownTools: true, ...scripted });
  const description = `Works as ${name}.`;
  const instructions = `You are ${name}.`;
  const role = defineAgent({
    name,
    description,
    instructions,
    model,
    ...definition,
    delegation: { ...UNWATCHED, ...delegation },
  });
  return { role, model };
}

const MOST_REPLIES = 500;

/** Limits the number of replies, so that a broken limit does not make a test endless. */
function withEnd(script: Extract<Script, (request: ModelRequest) => unknown>): typeof script {
  let replies = 0;
  return (request) => {
    replies += 1;
    if (replies > MOST_REPLIES) throw new Error(`asked more than ${MOST_REPLIES} times`);
    return script(request);
  };
}

/** Returns a call that starts a subagent. */
export function spawn(role: string, task = "Work."): ScriptedCall {
  return { toolName: SPAWN_TOOL_NAME, arguments: { role, task } };
}

/** Returns a reply with several calls. */
export function calls(...list: readonly ScriptedCall[]): ScriptedReply {
  return { calls: list };
}

/** Returns a call of a tool without arguments. */
export function use(toolName: string): ScriptedCall {
  return { toolName: toolName, arguments: {} };
}

/** Returns a script for many agents of one role: each follows the list under its task. */
export function byTask(
  scripts: Readonly<Record<string, readonly ScriptStep[]>>,
): (request: ModelRequest) => ScriptedReply {
  return (request) => {
    const start = request.messages.findLastIndex(isTask);
    const task = request.messages[start]?.text ?? "";
    const said = request.messages.slice(start).filter((message) => message.role === "assistant");
    const step = scripts[task]?.[said.length];
    if (step === undefined) throw new Error(`No reply ${said.length} for the task "${task}".`);
    return typeof step === "function" ? step(request) : step;
  };
}

function isTask(message: ModelRequest["messages"][number]): boolean {
  return message.role === "user" && message.origin === "task";
}

/** Returns the texts of the last results in a request. */
export function receivedTexts(request: ModelRequest | undefined): readonly string[] {
  const messages = request?.messages ?? [];
  const spoken = messages.findLastIndex((message) => message.role === "assistant");
  return messages.slice(spoken + 1).map((message) => message.text);
}

/** Creates a tool without arguments. */
export function tool(name: string, execute: (context: ToolContext) => unknown): FunctionTool {
  const input = z.object({});
  return defineTool({
    name,
    description: `Does ${name}.`,
    inputSchema: input,
    maxIdenticalCalls: "unlimited",
    execute: (_input, context) => execute(context),
  });
}

/** Creates a tool that works until its signal aborts. */
export function listens(name: string): FunctionTool {
  return tool(name, async ({ signal }) => {
    await aborted(signal);
    return "stopped early";
  });
}

export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** A root, a child and a leaf. */
export interface Chain {
  readonly root: Part;
  readonly child: Part;
  readonly leaf: Part;
}

/**
 * A root that starts a child that starts a leaf, which uses a tool or makes the given first reply.
 */
export function chain(
  work: FunctionTool,
  first: ScriptedReply = calls(use(work.name)),
  budgets: Partial<Record<keyof Chain, Budget>> = {},
): Chain {
  const leaf = part("leaf", [first, says("Leaf.")], { tools: [work], budget: budgets.leaf ?? {} });
  const child = part("child", [calls(spawn("leaf")), says("Child.")], {
    subagents: [leaf.role],
    budget: budgets.child ?? {},
  });
  const root = part("root", [calls(spawn("child")), says("Root.")], {
    subagents: [child.role],
    budget: budgets.root ?? {},
  });
  return { root, child, leaf };
}

/** Returns the status of each agent, in the order of their start. */
export function ends(result: RunResult): readonly string[] {
  return result.agents.map((agent) => agent.status);
}

/** Waits until the condition holds, without advancing a clock. */
export async function until(holds: () => boolean): Promise<void> {
  for (let round = 0; !holds(); round += 1) {
    if (round > 1_000) throw new Error(`It never came to hold: ${holds.toString()}.`);
    await flushEventLoop();
  }
}

/** Waits until no work proceeds without the test. */
export async function quiet(): Promise<void> {
  for (let round = 0; round < 10; round += 1) await flushEventLoop();
}
