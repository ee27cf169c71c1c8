// Dynamic roles, which a model writes when it delegates: the intersection of what it asks for and of the bounds in its own role (X27).

import { messageOf } from "../../kernel/error.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import { defineAgent } from "../../agent/define-agent.ts";
import type { DynamicRole, SpawnRefusal } from "../../protocol/subagent.ts";
import type { RoleRegistry } from "./role-registry.ts";

/** The role that follows from what the model wrote, or why there is none. `role`: the name that it is to have. */
export function makeDynamicRole(
  parent: AgentRole,
  { role: name, draft }: { readonly role: string; readonly draft: DynamicRole },
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
  const { instructions, tools: asked, model: modelName = models[0] ?? "", steps } = draft;
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
      budget:
        steps === undefined ? budget : { ...budget, steps: Math.min(budget.steps ?? steps, steps) },
    });
  } catch (cause) {
    return invalid(`the role cannot be used (${messageOf(cause)}). Write it anew`);
  }
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
