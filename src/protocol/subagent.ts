// A delegation, as it is asked for and as it is answered. Values only: no live object reaches a parent (C25).

import type { JsonObject, JsonValue } from "../kernel/json.ts";
import { ContentSchema, type MessageContent } from "./message-content.ts";
import type { AgentId, ExecutionId } from "./ids.ts";
import { lazyObject, lazySchema, z } from "./lazy-schema.ts";
import type { ErrorRecord, StopReason, TerminalStatus } from "./stop.ts";
import type { ToolErrorRecord } from "./tool-error-record.ts";
import type { RemovedTool } from "./tool-rule.ts";
import type { UsageReport } from "./usage.ts";

/** A role that is written at spawn. It gets no more than the bounds of the role that spawns it allow. */
export interface DynamicRole {
  /** Its system prompt. */
  readonly instructions: string;
  /** Names of tools within the bounds. Left out: all of them. */
  readonly tools?: readonly string[];
  /** Name of a model within the bounds. Left out: its first. */
  readonly model?: string;
  /** Steps that it may take; the budget of the bounds holds all the same. */
  readonly steps?: number;
}

/** What a delegation asks for. */
export interface SpawnRequest {
  /** Name of the role to start; with `roleDefinition`, the name that the new role gets. */
  readonly role: string;
  /** What the subagent is to do: a text, or parts of which some are images or files. */
  readonly task: MessageContent;
  /** The call ends at once with a receipt; the result comes as a message. Default false. */
  readonly background?: boolean;
  /** Subagents of the same parent that have ended: their results are handed on word for word, as `childName` names them. */
  readonly includeResultsFrom?: readonly string[];
  /** Of its tools, only these. Left out: all. */
  readonly allowedTools?: readonly string[];
  /** None of these tools. */
  readonly deniedTools?: readonly string[];
  /** A new role, where the parent's role has bounds for such. */
  readonly roleDefinition?: DynamicRole;
}

/** All values of `SpawnRefusalCode`. */
export const SPAWN_REFUSAL_CODES = [
  "unknown_role",
  /** The agent may not define roles of its own. */
  "forbidden_role",
  /** A role that was defined at spawn cannot be used. */
  "invalid_role",
  /** The context that the subagent was to inherit could not be built. */
  "context_policy_failed",
  /** The agent has no subagent of that name. */
  "unknown_subagent",
  "subagent_running",
  "subagent_ended",
  /** The outcome of others of the same reply leaves nothing to do for this one. */
  "group_decided",
  /** A guard or a hook denied the call. */
  "blocked",
  /** A rule or a filter forbids the tool. */
  "tool_not_available",
  "depth_limit",
  "breadth_limit",
  "total_limit",
  "budget_exhausted",
  "setup_failed",
] as const;
/** Why a subagent was not started. `blocked`: a guard or a hook denied the call; `tool_not_available`: a rule or a filter forbids the tool. */
export type SpawnRefusalCode = (typeof SPAWN_REFUSAL_CODES)[number];

/** A delegation that policy forbade. */
export interface SpawnRefusal {
  /** Why it was not started. */
  readonly code: SpawnRefusalCode;
  /** An instruction to the model: which limit, where it stands, what to do instead. */
  readonly message: string;
  /** The limit, in the unit of the message. Absent: no number is behind it. */
  readonly maximum?: number | undefined;
  /** Where the limit stands, in the same unit. */
  readonly current?: number | undefined;
}

/**
 * What a subagent's result is worth. Only `completed` is a success. `partial`: it was stopped, and wrote something before.
 * `no_output`: it ended without failing, and there is neither a text nor a typed result.
 */
export type SubagentOutcome = "completed" | "partial" | "no_output" | "failed" | "cancelled";
const SUBAGENT_OUTCOMES = [
  "completed",
  "partial",
  "no_output",
  "failed",
  "cancelled",
] as const satisfies readonly SubagentOutcome[];

/** How a subagent ended: the whole of what its parent learns. */
export interface SubagentResult {
  readonly agentId: AgentId;
  readonly executionId: ExecutionId;
  /** The name of its role. */
  readonly role: string;
  /** What its parent calls it: the end of its path, such as `researcher#2`. */
  readonly childName: string;
  /** Place in the tree: `lead/researcher#2`. */
  readonly agentPath: string;
  /** 1 below the root. */
  readonly depth: number;
  /** What its result is worth. */
  readonly outcome: SubagentOutcome;
  /** How it ended. */
  readonly status: TerminalStatus;
  /** Why it ended. */
  readonly reason: StopReason;
  /** The last text that the subagent wrote; partial if it did not complete. */
  readonly text: string;
  /** The typed result, if its role declares one and it was given. */
  readonly output?: JsonValue | undefined;
  /** How many steps its execution took. */
  readonly stepCount: number;
  /** How often each tool ran, by name. */
  readonly toolsUsed: Readonly<Record<string, number>>;
  /** What it and all below it consumed. */
  readonly usage: UsageReport;
  /** Errors that ended it. */
  readonly errors: readonly ErrorRecord[];
  /** Tool calls that went wrong, recovered from or not. */
  readonly toolErrors: readonly ToolErrorRecord[];
  /** The metadata that it worked with. */
  readonly metadata: JsonObject;
  /** Tools of its role that it did not have, and why. */
  readonly removedTools: readonly RemovedTool[];
  /** Milliseconds from the start of its execution to its end. */
  readonly durationMs: number;
}

/**
 * The outcome of a request: a subagent that has ended, one that works in the background from now on, one that is paused, or a refusal.
 */
export type SpawnOutcome =
  | { readonly type: "ended"; readonly result: SubagentResult }
  | SubagentReceipt
  | { readonly type: "paused"; readonly childId: AgentId }
  | { readonly type: "refused"; readonly refusal: SpawnRefusal };

/** A subagent that works in the background. */
export interface SubagentReceipt {
  /** It has started, and its result comes as a message. */
  readonly type: "started";
  /** The subagent. */
  readonly childId: AgentId;
  /** What its parent calls it: `researcher#2`. */
  readonly childName: string;
  /** The name of its role. */
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
