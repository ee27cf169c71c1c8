// Roles that a model writes when it delegates: the intersection of what it asks for and what its own role's ceiling allows (X27).

import { messageOf } from "../../kernel/error.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import { defineAgent } from "../../agent/define-agent.ts";
import type { RoleDraft, SpawnRefusal } from "../../protocol/subagent.ts";
import type { RemovedTool } from "../../protocol/tool-rule.ts";
import type { RoleRegistry } from "./role-registry.ts";

/** A draft under the name that it is to have. */
export interface NamedDraft {
  readonly name: string;
  readonly draft: RoleDraft;
}

/** The role that a draft comes to, or why there is none. */
export function draftedRole(
  parent: AgentRole,
  { name, draft }: NamedDraft,
  registry: RoleRegistry,
): AgentRole | SpawnRefusal {
  const { ceiling } = parent;
  if (ceiling === undefined) {
    const choice = choiceOf(registry.subagentsOf(parent));
    return { code: "forbidden_role", message: `Not started: you may not write roles. ${choice}` };
  }
  if (registry.find(name) !== undefined)
    return invalid(`there is a role "${name}" already. Give yours another name, or start that one`);
  const models = Object.keys(ceiling.models);
  const { instructions, tools: asked, model: modelName = models[0] ?? "", steps } = draft;
  const model = Object.hasOwn(ceiling.models, modelName) ? ceiling.models[modelName] : undefined;
  if (model === undefined)
    return invalid(`there is no model "${modelName}". Choose one of: ${models.join(", ")}`);
  const { tools, budget } = ceiling;
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

/** Whoever writes a role, and which tools the run has at all. */
export interface DraftAuthor {
  readonly role: AgentRole;
  readonly agentPath: string;
  readonly isTool: (name: string) => boolean;
}

/** The tools that a draft asks for and that its parent's ceiling does not have, as they are reported. */
export function beyondCeiling(
  { role, agentPath: source, isTool }: DraftAuthor,
  { tools = [] }: RoleDraft,
): readonly RemovedTool[] {
  const allowed = new Set(role.ceiling?.tools.map(({ name }) => name));
  return tools
    .filter((toolName) => !allowed.has(toolName))
    .map((toolName) => ({ toolName, rule: isTool(toolName) ? "not_allowed" : "unknown", source }));
}

function tighterSteps(
  ceiling: number | undefined,
  asked: number | undefined,
): { readonly steps?: number } {
  const steps = Math.min(ceiling ?? Infinity, asked ?? Infinity);
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
