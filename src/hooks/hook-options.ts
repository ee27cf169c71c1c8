// What goes with a hook besides its function, checked when the hook is made.

import {
  checkBoolean,
  checkKeys,
  checkList,
  checkText,
  misdefinition,
  mismatch,
} from "../kernel/check.ts";
import { isEventType, type EventType } from "../protocol/event.ts";
import type { TransformPoint, ToolPoint } from "./hook-points.ts";

/** What goes with any hook. */
export interface HookOptions {
  /** Appears in events, signals and errors. Default: the name of the function, or one by place, such as `beforeTool#2`. */
  readonly name?: string;
  /** Higher runs first; equals run in the order in which they were registered. Default 0. */
  readonly priority?: number;
}

/** What goes with a wrap of tool calls. */
export interface WrapToolOptions extends HookOptions {
  /** Only calls of these tools. Default: all. */
  readonly tools?: readonly string[];
}

/** What goes with a transformer at `P`: at points that concern a tool, also which tools. */
export type TransformOptions<P extends TransformPoint> = (P extends ToolPoint
  ? WrapToolOptions
  : HookOptions) & {
  /** What a field that the point does not allow is: an error (default), or dropped with one warning. */
  readonly isStrict?: boolean;
};

/** What all hooks have in common. */
export interface HookBasics {
  /** Undefined: by place. */
  readonly name: string | undefined;
  /** Higher ones are called first. */
  readonly priority: number;
}

interface Given extends WrapToolOptions {
  readonly isStrict?: boolean;
}

const TOOL_OWNERS = ["beforeTool", "afterTool", "wrapToolCall"];

/**
 * The checked options of a hook at `owner`: a point or a kind. Its name is read here once. `further`: names of options that are checked
 * elsewhere. Throws `invalid_definition` or `invalid_option`.
 */
export function hookBasics(
  owner: string,
  work: { readonly name: unknown },
  options: Given,
  further: readonly string[] = [],
): HookBasics {
  const field = `${owner}.options`;
  checkKeys(field, options, ["name", "priority", ...further]);
  const { priority = 0 } = options;
  if (typeof priority !== "number" || !Number.isFinite(priority))
    throw mismatch(`${field}.priority`, "a finite number", priority, "Leave it out for 0.");
  return { name: nameOf(field, work, options), priority };
}

/** The same for transformers. */
export function transformBasics(owner: string, work: { readonly name: unknown }, options: Given) {
  const { tools, isStrict = true } = options;
  const basics = hookBasics(owner, work, options, ["isStrict", "tools"]);
  checkBoolean(`${owner}.options.isStrict`, isStrict);
  return { ...basics, tools: copyToolNames(owner, tools), isStrict };
}

/** One event type or several, checked. */
export function checkEventTypes(field: string, types: unknown): readonly EventType[] {
  const list: readonly unknown[] = Array.isArray(types) ? types : [types];
  if (list.length === 0)
    throw misdefinition(field, "at least one event type", types, "Say what to watch.");
  return Object.freeze(
    list.map((type) => {
      if (isEventType(type)) return type;
      throw misdefinition(field, "a type of event", type, 'Such as "step.completed".');
    }),
  );
}

/** Throws `invalid_definition` unless `value` is a function. */
export function checkFunction(field: string, value: unknown): void {
  if (typeof value !== "function")
    throw misdefinition(field, "a function", value, "It does the work.");
}

function nameOf(
  field: string,
  work: { readonly name: unknown },
  { name }: Given,
): string | undefined {
  if (name !== undefined) checkText(`${field}.name`, name);
  const own = typeof work.name === "string" && work.name.trim() !== "" ? work.name : undefined;
  return name ?? own;
}

/** The names of the tools to which a hook is limited, checked. */
export function copyToolNames(owner: string, tools: Given["tools"]): readonly string[] | undefined {
  if (tools === undefined) return undefined;
  const field = `${owner}.options.tools`;
  if (!TOOL_OWNERS.includes(owner)) {
    const expected = `left out: ${owner} concerns no tool`;
    throw misdefinition(field, expected, tools, `Use it with ${TOOL_OWNERS.join(", ")}.`);
  }
  checkList(field, tools);
  if (tools.length === 0)
    throw misdefinition(field, "at least one tool name", tools, "Leave it out for all tools.");
  for (const [index, name] of tools.entries()) checkText(`${field}[${index}]`, name);
  return Object.freeze([...tools]);
}
