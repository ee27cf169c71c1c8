// Guards and hooks that are limited to tools which no agent has where they hold: they would never be called, without any notice.

import { warnOnce } from "../../kernel/warn-once.ts";
import type { Hook } from "../../hooks/hook.ts";
import type { ToolGuard } from "../../tools/tool-guard.ts";
import type { Settings } from "../tree/settings.ts";
import type { RoleRegistry } from "../tree/role-registry.ts";

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
