// Names in lists of tools are checked before a run begins: denying a tool that no role has would leave another one allowed by mistake.

import { EspalierError } from "../../kernel/error.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import { unknownToolName } from "../../policies/child-tools.ts";
import type { RoleRegistry } from "../tree/role-registry.ts";

/** Throws `unknown_tool` if a context policy names a tool that no agent below can have. `root`: where the tree begins. */
export function checkToolLists(registry: RoleRegistry, root: AgentRole): void {
  for (const [role, path] of rolePaths(registry, root)) {
    const { context } = role;
    if (context.allowedTools === undefined && context.deniedTools.length === 0) continue;
    const known = toolNamesBelow(registry, role);
    if (known === undefined) continue;
    const unknown = unknownToolName(context, known);
    if (unknown === undefined) continue;
    const { field, toolName } = unknown;
    const names = known.size === 0 ? "they have none" : [...known].join(", ");
    throw new EspalierError({
      code: "unknown_tool",
      message: `Expected ${role.name}.context.${field} to be a tool of an agent below ${path} (${names}), got "${toolName}". Name tools as the model calls them, or leave it out.`,
      data: { field: `${role.name}.context.${field}`, path, got: toolName },
    });
  }
}

/** The roles that can be started, each with the shortest way from the root to it: `lead/researcher`. */
function rolePaths(registry: RoleRegistry, root: AgentRole): ReadonlyMap<AgentRole, string> {
  const paths = new Map([[root, root.name]]);
  for (const [role, path] of paths) {
    for (const subagent of registry.subagentsOf(role))
      if (!paths.has(subagent)) paths.set(subagent, `${path}/${subagent.name}`);
  }
  return paths;
}

/** The tools of all agents that can be below a role; undefined: none can. */
function toolNamesBelow(registry: RoleRegistry, role: AgentRole): ReadonlySet<string> | undefined {
  const subagents = registry.subagentsOf(role);
  if (subagents.length === 0 && role.dynamicRoles === undefined) return undefined;
  const below = subagents.flatMap((one) => [...registry.reachableFrom(one)]);
  const written = (role.dynamicRoles?.tools ?? []).map(({ name }) => name);
  return new Set([...registry.toolNamesOf(below), ...written]);
}
