// The scope of a guard or a filter: its name, and the tools that it applies to.

import {
  checkFunction,
  checkKeys,
  copyToolNames,
  nameFunction,
} from "../kernel/argument-checks.ts";

/** The name of a guard or a filter, and the tools that it applies to. */
export interface ToolScope {
  /**
   * The name in events, questions, results and errors.
   *
   * @default the name of the function, or a name by position such as `researcher.guard#2`
   */
  readonly name: string | undefined;
  /**
   * The tools that it applies to, named as the model calls them.
   *
   * @default all tools
   */
  readonly tools: readonly string[] | undefined;
}

/** Returns the scope of a guard or a filter. Throws `invalid_argument`. */
export function createToolScope(
  owner: string,
  work: { readonly name: unknown },
  options: Partial<ToolScope>,
): ToolScope {
  checkFunction(`${owner}.check`, work);
  const field = `${owner}.options`;
  checkKeys(field, options, ["name", "tools"]);
  const name = nameFunction(`${field}.name`, options.name, work);
  return { name, tools: copyToolNames(`${field}.tools`, options.tools) };
}
