// The tools of one role: found by name, shown to the model in a fixed order, with what holds for their calls.

import { EspalierError } from "../kernel/error.ts";
import { deepFreeze, omitUndefined } from "../kernel/json.ts";
import type { ToolSpec } from "../model/model.ts";
import type { RemovedTool } from "../protocol/tool-rule.ts";
import type { Tool } from "./tool.ts";
import {
  DEFAULT_TOOL_SETTINGS,
  type EffectiveSettings,
  type ToolDefaults,
  type ToolSettings,
} from "./tool-settings.ts";

/** The tools of one agent: found by name, shown to the model in a fixed order. */
export interface ToolSet {
  readonly specs: readonly ToolSpec[];
  readonly names: readonly string[];
  find(name: string): Tool | undefined;
  /** What holds for the calls of a tool; of one that is not there: what the role has set for all. */
  settingsOf(name: string): EffectiveSettings;
}

/** Throws `duplicate_tool` if two tools have one name. */
export function checkNames(owner: string, tools: readonly Tool[]): void {
  const names = new Set<string>();
  for (const { name } of tools) {
    if (names.has(name)) throw createDuplicateToolError(owner, name);
    names.add(name);
  }
}

/** Builds a set. `defaults`: what the role has set for all its tools. Throws `duplicate_tool` if two tools have one name. */
export function buildToolSet(
  owner: string,
  tools: readonly Tool[],
  defaults: ToolDefaults = {},
): ToolSet {
  const known = new Map<string, KnownTool>();
  const specs: ToolSpec[] = [];
  for (const tool of tools) {
    const { name, description, inputSchema, strictSchema } = tool;
    if (known.has(name)) throw createDuplicateToolError(owner, name);
    known.set(name, { tool, settings: mergeToolSettings(tool.settings, defaults) });
    specs.push({
      name,
      description,
      inputSchema: Object.isFrozen(inputSchema) ? inputSchema : structuredClone(inputSchema),
      ...omitUndefined({ strictSchema }),
    });
  }
  return Object.freeze({
    specs: deepFreeze(specs),
    names: Object.freeze([...known.keys()]),
    find: (name: string) => known.get(name)?.tool,
    settingsOf: (name: string) => known.get(name)?.settings ?? mergeToolSettings({}, defaults),
  });
}

interface KnownTool {
  readonly tool: Tool;
  readonly settings: EffectiveSettings;
}

/** What holds for a tool's calls in a role with these defaults. */
function mergeToolSettings(own: ToolSettings, defaults: ToolDefaults): EffectiveSettings {
  return Object.freeze({
    ...DEFAULT_TOOL_SETTINGS,
    ...omitUndefined(defaults),
    ...omitUndefined(own),
  });
}

/** Tools that an agent of a role does not have. */
export interface Narrowing {
  /** Neither shown nor found. */
  readonly gone: ReadonlySet<string>;
  /** Not shown; a call of one is still taken, and answered by the tool itself. */
  readonly hidden: ReadonlySet<string>;
}

/** The set without some of its tools; the set itself, if none of them is in it. */
export function filterToolSet(set: ToolSet, { gone, hidden }: Narrowing): ToolSet {
  const isShown = (name: string): boolean => !gone.has(name) && !hidden.has(name);
  if (set.names.every(isShown)) return set;
  return Object.freeze({
    specs: Object.freeze(set.specs.filter(({ name }) => isShown(name))),
    names: Object.freeze(set.names.filter(isShown)),
    find: (name: string) => (gone.has(name) ? undefined : set.find(name)),
    settingsOf: (name: string) => set.settingsOf(name),
  });
}

function createDuplicateToolError(owner: string, name: string): EspalierError {
  return new EspalierError({
    code: "duplicate_tool",
    message: `Expected ${owner}.tools to have unique names, got two tools named "${name}". Rename one of them.`,
    data: { field: `${owner}.tools`, name },
  });
}

/** Tools that no depth is left for are hidden, not removed: a call of one is refused with the limit that it meets. */
export function excludeRemovedTools(tools: ToolSet, removed: readonly RemovedTool[]): ToolSet {
  const gone = new Set<string>();
  const hidden = new Set<string>();
  for (const { toolName, rule } of removed)
    (rule === "no_depth_left" ? hidden : gone).add(toolName);
  return filterToolSet(tools, { gone, hidden });
}
