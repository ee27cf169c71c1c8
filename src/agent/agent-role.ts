// A role: the immutable definition of an agent. Many agents may share one role, also at once.

import type { z } from "zod";
import { misdefinition, shown } from "../kernel/check.ts";
import type { Hook } from "../hooks/hook.ts";
import type { Model } from "../model/model.ts";
import type { Budget } from "../policies/budget.ts";
import type { DelegationPolicy } from "../policies/delegation-policy.ts";
import type { ErrorBudget, ErrorPolicy } from "../policies/error-budget.ts";
import type { StopCondition } from "../policies/stop-conditions.ts";
import type { SubagentContextPolicy } from "../policies/subagent-context-policy.ts";
import type { SubagentLimits } from "../policies/subagent-limits.ts";
import type { ModelSettings, ToolChoice } from "../protocol/model-settings.ts";
import type { JsonSchemaInput } from "../tools/arguments/input-schema.ts";
import type { DelegationTool, FinishTool, FunctionTool, Tool } from "../tools/tool.ts";
import type { ToolFilter } from "../tools/tool-filter.ts";
import type { ToolGuard } from "../tools/tool-guard.ts";
import type { ToolDefaults } from "../tools/tool-settings.ts";
import type { ToolsetTool } from "../tools/toolsets.ts";
import type { Compaction } from "./compaction.ts";
import type { PlacedSection } from "./request-sections.ts";
import type { DynamicRoleBounds } from "./dynamic-role-bounds.ts";
import { EspalierError, messageOf } from "../kernel/error.ts";

/** The typed result of agents of a role; of several roles: that of any. */
export type OutputOf<Role extends AgentRole<unknown, never>> =
  Role extends AgentRole<infer Output, never> ? Output : never;

/** What a role or a tool asks of the context of a run; of several: all that any of them asks. */
export type ContextOf<Part extends AgentRole<unknown, never> | ToolsetTool<never>> =
  // As the parameter of a function, where what several ask comes together.
  (
    Part extends
      | AgentRole<unknown, infer Context>
      | FunctionTool<infer Context>
      | DelegationTool<infer Context>
      ? (context: Context) => void
      : (context: unknown) => void
  ) extends (context: infer Context) => void
    ? Context
    : never;

/**
 * An agent's definition, checked and frozen. Made by `defineAgent`. `Output`: the typed result of its agents; undefined: they give none.
 * `Context`: what its agents, and those that they may start, ask of the context of a run.
 */
export interface AgentRole<out Output = unknown, in Context = unknown> {
  /** What it is called in the tree. */
  readonly name: string;
  /** What a supervisor reads about it. */
  readonly description: string | undefined;
  /** The system prompt of its agents, or what makes it. */
  readonly instructions: string | ((context: Context) => string);
  readonly model: Model;
  readonly tools: readonly Tool<Context>[];
  readonly toolDefaults: ToolDefaults;
  readonly guards: readonly ToolGuard<Context>[];
  readonly toolFilters: readonly ToolFilter<Context>[];
  readonly errorBudget: ErrorBudget;
  readonly errorPolicy: ErrorPolicy;
  /** The roles that it may spawn, as values or by name. */
  readonly subagents: readonly (AgentRole<unknown, Context> | string)[];
  readonly contextPolicy: SubagentContextPolicy;
  readonly delegation: DelegationPolicy;
  /** Only those that the definition gives. */
  readonly limits: Partial<SubagentLimits>;
  readonly dynamicRoles: Required<DynamicRoleBounds<Context>> | undefined;
  readonly budget: Budget;
  /** Whether requests end with what is left of the budget. */
  readonly showBudget: boolean;
  readonly stopWhen: readonly StopCondition<Context>[];
  readonly hooks: readonly Hook<Context>[];
  /** What the model reads on the last step; `true`: what fits the way in which it ends; undefined: nothing. */
  readonly wrapUp: string | true | undefined;
  /** Everything that its requests consist of, in order. */
  readonly sections: readonly PlacedSection<Context>[];
  readonly compaction: Compaction | undefined;
  /** Most tokens of one reply. */
  readonly maxOutputTokens: number;
  /** Undefined: the provider's default. */
  readonly temperature: number | undefined;
  readonly modelSettings: ModelSettings | undefined;
  readonly toolChoice: ToolChoice | undefined;
  /** The schema of the typed result with which it must end; undefined: it gives text. */
  readonly output: z.ZodType<Output> | JsonSchemaInput<Output> | undefined;
  /** True if there is such a schema. */
  readonly hasOutput: boolean;
  /** How the typed result is asked for. */
  readonly outputMode: "auto" | "native" | "tool";
  /** The tool by which the result is given where it is not asked for natively; undefined: there is none to give. */
  readonly finish: FinishTool | undefined;
}

/** The tool by which an agent with subagents delegates. */
export const SPAWN_TOOL_NAME = "SpawnSubagent";

/** The tools that an agent has besides, if it may delegate in the background. */
export const BACKGROUND_TOOL_NAMES = [
  "ListSubagents",
  "WaitForSubagents",
  "MessageSubagent",
  "CancelSubagent",
] as const;

/** What a role says of those that its agents may start. */
interface Delegating {
  readonly subagents: readonly unknown[];
  readonly dynamicRoles: unknown;
}

/** True if agents of the role may start others. */
export function mayDelegate({ subagents, dynamicRoles }: Delegating): boolean {
  return subagents.length > 0 || dynamicRoles !== undefined;
}

/** The tools that a role has for what its agents may do with subagents; none if they may start none. */
export function delegationToolNames(
  role: Delegating & { readonly delegation: DelegationPolicy },
): readonly string[] {
  if (!mayDelegate(role)) return [];
  return role.delegation.background
    ? [SPAWN_TOOL_NAME, ...BACKGROUND_TOOL_NAMES]
    : [SPAWN_TOOL_NAME];
}

/** The instructions of an agent of the role in an execution that is about to begin; asked for once. Throws `instructions_failed`. */
export function instructionsFor({ name, instructions }: AgentRole, context: unknown): string {
  if (typeof instructions === "string") return instructions;
  return askForInstructions(name, instructions, context);
}

function askForInstructions(
  role: string,
  instructions: Exclude<AgentRole["instructions"], string>,
  context: unknown,
): string {
  const failed = (what: string, cause?: unknown): EspalierError =>
    new EspalierError({
      code: "instructions_failed",
      message: `Expected ${role}.instructions to return a non-empty string, but ${what}. Make it a synchronous function of the context.`,
      data: { role },
      cause,
    });
  let text: unknown;
  try {
    text = instructions(context);
  } catch (cause) {
    throw failed(`it threw: ${messageOf(cause)}`, cause);
  }
  if (typeof text === "string" && text.trim() !== "") return text;
  void Promise.resolve(text).catch(() => undefined); // A promise that is not waited for must not be rejected without an owner.
  throw failed(`it returned ${shown(text)}`);
}

/** True for what `defineAgent` made. */
export function isAgentRole(value: unknown): boolean {
  return typeof value === "object" && value !== null && "hasOutput" in value;
}

/** Throws `invalid_definition` if a role that `supervisor` may spawn has no description. */
export function checkDescription(supervisor: string, { name, description }: AgentRole): void {
  if (description !== undefined) return;
  const advice = `Describe ${name} in one line: ${supervisor} chooses its subagents by their descriptions.`;
  throw misdefinition(`${name}.description`, "set, since it is a subagent", description, advice);
}

/** Throws `invalid_definition` unless `value` was made by `defineAgent`. */
export function checkAgentRole(field: string, value: unknown): void {
  if (isAgentRole(value)) return;
  throw misdefinition(field, "an agent role", value, "Create it with defineAgent({ … }).");
}
