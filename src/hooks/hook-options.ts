// Options of a hook besides its function. They are checked when the hook is created.

import {
  checkBoolean,
  checkFunction,
  checkKeys,
  copyToolNames,
  mismatch,
  nameFunction,
} from "../kernel/argument-checks.ts";
import { isEventType, type EventType } from "../protocol/event.ts";
import type { TransformPoint } from "./hook-points.ts";

/**
 * Options of every hook.
 *
 * @example
 * ```ts
 * const count = observe("model.replied", () => undefined, { name: "countReplies" });
 * ```
 */
export interface HookOptions {
  /**
   * Name of the hook in events, signals and errors.
   *
   * @default the name of the function, or its place, such as `beforeTool#2`
   */
  readonly name?: string;
  /**
   * Priority. Higher values run first; equal values run in order of registration.
   *
   * @default 0
   */
  readonly priority?: number;
}

/**
 * Options of hooks that wrap tool calls.
 *
 * @example
 * ```ts
 * const once: WrapToolOptions = { name: "audit", tools: ["search"], priority: 5 };
 * const audited = wrapToolCall((_call, next) => next(), once);
 * ```
 */
export interface WrapToolOptions extends HookOptions {
  /**
   * Names of the tools that the hook applies to.
   *
   * @default all tools
   *
   * @example
   * ```ts
   * const deny = transform("beforeTool", () => ({ deny: "Not now." }), { tools: ["deploy"] });
   * ```
   */
  readonly tools?: readonly string[];
}

/**
 * Options of `transform` at point `P`. `tools` is available at `beforeTool` and `afterTool` only.
 *
 * @example
 * ```ts
 * const options: TransformOptions<"beforeTool"> = { tools: ["deploy"], priority: 10 };
 * const deny = transform("beforeTool", () => ({ deny: "Deployments are frozen." }), options);
 * ```
 */
export type TransformOptions<P extends TransformPoint> = (P extends "beforeTool" | "afterTool"
  ? WrapToolOptions
  : HookOptions) & {
  /**
   * True to reject unknown fields in the returned value with `invalid_hook_result`. False to drop
   * them with one warning.
   *
   * @default true
   */
  readonly strict?: boolean;
};

/** Common fields of all hooks. */
export interface HookBasics {
  /** Name of the hook. `undefined` if it is named by its place. */
  readonly name: string | undefined;
  /** Priority. Higher values run first. */
  readonly priority: number;
}

interface AllHookOptions extends WrapToolOptions {
  readonly strict?: boolean;
}

const TOOL_OWNERS = ["beforeTool", "afterTool", "wrapToolCall"];

/**
 * Returns the checked options of a hook at `owner`, which is a point or a kind. `part` names its
 * function, `further` the options that are checked elsewhere. Throws `invalid_argument`.
 */
export function readHookOptions(
  [owner, part]: readonly [owner: string, part: string],
  work: { readonly name: unknown },
  options: AllHookOptions,
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

/** Returns the checked options of a transform hook. */
export function transformBasics(
  owner: string,
  work: { readonly name: unknown },
  options: AllHookOptions,
) {
  const { tools, strict = true } = options;
  const basics = readHookOptions([owner, "handler"], work, options, ["strict", "tools"]);
  const field = `${owner}.options`;
  checkBoolean(`${field}.strict`, strict);
  if (tools !== undefined && !TOOL_OWNERS.includes(owner)) {
    const expected = `left out: ${owner} is not about a tool`;
    throw mismatch(`${field}.tools`, expected, tools, `Use it with ${TOOL_OWNERS.join(", ")}.`);
  }
  return { ...basics, tools: copyToolNames(`${field}.tools`, tools), strict };
}

/** Returns the checked event types as a list. */
export function checkEventTypes(field: string, types: unknown): readonly EventType[] {
  const list: readonly unknown[] = Array.isArray(types) ? types : [types];
  if (list.length === 0)
    throw mismatch(field, "at least one event type", types, "Name the events to observe.");
  return Object.freeze(
    list.map((type) => {
      if (isEventType(type)) return type;
      throw mismatch(field, "a type of event", type, 'Use a type such as "step.completed".');
    }),
  );
}
