// A role: the immutable definition of an agent. Many agents may share one role, also at once.

import type { z } from "zod";
import { mismatch, describeReceived } from "../kernel/argument-checks.ts";
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
import { isAgentRole } from "../tools/check-tool.ts";
import type { DelegationTool, FinishTool, FunctionTool, Tool } from "../tools/tool.ts";
import type { ToolFilter } from "../tools/tool-filter.ts";
import type { ToolGuard } from "../tools/tool-guard.ts";
import type { ToolDefaults } from "../tools/tool-settings.ts";
import type { ToolsetTool } from "../tools/toolsets.ts";
import type { Compaction } from "./compaction.ts";
import type { PlacedSection } from "./request-sections.ts";
import type { DynamicRoleBounds } from "./dynamic-role-bounds.ts";
import { EspalierError, getErrorMessage } from "../kernel/error.ts";

/**
 * Extracts the type of a role's typed result. For a union of roles it is the union of their
 * results.
 *
 * @example
 * ```ts
 * const review = defineAgent({
 *   name: "review",
 *   instructions: "Rate the essay.",
 *   model,
 *   output: z.object({ grade: z.number() }),
 * });
 * type Review = InferOutput<typeof review>; // { grade: number }
 * ```
 */
export type InferOutput<Role extends AgentRole<unknown, never>> =
  Role extends AgentRole<infer Output, never> ? Output : never;

/**
 * Extracts the type of the run context that a role or a tool reads. For several parts it is the
 * intersection of their contexts.
 *
 * @example
 * ```ts
 * const greet = defineTool({
 *   name: "greet",
 *   description: "Greets the user.",
 *   inputSchema: z.object({}),
 *   execute: (_input, { context }: ToolContext<{ readonly userId: string }>) => context.userId,
 * });
 * type Needs = InferContext<typeof greet>; // { readonly userId: string }
 * ```
 */
export type InferContext<Part extends AgentRole<unknown, never> | ToolsetTool<never>> =
  // As the parameter of a function, because parameter types of a union are intersected.
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
 * The checked and frozen definition of an agent, returned by `defineAgent`. The fields are those of
 * `AgentDefinition` with their defaults filled in.
 *
 * - `Output`: type of the typed result. `undefined` for a role without `output`.
 * - `Context`: type of the run context that the agents of the role, and those that they may start,
 *   read.
 *
 * @example
 * ```ts
 * const describe = (role: AgentRole): string => `${role.name} (${role.tools.length} tools)`;
 * ```
 */
export interface AgentRole<out Output = unknown, in Context = unknown> {
  /** The name of the role, part of each agent's path. */
  readonly name: string;
  /** A line that tells a supervising model when to delegate to this role. */
  readonly description: string | undefined;
  /** The system prompt of the agents, or the function of the run context that returns it. */
  readonly instructions: string | ((context: Context) => string);
  /** The model that answers the agents of this role. */
  readonly model: Model;
  /**
   * Tools that the model may call. If the typed result may be given by a call, `Finish` is the
   * last.
   */
  readonly tools: readonly Tool<Context>[];
  /** Settings for tools that have no setting of their own. */
  readonly toolDefaults: ToolDefaults;
  /** Guards of the tool calls of these agents and of every agent below. */
  readonly guards: readonly ToolGuard<Context>[];
  /** Filters that hide tools before each step. */
  readonly toolFilters: readonly ToolFilter<Context>[];
  /** Failed tool calls that one execution tolerates. */
  readonly errorBudget: ErrorBudget;
  /** The reaction to denied calls and used-up retries. */
  readonly errorPolicy: ErrorPolicy;
  /** Roles that the model may start, as values or by name. */
  readonly subagents: readonly (AgentRole<unknown, Context> | string)[];
  /** The context that subagents inherit. */
  readonly contextPolicy: SubagentContextPolicy;
  /** Rules for delegation. */
  readonly delegation: DelegationPolicy;
  /** Limits on the tree of subagents, without defaults: only what the definition sets. */
  readonly limits: Partial<SubagentLimits>;
  /** Bounds of the roles that the model may write. `undefined` if it may not write any. */
  readonly dynamicRoles: Required<DynamicRoleBounds<Context>> | undefined;
  /** Upper limits for each agent of this role, its descendants included. */
  readonly budget: Budget;
  /** True if every request ends with a line about the remaining budget. */
  readonly showBudget: boolean;
  /** Conditions that stop the agent, in the order in which they are checked. */
  readonly stopWhen: readonly StopCondition<Context>[];
  /** Hooks of the role, in the order in which they run. */
  readonly hooks: readonly Hook<Context>[];
  /**
   * The notice to finish in the last step. `true` is the standard notice, `undefined` is no notice.
   */
  readonly wrapUp: string | true | undefined;
  /** All parts of a request in their order, the built-in ones included. */
  readonly sections: readonly PlacedSection<Context>[];
  /** Rules for shortening a long history. `undefined` if the history is never shortened. */
  readonly compaction: Compaction | undefined;
  /** Maximum output tokens of a reply. */
  readonly maxOutputTokens: number;
  /** Sampling temperature. `undefined` for the provider's default. */
  readonly temperature: number | undefined;
  /** Settings of each model call. `undefined` for those of the model's adapter. */
  readonly modelSettings: ModelSettings | undefined;
  /**
   * The tools that the model may or must call. `undefined` for the default of the model's adapter.
   */
  readonly toolChoice: ToolChoice | undefined;
  /** The schema of the typed result. `undefined` if the agents end with a text. */
  readonly output: z.ZodType<Output> | JsonSchemaInput<Output> | undefined;
  /** True if the role has an output schema. */
  readonly hasOutput: boolean;
  /** The way in which the typed result is requested from the model. */
  readonly outputMode: "auto" | "native" | "tool";
  /**
   * The tool `Finish`, by which the model gives a typed result. `undefined` for a role without
   * `output`.
   */
  readonly finish: FinishTool | undefined;
}

/** The tool by which an agent delegates. */
export const SPAWN_TOOL_NAME = "SpawnSubagent";

/** The additional tools of an agent that may delegate in the background. */
export const BACKGROUND_TOOL_NAMES = [
  "ListSubagents",
  "WaitForSubagents",
  "MessageSubagent",
  "CancelSubagent",
] as const;

/** The fields of a role that decide whether its agents may start subagents. */
interface Delegating {
  readonly subagents: readonly unknown[];
  readonly dynamicRoles: unknown;
}

/** Returns true if agents of the role may start subagents. */
export function canStartSubagents({ subagents, dynamicRoles }: Delegating): boolean {
  return subagents.length > 0 || dynamicRoles !== undefined;
}

/**
 * Returns the names of the built-in tools for delegation that a role has. Empty if its agents may
 * not start subagents.
 */
export function getDelegationToolNames(
  role: Delegating & { readonly delegation: DelegationPolicy },
): readonly string[] {
  if (!canStartSubagents(role)) return [];
  return role.delegation.background
    ? [SPAWN_TOOL_NAME, ...BACKGROUND_TOOL_NAMES]
    : [SPAWN_TOOL_NAME];
}

/**
 * Returns the instructions of an execution that is about to begin. Call it once per execution.
 * Throws `instructions_failed`.
 */
export function resolveInstructions({ name, instructions }: AgentRole, context: unknown): string {
  if (typeof instructions === "string") return instructions;
  return askForInstructions(name, instructions, context);
}

function askForInstructions(
  role: string,
  instructions: Exclude<AgentRole["instructions"], string>,
  context: unknown,
): string {
  const failed = (problem: string, cause?: unknown): EspalierError =>
    new EspalierError({
      code: "instructions_failed",
      message: `Expected ${role}.instructions to return a non-empty string, but ${problem}. Make it a synchronous function of the context.`,
      data: { role },
      cause,
    });
  let text: unknown;
  try {
    text = instructions(context);
  } catch (cause) {
    throw failed(`it threw: ${getErrorMessage(cause)}`, cause);
  }
  if (typeof text === "string" && text.trim() !== "") return text;
  // The ignored promise must not cause an unhandled rejection.
  void Promise.resolve(text).catch(() => undefined);
  throw failed(`it returned ${describeReceived(text)}`);
}

/** Throws `invalid_argument` if a role that `parent` may spawn has no description. */
export function checkDescription(parent: string, { name, description }: AgentRole): void {
  if (description !== undefined) return;
  const advice = `Describe ${name} in one line: ${parent} chooses its subagents by their descriptions.`;
  throw mismatch(`${name}.description`, "set, since it is a subagent", description, advice);
}

/** Throws `invalid_argument` unless `defineAgent` created the value. */
export function checkAgentRole(field: string, value: unknown): void {
  if (isAgentRole(value)) return;
  throw mismatch(field, "an agent role", value, "Create it with defineAgent({ … }).");
}
