// A delegation, as it is asked for and as it comes back. Values only: no live object reaches a parent (C25).

import { z } from "zod";

import { AgentIdSchema, ExecutionIdSchema, type AgentId } from "./ids.ts";
import { JsonObjectSchema, JsonValueSchema } from "./json-value.ts";
import { ErrorRecordSchema, StopReasonSchema, TerminalStatusSchema } from "./stop.ts";
import { ToolErrorRecordSchema } from "./tool-error-record.ts";
import { UsageSchema } from "./usage.ts";

export const SpawnRequestSchema = z.strictObject({
  /** Name of the role to start. */
  role: z.string().min(1),
  /** What the subagent is told to do. */
  task: z.string().min(1),
});
/** What a delegation asks for. */
export type SpawnRequest = Readonly<z.infer<typeof SpawnRequestSchema>>;

const SpawnRefusalCodeSchema = z.enum([
  "unknown_role",
  "depth_limit",
  "breadth_limit",
  "total_limit",
  "budget_exhausted",
  "setup_failed",
]);
/** Why a subagent was not started. */
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

const SubagentResultSchema = z.strictObject({
  agentId: AgentIdSchema,
  executionId: ExecutionIdSchema,
  role: z.string(),
  agentPath: z.string(),
  depth: z.int().positive(),
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
  durationMs: z.number().nonnegative(),
});
/** How a subagent ended: the whole of what its parent learns (R135, R136). */
export type SubagentResult = Readonly<z.infer<typeof SubagentResultSchema>>;

/** What came of a request: a subagent that ran and settled, one that is paused and not settled yet, or a refusal. */
export type SpawnOutcome =
  | { readonly type: "settled"; readonly result: SubagentResult }
  | { readonly type: "paused"; readonly childId: AgentId }
  | { readonly type: "refused"; readonly refusal: SpawnRefusal };
