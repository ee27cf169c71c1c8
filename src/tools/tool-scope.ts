// The scope of a guard or a filter: under which name it is known, and which tools it is for.

import { checkKeys, checkList, checkText, misdefinition } from "../kernel/check.ts";

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
  if (typeof work !== "function")
    throw misdefinition(`${owner}.check`, "a function", work, "It says what may be.");
  checkKeys(`${owner}.options`, options, ["name", "tools"]);
  const { name, tools } = options;
  if (name !== undefined) checkText(`${owner}.options.name`, name);
  if (tools !== undefined) checkToolNames(`${owner}.options.tools`, tools);
  const own: unknown = work.name;
  const called = typeof own === "string" && own.trim() !== "" ? own : undefined;
  return {
    name: name ?? called,
    tools: tools === undefined ? undefined : Object.freeze([...tools]),
  };
}

function checkToolNames(field: string, names: readonly string[]): void {
  checkList(field, names);
  if (names.length === 0)
    throw misdefinition(field, "at least one tool name", names, "Leave it out for all tools.");
  for (const [index, name] of names.entries()) checkText(`${field}[${index}]`, name);
}

/** Throws `invalid_definition` unless `given` is a list of what `maker` made. */
export function checkMade(
  field: string,
  given: unknown,
  {
    made,
    what,
    maker,
  }: { readonly made: WeakSet<object>; readonly what: string; readonly maker: string },
): void {
  checkList(field, given);
  const list: readonly unknown[] = Array.isArray(given) ? given : [];
  for (const [index, one] of list.entries()) {
    if (typeof one === "object" && one !== null && made.has(one)) continue;
    throw misdefinition(`${field}[${index}]`, what, one, `Make it with ${maker}().`);
  }
}
