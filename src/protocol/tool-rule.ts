// Rules that remove tools from a subagent, and the removed tools.

import { lazyObject, lazySchema, z } from "./lazy-schema.ts";

/**
 * The tool with which an agent with a typed result ends. Rules cannot remove it, since the agent
 * could not end without it.
 */
export const FINISH_TOOL_NAME = "Finish";

/** An allow list and a deny list of tools, with their source. */
export interface ToolRule {
  /**
   * Path of the agent whose policy or request contains the rule. The rule applies to all agents
   * below it.
   */
  readonly source: string;
  /** Allowed tools. Absent for all tools, empty to allow nothing. */
  readonly allowed?: readonly string[];
  /** Names of forbidden tools. */
  readonly denied: readonly string[];
}

/**
 * Tool of a role that a subagent does not have, and the reason.
 *
 * @example
 * ```ts
 * for await (const event of run.events())
 *   if (event.type === "subagent.spawned")
 *     for (const { toolName, rule } of event.inherited.removedTools) console.log(toolName, rule);
 * ```
 */
export interface RemovedTool {
  /** Tool name. */
  readonly toolName: string;
  /**
   * Rule that removed the tool.
   *
   * - `not_allowed`: the list of allowed tools does not contain it.
   * - `denied`: the list of denied tools contains it.
   * - `conflict`: both lists of one policy contain it, which counts as denied.
   * - `no_depth_left`: the tool starts subagents, and the depth limit is reached.
   * - `unknown`: a dynamic role requested it, but no role of the run has such a tool.
   */
  readonly rule: "not_allowed" | "denied" | "conflict" | "no_depth_left" | "unknown";
  /** Path of the agent whose policy, request or limit applies. */
  readonly source: string;
}

/** Tool restrictions of an agent. */
export interface ToolLimits {
  /** Rules that apply to the agent and its descendants, from the root down. */
  readonly rules: readonly ToolRule[];
  /** Tools of its role that the agent does not have. */
  readonly removed: readonly RemovedTool[];
}

/** Restrictions of an agent that has all tools of its role, such as the root. */
export const NO_TOOL_LIMITS: ToolLimits = Object.freeze({
  rules: Object.freeze([]),
  removed: Object.freeze([]),
});

const names = lazySchema(() => z.array(z.string()).readonly());

export const ToolRuleSchema = lazyObject(() => ({
  source: z.string(),
  allowed: names().exactOptional(),
  denied: names(),
})) satisfies () => z.ZodType<ToolRule>;

export const RemovedToolSchema = lazyObject(() => ({
  toolName: z.string(),
  rule: z.enum(["not_allowed", "denied", "conflict", "no_depth_left", "unknown"]),
  source: z.string(),
})) satisfies () => z.ZodType<RemovedTool>;
