// A delegation, as it is asked for and as it comes back. Values only: no live object reaches a parent (C25).

import { z } from "zod";

import { AgentIdSchema, ExecutionIdSchema, type AgentId } from "./ids.ts";
import { JsonObjectSchema, JsonValueSchema } from "./json-value.ts";
import { ErrorRecordSchema, StopReasonSchema, TerminalStatusSchema } from "./stop.ts";
import { ToolErrorRecordSchema } from "./tool-error-record.ts";
import { RemovedToolSchema } from "./tool-rule.ts";
import { UsageSchema } from "./usage.ts";

const NamesSchema = z.array(z.string().min(1)).readonly();

export const RoleDraftSchema = z.strictObject({
  /** Its system prompt. */
  instructions: z.string().min(1),
  /** Names of tools out of the ceiling. Left out: all of them. */
  tools: NamesSchema.exactOptional(),
  /** Name of a model out of the ceiling. Left out: its first. */
  model: z.string().min(1).exactOptional(),
  /** Steps that it may take; the ceiling's budget holds all the same. */
  steps: z.int().nonnegative().exactOptional(),
});
/** A role that is written at spawn. It gets no more than the ceiling of the role that spawns it allows (X27). */
export type RoleDraft = Readonly<z.infer<typeof RoleDraftSchema>>;

export const SpawnRequestSchema = z.strictObject({
  /** Name of the role to start; with `draft`, the name that the new role gets. */
  role: z.string().min(1),
  /** What the subagent is to do. */
  task: z.string().min(1),
  /** The call ends at once with a receipt; the result comes as a message (X10). Default false. */
  background: z.boolean().exactOptional(),
  /** Subagents of the same parent that have ended: their results are handed on word for word, as `childName` names them (X12). */
  resultsOf: NamesSchema.exactOptional(),
  /** Of its tools, only these. Left out: all. */
  allowedTools: NamesSchema.exactOptional(),
  /** None of these tools. */
  deniedTools: NamesSchema.exactOptional(),
  /** A new role, where the parent's role has a ceiling for such (X27). */
  draft: RoleDraftSchema.exactOptional(),
});
/** What a delegation asks for. */
export type SpawnRequest = Readonly<z.infer<typeof SpawnRequestSchema>>;

const SpawnRefusalCodeSchema = z.enum([
  "unknown_role",
  "forbidden_role",
  "invalid_role",
  "invalid_context",
  "unknown_subagent",
  "subagent_running",
  "subagent_ended",
  "group_decided",
  "blocked",
  "tool_not_available",
  "depth_limit",
  "breadth_limit",
  "total_limit",
  "budget_exhausted",
  "setup_failed",
]);
/** Why a subagent was not started. `blocked`: a guard or a hook denied the call; `tool_not_available`: a rule or a filter forbids the tool. */
export type SpawnRefusalCode = z.infer<typeof SpawnRefusalCodeSchema>;

export const SpawnRefusalSchema = z.strictObject({
  code: SpawnRefusalCodeSchema,
  /** An instruction to the model: which limit, where it stands, what to do instead (X14). */
  message: z.string(),
  maximum: z.number().optional(),
  current: z.number().optional(),
});
/** A delegation that policy forbade. */
export type SpawnRefusal = Readonly<z.infer<typeof SpawnRefusalSchema>>;

export const UsageReportSchema = z.strictObject({
  own: UsageSchema,
  descendants: UsageSchema,
  total: UsageSchema,
});

export const SubagentOutcomeSchema = z.enum([
  "completed",
  "partial",
  "no_output",
  "failed",
  "cancelled",
]);
/**
 * What a subagent's result is worth (X15). Only `completed` is a success. `partial`: it was stopped, and wrote something before.
 * `no_output`: it ended without failing, and there is neither a text nor a typed result.
 */
export type SubagentOutcome = z.infer<typeof SubagentOutcomeSchema>;

export const SubagentResultSchema = z.strictObject({
  agentId: AgentIdSchema,
  executionId: ExecutionIdSchema,
  role: z.string(),
  /** What its parent calls it: the end of its path, such as `researcher#2`. */
  childName: z.string(),
  agentPath: z.string(),
  depth: z.int().positive(),
  outcome: SubagentOutcomeSchema,
  status: TerminalStatusSchema,
  reason: StopReasonSchema,
  /** The last text that the subagent wrote; partial if it did not complete. */
  text: z.string(),
  /** The typed result, if its role declares one and it was given. */
  output: JsonValueSchema.optional(),
  steps: z.int().nonnegative(),
  /** How often each tool ran, by name. */
  toolsUsed: z.record(z.string(), z.int().positive()).readonly(),
  usage: UsageReportSchema,
  /** Errors that ended it. */
  errors: z.array(ErrorRecordSchema).readonly(),
  /** Tool calls that went wrong, recovered from or not. */
  toolErrors: z.array(ToolErrorRecordSchema).readonly(),
  /** The metadata that it worked with. */
  metadata: JsonObjectSchema,
  /** Tools of its role that it did not have, and why. */
  removedTools: z.array(RemovedToolSchema).readonly(),
  durationMs: z.number().nonnegative(),
});
/** How a subagent ended: the whole of what its parent learns (R135, R136). */
export type SubagentResult = Readonly<z.infer<typeof SubagentResultSchema>>;

/**
 * What came of a request: a subagent that ran and settled, one that works in the background from now on, one that is paused and not
 * settled yet, or a refusal.
 */
export type SpawnOutcome =
  | { readonly type: "settled"; readonly result: SubagentResult }
  | SubagentReceipt
  | { readonly type: "paused"; readonly childId: AgentId }
  | { readonly type: "refused"; readonly refusal: SpawnRefusal };

/** A subagent that works in the background. */
export interface SubagentReceipt {
  readonly type: "started";
  readonly childId: AgentId;
  readonly childName: string;
  readonly role: string;
}
