// Requests and outcomes of delegations. Plain values only: a parent receives no live object.

import type { JsonObject, JsonValue } from "../kernel/json.ts";
import { ContentSchema, type MessageContent } from "./message-content.ts";
import type { AgentId, ExecutionId } from "./ids.ts";
import { lazyObject, lazySchema, z } from "./lazy-schema.ts";
import type { ErrorRecord, StopReason, TerminalStatus } from "./stop.ts";
import type { ToolErrorRecord } from "./tool-error-record.ts";
import { SPAWN_REFUSAL_CODES, type SpawnRefusalCode } from "./tool-failure.ts";
import type { RemovedTool } from "./tool-rule.ts";
import type { UsageReport } from "./usage.ts";

/**
 * Role that a model or a tool defines when it spawns a subagent. The parent role's `dynamicRoles`
 * bounds it.
 *
 * @example
 * ```ts
 * const roleDefinition: DynamicRole = {
 *   instructions: "Translate the text to French. Reply with the translation only.",
 *   tools: [],
 *   steps: 2,
 * };
 * ```
 */
export interface DynamicRole {
  /** System prompt of the role. */
  readonly instructions: string;
  /**
   * Names of tools within the bounds.
   *
   * @default all tools within the bounds
   */
  readonly tools?: readonly string[];
  /**
   * Name of a model within the bounds.
   *
   * @default the first model within the bounds
   */
  readonly model?: string;
  /** Maximum number of steps. The budget of the bounds applies as well. */
  readonly steps?: number;
}

/**
 * Request to start a subagent. The model writes it as the arguments of `SpawnSubagent`, and code
 * passes it to `context.spawn` and `context.queueSubtask`.
 *
 * @example
 * ```ts
 * const consult = defineDelegation({
 *   name: "consult",
 *   description: "Asks a researcher.",
 *   inputSchema: z.object({ question: z.string() }),
 *   execute: ({ question }, { spawn }) => spawn({ role: "researcher", task: question }),
 * });
 * ```
 */
export interface SpawnRequest {
  /** Name of the role to start. With `roleDefinition`, the name of the new role. */
  readonly role: string;
  /** Task of the subagent: a text, or parts with images or files. */
  readonly task: MessageContent;
  /**
   * True to return a receipt at once. The result then arrives as a message.
   *
   * @default false
   */
  readonly background?: boolean;
  /**
   * Ended subagents of the same parent, by `subagent`. The new subagent receives their full
   * results.
   *
   * @example
   * ```ts
   * const request: SpawnRequest = {
   *   role: "writer",
   *   task: "Write the summary.",
   *   includeResultsFrom: ["researcher#1", "researcher#2"],
   * };
   * ```
   */
  readonly includeResultsFrom?: readonly string[];
  /**
   * Tools of the role that the subagent may use.
   *
   * @default all tools of the role
   */
  readonly allowedTools?: readonly string[];
  /** Tools of the role that the subagent may not use. They override `allowedTools`. */
  readonly deniedTools?: readonly string[];
  /** Definition of a new role. The parent's role must have `dynamicRoles`. */
  readonly roleDefinition?: DynamicRole;
}

/**
 * Refusal to start a subagent. The parent's model reads the message.
 *
 * @example
 * ```ts
 * for await (const event of run.events())
 *   if (event.type === "subagent.refused") {
 *     const { code, maximum, current } = event.error;
 *     console.warn(code, `${current ?? "?"} of ${maximum ?? "?"}`);
 *   }
 * ```
 */
export interface SpawnRefusal {
  /** Reason code. */
  readonly code: SpawnRefusalCode;
  /** Instruction to the model: the limit, its current value, and an alternative. */
  readonly message: string;
  /** Value of the limit. Absent if the reason is not a number. */
  readonly maximum?: number | undefined;
  /**
   * Current value, in the unit of `maximum`. For a budget it is the spent amount (`spent` in
   * `budget.refused` events), and is named `current` because depth and numbers of subagents are
   * not spent.
   */
  readonly current?: number | undefined;
}

/**
 * Quality of a subagent's result. Only `completed` is a success.
 *
 * - `completed`: the subagent answered.
 * - `partial`: it was stopped, but wrote a text before.
 * - `no_output`: it ended without failing and without a text or a typed result.
 * - `failed`: an error ended it.
 * - `cancelled`: it was cancelled.
 *
 * @example
 * ```ts
 * function textFor(result: SubagentResult): string {
 *   return result.outcome === "completed" ? result.text : `(${result.outcome}) ${result.text}`;
 * }
 * ```
 */
export type SubagentOutcome = "completed" | "partial" | "no_output" | "failed" | "cancelled";
const SUBAGENT_OUTCOMES = [
  "completed",
  "partial",
  "no_output",
  "failed",
  "cancelled",
] as const satisfies readonly SubagentOutcome[];

/**
 * Final report of a subagent. The parent receives nothing else.
 *
 * @example
 * ```ts
 * const consult = defineDelegation({
 *   name: "consult",
 *   description: "Asks a researcher.",
 *   inputSchema: z.object({ question: z.string() }),
 *   execute: async ({ question }, { spawn }) => {
 *     const outcome = await spawn({ role: "researcher", task: question });
 *     if (outcome.type === "ended") console.log(outcome.result.text, outcome.result.stepCount);
 *     return outcome;
 *   },
 * });
 * ```
 */
export interface SubagentResult {
  /** Id of the subagent. */
  readonly agentId: AgentId;
  /** Id of the execution that ended. */
  readonly executionId: ExecutionId;
  /** Role name of the subagent. */
  readonly role: string;
  /**
   * Name under which the parent knows the subagent: the last part of its path, such as
   * `researcher#2`.
   */
  readonly subagent: string;
  /** Path of the subagent in the tree, such as `lead/researcher#2`. */
  readonly agentPath: string;
  /** Depth of the subagent. 1 is directly below the root. */
  readonly depth: number;
  /** Quality of the result. */
  readonly outcome: SubagentOutcome;
  /** Final status. */
  readonly status: TerminalStatus;
  /** Reason of the end. */
  readonly reason: StopReason;
  /** Last text that the subagent wrote. Partial unless it completed. */
  readonly text: string;
  /** Typed result. `undefined` if the role declares none, or none was given. */
  readonly output?: JsonValue | undefined;
  /** Number of steps in the execution. */
  readonly stepCount: number;
  /** Number of calls that ran, by tool name. */
  readonly toolsUsed: Readonly<Record<string, number>>;
  /** Usage of the subagent and its descendants. */
  readonly usage: UsageReport;
  /** Errors that ended the subagent. */
  readonly errors: readonly ErrorRecord[];
  /** Failed tool calls, including those that the model recovered from. */
  readonly toolErrors: readonly ToolErrorRecord[];
  /** Metadata of the subagent. */
  readonly metadata: JsonObject;
  /** Tools of the role that the subagent did not have, each with the reason. */
  readonly removedTools: readonly RemovedTool[];
  /** Milliseconds from the start of the execution to its end. */
  readonly durationMs: number;
}

/**
 * Outcome of a spawn request. Narrow it by `type`.
 *
 * - `ended`: the subagent has ended, with `result`.
 * - `started`: the subagent runs in the background.
 * - `paused`: the subagent is paused together with the run.
 * - `refused`: no subagent was started, for the reason in `refusal`.
 *
 * @example
 * ```ts
 * function describe(outcome: SpawnOutcome): string {
 *   if (outcome.type === "ended") return outcome.result.text;
 *   if (outcome.type === "refused") return outcome.refusal.message;
 *   return `${outcome.childId} is ${outcome.type}`;
 * }
 * ```
 */
export type SpawnOutcome =
  | { readonly type: "ended"; readonly result: SubagentResult }
  | SubagentReceipt
  | { readonly type: "paused"; readonly childId: AgentId }
  | { readonly type: "refused"; readonly refusal: SpawnRefusal };

/**
 * Receipt for a subagent that runs in the background.
 *
 * @example
 * ```ts
 * const startResearch = defineDelegation({
 *   name: "start_research",
 *   description: "Starts a researcher in the background.",
 *   inputSchema: z.object({ topic: z.string() }),
 *   execute: ({ topic: task }, { spawn }) => spawn({ role: "researcher", task, background: true }),
 * });
 * ```
 */
export interface SubagentReceipt {
  /** Always `started`. The result arrives as a message. */
  readonly type: "started";
  /** Id of the subagent. */
  readonly childId: AgentId;
  /** Name under which the parent knows the subagent, such as `researcher#2`. */
  readonly subagent: string;
  /** Role name of the subagent. */
  readonly role: string;
}

const NamesSchema = lazySchema(() => z.array(z.string().min(1)).readonly());

export const DynamicRoleSchema = lazyObject(() => ({
  instructions: z.string().min(1),
  tools: NamesSchema().exactOptional(),
  model: z.string().min(1).exactOptional(),
  steps: z.int().nonnegative().exactOptional(),
})) satisfies () => z.ZodType<DynamicRole>;

export const SpawnRequestSchema = lazyObject(() => ({
  role: z.string().min(1),
  task: z.union([z.string().min(1), ContentSchema()]),
  background: z.boolean().exactOptional(),
  includeResultsFrom: NamesSchema().exactOptional(),
  allowedTools: NamesSchema().exactOptional(),
  deniedTools: NamesSchema().exactOptional(),
  roleDefinition: DynamicRoleSchema().exactOptional(),
})) satisfies () => z.ZodType<SpawnRequest>;

export const SpawnRefusalSchema = lazyObject(() => ({
  code: z.enum(SPAWN_REFUSAL_CODES),
  message: z.string(),
  maximum: z.number().optional(),
  current: z.number().optional(),
})) satisfies () => z.ZodType<SpawnRefusal>;

export const SubagentOutcomeSchema = lazySchema(() => z.enum(SUBAGENT_OUTCOMES));
