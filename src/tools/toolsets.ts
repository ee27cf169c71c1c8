// Toolsets: lists of tools, and functions that create new lists from them. A renamed tool works
// unchanged under its new name. Names in every returned list are unique.

import { checkKeys, checkList, checkText, mismatch } from "../kernel/argument-checks.ts";
import { EspalierError } from "../kernel/error.ts";
import type { JsonValue } from "../kernel/json.ts";
import { checkTool, checkToolName } from "./check-tool.ts";
import type { DelegationTool, ExternalTool, FunctionTool } from "./tool.ts";

/**
 * Any tool that a list of tools may contain: every kind but `Finish`, which `output` of a role
 * adds.
 *
 * @example
 * ```ts
 * const tools: readonly ToolsetTool[] = [search, withApproval(search)];
 * ```
 */
export type ToolsetTool<Context = unknown> =
  | FunctionTool<Context>
  | ExternalTool
  | DelegationTool<Context>;

/**
 * Returns the tools with a prefix before their names. With `"github_"`, the tool `search` becomes
 * `github_search`.
 *
 * @throws EspalierError `invalid_argument` if a new name is not a valid name of a tool.
 * @throws EspalierError `duplicate_tool` if two tools have the same name.
 *
 * @example
 * ```ts
 * const webTools = prefixTools([search], "web_"); // web_search
 * ```
 */
export function prefixTools<T extends ToolsetTool<never>>(
  tools: readonly T[],
  prefix: string,
): readonly T[] {
  const places = listPlaces("prefixTools.tools", tools);
  checkText("prefixTools.prefix", prefix);
  return requireUniqueNames(
    "prefixTools",
    places.map(({ tool, at }) => ({ tool: renameTool(at, tool, `${prefix}${tool.name}`), at })),
  );
}

/**
 * Returns the tools, some under new names. Two tools may swap their names.
 *
 * @throws EspalierError `invalid_argument` if no tool has one of the old names.
 * @throws EspalierError `invalid_argument` if a new name is not a valid name of a tool.
 * @throws EspalierError `duplicate_tool` if two tools would have the same name.
 *
 * @example
 * ```ts
 * const tools = renameTools([search], { search: "find_articles" });
 * ```
 */
export function renameTools<T extends ToolsetTool<never>>(
  tools: readonly T[],
  names: Readonly<Record<string, string>>,
): readonly T[] {
  const places = listPlaces("renameTools.tools", tools);
  const oldNames = tools.map(({ name }) => name);
  checkKeys("renameTools.names", names, oldNames);
  const newNames = new Map(Object.entries(names));
  return requireUniqueNames(
    "renameTools",
    places.map(({ tool, at }) =>
      newNames.has(tool.name)
        ? { tool: renameTool(`renameTools.names.${tool.name}`, tool, newNames.get(tool.name)), at }
        : { tool, at },
    ),
  );
}

/**
 * Returns some of the tools in their order: those with the given names, or those for which the
 * function returns true.
 *
 * @throws EspalierError `invalid_argument` if no tool has one of the names.
 * @throws EspalierError `invalid_argument` if the function does not return a boolean.
 * @throws EspalierError `duplicate_tool` if two tools have the same name.
 *
 * @example
 * ```ts
 * const github = await connectMcp({
 *   name: "github",
 *   transport: { type: "http", url: "https://mcp.example/github" },
 * });
 * const byName = filterTools(github.tools, ["search_issues", "get_issue"]);
 * const readers = filterTools(github.tools, ({ name }) => name.startsWith("get_"));
 * ```
 */
export function filterTools<T extends ToolsetTool<never>>(
  tools: readonly T[],
  selection: readonly string[] | ((tool: T) => boolean),
): readonly T[] {
  const places = listPlaces("filterTools.tools", tools);
  const isSelected = typeof selection === "function" ? selection : selectNamed(tools, selection);
  return requireUniqueNames(
    "filterTools",
    places.filter(({ tool, at }) => {
      const answer: unknown = isSelected(tool);
      if (typeof answer === "boolean") return answer;
      throw mismatch(`the answer about ${at}`, "true or false", answer, "Set true or false.");
    }),
  );
}

/**
 * Returns the tools of all lists, in their order.
 *
 * @throws EspalierError `duplicate_tool` if two tools have the same name. The message names both
 * positions.
 *
 * @example
 * ```ts
 * const tools = combineTools([search], prefixTools([search], "web_"));
 * ```
 */
export function combineTools<Lists extends readonly (readonly ToolsetTool<never>[])[]>(
  ...lists: Lists
): readonly Lists[number][number][] {
  const places: ToolPlace<Lists[number][number]>[] = [];
  for (const [index, list] of lists.entries())
    places.push(...listPlaces(`combineTools.lists[${index}]`, list));
  return requireUniqueNames("combineTools", places);
}

/** A tool, and its position in the given lists. */
interface ToolPlace<T extends ToolsetTool<never>> {
  readonly tool: T;
  readonly at: string;
}

function listPlaces<T extends ToolsetTool<never>>(
  field: string,
  tools: readonly T[],
): readonly ToolPlace<T>[] {
  checkList(field, tools);
  return Array.from(tools, (tool, index) => {
    const at = `${field}[${index}]`;
    const kinds = ["function", "external", "delegation"] as const;
    checkTool(at, tool, kinds, "Leave it out: an agent with an output gets Finish automatically.");
    return { tool, at };
  });
}

function selectNamed(
  tools: readonly ToolsetTool<never>[],
  names: readonly string[],
): (tool: ToolsetTool<never>) => boolean {
  const isList: boolean = Array.isArray(names);
  if (!isList)
    throw mismatch("filterTools.kept", "names or a function", names, "Pass an array of names.");
  const known = tools.map(({ name }) => name);
  for (const [index, name] of names.entries()) {
    if (known.includes(name)) continue;
    const field = `filterTools.kept[${index}]`;
    throw mismatch(field, `one of ${known.join(", ")}`, name, "Correct the name.");
  }
  return ({ name }) => names.includes(name);
}

function renameTool<T extends ToolsetTool<never>>(field: string, tool: T, name: unknown): T {
  checkToolName(`${field}.name`, name);
  const { kind, description, inputSchema, settings, sequential } = tool;
  const descriptor = { kind, name: String(name), description, inputSchema, settings, sequential };
  const bind = (input: JsonValue, parsed?: JsonValue) => tool.bind(input, parsed);
  const copy = { ...tool, ...descriptor, bind };
  Object.freeze(copy);
  return copy;
}

function requireUniqueNames<T extends ToolsetTool<never>>(
  field: string,
  places: readonly ToolPlace<T>[],
): readonly T[] {
  const taken = new Map<string, string>();
  for (const { tool, at } of places) {
    const first = taken.get(tool.name);
    if (first !== undefined)
      throw new EspalierError({
        code: "duplicate_tool",
        message: `Expected ${field} to return unique names, got "${tool.name}" from ${first} and from ${at}. Rename one of them, or leave it out.`,
        data: { field, name: tool.name, places: [first, at] },
      });
    taken.set(tool.name, at);
  }
  return Object.freeze(places.map(({ tool }) => tool));
}
