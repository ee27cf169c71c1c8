// The tools of a role: by name, in a fixed order for the model, with the settings of their calls.

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

/** The tools of an agent: by name, in a fixed order for the model. */
export interface ToolSet {
  readonly specs: readonly ToolSpec[];
  readonly names: readonly string[];
  find(name: string): Tool | undefined;
  /** Returns the settings of a tool, or the role's defaults for an unknown tool. */
  getSettings(name: string): EffectiveSettings;
}

/** Throws `duplicate_tool` if two tools have one name. */
export function checkNames(owner: string, tools: readonly Tool[]): void {
  const names = new Set<string>();
  for (const { name } of tools) {
    if (names.has(name)) throw createDuplicateToolError(owner, name);
    names.add(name);
  }
}

/**
 * Creates a set. `defaults`: the role's settings for all tools. Throws `duplicate_tool` if two
 * tools have one name.
 */
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
    getSettings: (name: string) => known.get(name)?.settings ?? mergeToolSettings({}, defaults),
  });
}

interface KnownTool {
  readonly tool: Tool;
  readonly settings: EffectiveSettings;
}

/** Returns the settings of a tool in a role with these defaults. */
function mergeToolSettings(settings: ToolSettings, defaults: ToolDefaults): EffectiveSettings {
  return Object.freeze({
    ...DEFAULT_TOOL_SETTINGS,
    ...omitUndefined(defaults),
    ...omitUndefined(settings),
  });
}

function createDuplicateToolError(owner: string, name: string): EspalierError {
  return new EspalierError({
    code: "duplicate_tool",
    message: `Expected ${owner}.tools to have unique names, got two tools named "${name}". Rename one of them.`,
    data: { field: `${owner}.tools`, name },
  });
}

/**
 * Returns the set without the removed tools, or the same set if it has none of them. Tools without
 * remaining depth are hidden instead of removed, so that a call is refused with the limit that it
 * exceeds.
 */
export function excludeRemovedTools(tools: ToolSet, removed: readonly RemovedTool[]): ToolSet {
  const isShown = (name: string): boolean => removed.every(({ toolName }) => toolName !== name);
  const isExcluded = (name: string): boolean =>
    removed.some(({ toolName, rule }) => toolName === name && rule !== "no_depth_left");
  if (tools.names.every(isShown)) return tools;
  return Object.freeze({
    specs: Object.freeze(tools.specs.filter(({ name }) => isShown(name))),
    names: Object.freeze(tools.names.filter(isShown)),
    find: (name: string) => (isExcluded(name) ? undefined : tools.find(name)),
    getSettings: (name: string) => tools.getSettings(name),
  });
}
