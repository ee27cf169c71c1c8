// Dynamic roles, which a model writes when it delegates: the intersection of what it asks for and of the bounds in its own role (X27).

import { messageOf } from "../../kernel/error.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import { defineAgent } from "../../agent/define-agent.ts";
import type { DynamicRole, SpawnRefusal } from "../../protocol/subagent.ts";
import type { RemovedTool } from "../../protocol/tool-rule.ts";
import type { RoleRegistry } from "./role-registry.ts";

/** What the model wrote, under the name that the role is to have. */
export interface NamedDynamicRole {
  readonly name: string;
  readonly written: DynamicRole;
}

/** The role that follows from what the model wrote, or why there is none. */
export function makeDynamicRole(
  parent: AgentRole,
  { name, written }: NamedDynamicRole,
  registry: RoleRegistry,
): AgentRole | SpawnRefusal {
  const { dynamicRoles: bounds } = parent;
  if (bounds === undefined) {
    const choice = choiceOf(registry.subagentsOf(parent));
    return { code: "forbidden_role", message: `Not started: you may not write roles. ${choice}` };
  }
  if (registry.find(name) !== undefined)
    return invalid(`there is a role "${name}" already. Give yours another name, or start that one`);
  const models = Object.keys(bounds.models);
  const { instructions, tools: asked, model: modelName = models[0] ?? "", steps } = written;
  const model = Object.hasOwn(bounds.models, modelName) ? bounds.models[modelName] : undefined;
  if (model === undefined)
    return invalid(`there is no model "${modelName}". Choose one of: ${models.join(", ")}`);
  const { tools, budget } = bounds;
  try {
    return defineAgent({
      name,
      purpose: `Written by ${parent.name} for one task.`,
      instructions,
      model,
      tools: asked === undefined ? tools : tools.filter((tool) => asked.includes(tool.name)),
      toolDefaults: parent.toolDefaults,
      budget: { ...budget, ...tighterSteps(budget.steps, steps) },
    });
  } catch (cause) {
    return invalid(`the role cannot be used (${messageOf(cause)}). Write it anew`);
  }
}

/** The agent that writes a role, and which tools the run has at all. */
export interface DynamicRoleAuthor {
  readonly role: AgentRole;
  readonly agentPath: string;
  readonly isTool: (name: string) => boolean;
}

/** The tools that a model asks for beyond the bounds, as they are reported. */
export function beyondBounds(
  { role, agentPath: source, isTool }: DynamicRoleAuthor,
  { tools = [] }: DynamicRole,
): readonly RemovedTool[] {
  const allowed = new Set(role.dynamicRoles?.tools.map(({ name }) => name));
  return tools
    .filter((toolName) => !allowed.has(toolName))
    .map((toolName) => ({ toolName, rule: isTool(toolName) ? "not_allowed" : "unknown", source }));
}

function tighterSteps(
  limit: number | undefined,
  asked: number | undefined,
): { readonly steps?: number } {
  const steps = Math.min(limit ?? Infinity, asked ?? Infinity);
  return steps === Infinity ? {} : { steps };
}

function invalid(problem: string): SpawnRefusal {
  return { code: "invalid_role", message: `Not started: ${problem}.` };
}

/** What the model can start instead. */
export function choiceOf(roles: readonly AgentRole[]): string {
  const names = roles.map((role) => role.name).join(", ");
  return names === ""
    ? "You can start none: do this part yourself."
    : `You can start: ${names}. Call again with one of these.`;
}
