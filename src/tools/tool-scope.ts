// The scope of a guard or a filter: under which name it is known, and which tools it is for.

import { checkFunction, checkKeys, copyToolNames, nameFunction } from "../kernel/check.ts";

/** What goes with a guard or a filter. */
export interface ToolScopeOptions {
  /** Appears in events, questions, results and errors. Default: the name of the function, or one by place: `researcher.guard#2`. */
  readonly name?: string;
  /** Only these tools, named as the model calls them. Default: all. */
  readonly tools?: readonly string[];
}

/** The checked options. Undefined name: by place. */
export interface ToolScope {
  /** Shown in events and traces; undefined: it has none. */
  readonly name: string | undefined;
  /** The tools for which it is asked; undefined: all. */
  readonly tools: readonly string[] | undefined;
}

/** Checks the function and its options. Throws `invalid_definition` or `invalid_option`. */
export function toolScope(
  owner: string,
  work: { readonly name: unknown },
  options: ToolScopeOptions,
): ToolScope {
  checkFunction(`${owner}.check`, work, "It says what may be.");
  const field = `${owner}.options`;
  checkKeys(field, options, ["name", "tools"]);
  const name = nameFunction(`${field}.name`, options.name, work);
  return { name, tools: copyToolNames(`${field}.tools`, options.tools) };
}
