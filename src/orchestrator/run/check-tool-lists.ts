// Names of tools in policies, guards and hooks. A context policy that names an unknown tool is refused
// before a run begins: another tool would stay allowed by mistake. Guards and hooks that name one are
// never called: that is warned of.

import { EspalierError } from "../../kernel/error.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import { unknownToolName } from "../../policies/child-tools.ts";
import type { RoleRegistry } from "../tree/role-registry.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import type { Hook } from "../../hooks/hook.ts";
import type { ToolGuard } from "../../tools/tool-guard.ts";
import type { Settings } from "../tree/settings.ts";

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

/** Warns, once for each, of guards and hooks of the orchestrator and of roles that name a tool which no agent of theirs can have. */
export function warnOfUnknownToolNames(
  registry: RoleRegistry,
  { guards, hooks }: Pick<Settings, "guards" | "hooks">,
): void {
  const ofRun = {
    owner: "the orchestrator",
    where: "of this run",
    names: registry.toolNamesOf(registry.all),
  };
  for (const { guard } of guards) warnOfUnknown(guard, ofRun);
  for (const hook of hooks) warnOfUnknown(hook, ofRun);
  for (const role of registry.all) {
    const ofRole = { owner: role.name, where: "there" };
    if (role.guards.length > 0) {
      const names = registry.toolNamesOf(registry.reachableFrom(role));
      for (const guard of role.guards) warnOfUnknown(guard, { ...ofRole, names });
    }
    if (role.hooks.length > 0) {
      const names = registry.toolNamesOf([role]);
      for (const hook of role.hooks) warnOfUnknown(hook, { ...ofRole, names });
    }
  }
}

/** Where a guard or a hook holds. */
interface Realm {
  readonly owner: string;
  readonly where: string;
  /** The tools that its agents can have. */
  readonly names: ReadonlySet<string>;
}

function warnOfUnknown(limited: ToolGuard | Hook, { owner, where, names }: Realm): void {
  const tools = "tools" in limited ? (limited.tools ?? []) : [];
  const unknown = tools.filter((name) => !names.has(name));
  if (unknown.length === 0) return;
  const known = names.size === 0 ? "they have none" : [...names].join(", ");
  const isHook = "kind" in limited;
  const consequence = isHook ? "the hook is never called" : "the guard guards nothing";
  warnOnce(
    limited,
    `A ${isHook ? "hook" : "guard"} of ${owner} is for ${unknown.join(", ")}, and no agent ${where} has a tool of that name (${known}). Name tools as the model calls them, or ${consequence}.`,
  );
}
