// What goes with a hook besides its function, checked when the hook is made.

import {
  checkBoolean,
  checkFunction,
  checkKeys,
  copyToolNames,
  misdefinition,
  mismatch,
  nameFunction,
} from "../kernel/check.ts";
import { isEventType, type EventType } from "../protocol/event.ts";
import type { TransformPoint } from "./hook-points.ts";

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
export type TransformOptions<P extends TransformPoint> = (P extends "beforeTool" | "afterTool"
  ? WrapToolOptions
  : HookOptions) & {
  /** What a field that the point does not allow is: an error (default), or dropped with one warning. */
  readonly strict?: boolean;
};

/** What all hooks have in common. */
export interface HookBasics {
  /** Undefined: by place. */
  readonly name: string | undefined;
  /** Higher ones are called first. */
  readonly priority: number;
}

interface Given extends WrapToolOptions {
  readonly strict?: boolean;
}

const TOOL_OWNERS = ["beforeTool", "afterTool", "wrapToolCall"];

/**
 * Returns the checked options of a hook at `owner`: a point or a kind. `part`: its function, by name. `further`: names of options that
 * are checked elsewhere. Throws `invalid_definition` or `invalid_option`.
 */
export function hookBasics(
  [owner, part]: readonly [owner: string, part: string],
  work: { readonly name: unknown },
  options: Given,
  further: readonly string[] = [],
): HookBasics {
  checkFunction(`${owner}.${part}`, work);
  const field = `${owner}.options`;
  checkKeys(field, options, ["name", "priority", ...further]);
  const { priority = 0 } = options;
  if (typeof priority !== "number" || !Number.isFinite(priority))
    throw mismatch(`${field}.priority`, "a finite number", priority, "Leave it out for 0.");
  return { name: nameFunction(`${field}.name`, options.name, work), priority };
}

/** The same for transformers. */
export function transformBasics(owner: string, work: { readonly name: unknown }, options: Given) {
  const { tools, strict = true } = options;
  const basics = hookBasics([owner, "handler"], work, options, ["strict", "tools"]);
  const field = `${owner}.options`;
  checkBoolean(`${field}.strict`, strict);
  if (tools !== undefined && !TOOL_OWNERS.includes(owner)) {
    const expected = `left out: ${owner} is not about a tool`;
    throw misdefinition(
      `${field}.tools`,
      expected,
      tools,
      `Use it with ${TOOL_OWNERS.join(", ")}.`,
    );
  }
  return { ...basics, tools: copyToolNames(`${field}.tools`, tools), strict };
}

/** One event type or several, checked. */
export function checkEventTypes(field: string, types: unknown): readonly EventType[] {
  const list: readonly unknown[] = Array.isArray(types) ? types : [types];
  if (list.length === 0)
    throw misdefinition(field, "at least one event type", types, "Name the events to observe.");
  return Object.freeze(
    list.map((type) => {
      if (isEventType(type)) return type;
      throw misdefinition(field, "a type of event", type, 'Use a type such as "step.completed".');
    }),
  );
}
