// Selects the tools of a subagent. The allow lists of all agents above it intersect, and a tool
// denied by any of these agents is denied to every agent below (T4).

import { FINISH_TOOL_NAME, type RemovedTool, type ToolRule } from "../protocol/tool-rule.ts";

/** The facts that determine the tools of a subagent. */
export interface ChildToolFacts {
  /** The tools of its role, in their order. */
  readonly names: readonly string[];
  /** From the root down: the rules of the policies of all agents above it, and of the request. */
  readonly rules: readonly ToolRule[];
  /**
   * Present if the subagent cannot start subagents: the tools that would be useless, and the agent
   * whose limit forbids it.
   */
  readonly noDepthLeft?:
    | { readonly toolNames: readonly string[]; readonly source: string }
    | undefined;
}

/**
 * Returns the tools that a subagent does not have, in the order of the role, each with every rule
 * that removes it, from the root down. Never removes `Finish`.
 */
export function collectRemovedTools({
  names,
  rules,
  noDepthLeft,
}: ChildToolFacts): readonly RemovedTool[] {
  return names.flatMap((toolName): readonly RemovedTool[] => {
    if (toolName === FINISH_TOOL_NAME) return [];
    const removed = rules.flatMap(({ source, allowed, denied }): readonly RemovedTool[] => {
      const isAllowed = allowed?.includes(toolName);
      if (denied.includes(toolName))
        return [{ toolName, rule: isAllowed === true ? "conflict" : "denied", source }];
      return isAllowed === false ? [{ toolName, rule: "not_allowed", source }] : [];
    });
    if (noDepthLeft?.toolNames.includes(toolName) === true)
      removed.push({ toolName, rule: "no_depth_left", source: noDepthLeft.source });
    return dropTwinRules(removed);
  });
}

/** Removes duplicates: a policy and a request of the same agent may have equal rules. */
function dropTwinRules(removed: readonly RemovedTool[]): readonly RemovedTool[] {
  return removed.filter(
    ({ rule, source }, index) =>
      removed.findIndex((other) => other.rule === rule && other.source === source) === index,
  );
}

/** An allow list and a deny list. Either may be absent. */
export interface ToolLists {
  readonly allowedTools?: readonly string[] | undefined;
  readonly deniedTools?: readonly string[] | undefined;
}

/** Returns the rule that two lists define. Empty if they forbid nothing. */
export function createToolRules(
  source: string,
  { allowedTools, deniedTools = [] }: ToolLists,
): readonly ToolRule[] {
  if (allowedTools === undefined && deniedTools.length === 0) return [];
  const allowed = allowedTools === undefined ? {} : { allowed: [...allowedTools] };
  return [{ source, ...allowed, denied: [...deniedTools] }];
}

/**
 * A name in a list of a context policy that no tool has. A misspelt name in its deny list would
 * leave the tool allowed.
 */
export interface UnknownToolName {
  /** Place of the name, such as `allowedTools[0]`. */
  readonly field: string;
  readonly toolName: string;
}

/** Returns the first unknown name in the lists. `Finish` is always known. */
export function findUnknownToolName(
  { allowedTools = [], deniedTools = [] }: ToolLists,
  known: ReadonlySet<string>,
): UnknownToolName | undefined {
  const listed = Object.entries({ allowedTools, deniedTools }).flatMap(([list, names]) =>
    names.map((toolName, index) => ({ field: `${list}[${index}]`, toolName })),
  );
  return listed.find(({ toolName }) => toolName !== FINISH_TOOL_NAME && !known.has(toolName));
}
