// Which tools of its role a subagent has: the lists of all agents above it intersect, and what one denies no agent below may use (R131, T4).

import { FINISH_TOOL_NAME, type RemovedTool, type ToolRule } from "../protocol/tool-rule.ts";

/** What decides about the tools of a subagent. */
export interface ChildToolFacts {
  /** The tools of its role, in their order. */
  readonly names: readonly string[];
  /** From the root down: of the policies of all agents above it, and of the request. */
  readonly rules: readonly ToolRule[];
  /** Set if it could start no subagent: the tools that would be of no use, and the agent whose limit says so. */
  readonly noDepthLeft?:
    | { readonly toolNames: readonly string[]; readonly source: string }
    | undefined;
}

/**
 * The tools that a subagent does not have. By tool, in the order of the role; of one tool, from the root down. Each rule that takes it away
 * is named. `Finish` stays in any case.
 */
export function toolsTakenAway({
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

/** A policy and a request of one agent may say the same. */
function dropTwinRules(removed: readonly RemovedTool[]): readonly RemovedTool[] {
  return removed.filter(
    ({ rule, source }, index) =>
      removed.findIndex((other) => other.rule === rule && other.source === source) === index,
  );
}

/** Two lists of tools, either of which may be left out. */
export interface ToolLists {
  readonly allowedTools?: readonly string[] | undefined;
  readonly deniedTools?: readonly string[] | undefined;
}

/** The rule that two lists make; none, if they forbid nothing. */
export function toolRules(
  source: string,
  { allowedTools, deniedTools = [] }: ToolLists,
): readonly ToolRule[] {
  if (allowedTools === undefined && deniedTools.length === 0) return [];
  const allowed = allowedTools === undefined ? {} : { allowed: [...allowedTools] };
  return [{ source, ...allowed, denied: [...deniedTools] }];
}

/** A name in a list that no tool has: a slip, by which something would stay allowed that should not. */
export interface UnknownToolName {
  /** `allowedTools[0]`. */
  readonly field: string;
  readonly toolName: string;
}

/** The first name in the lists that is not known; `Finish` always is. */
export function unknownToolName(
  { allowedTools = [], deniedTools = [] }: ToolLists,
  known: ReadonlySet<string>,
): UnknownToolName | undefined {
  const listed = Object.entries({ allowedTools, deniedTools }).flatMap(([list, names]) =>
    names.map((toolName, index) => ({ field: `${list}[${index}]`, toolName })),
  );
  return listed.find(({ toolName }) => toolName !== FINISH_TOOL_NAME && !known.has(toolName));
}
