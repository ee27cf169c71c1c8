// Parts of which several events are made.

import { z } from "zod";

import { RunIdSchema } from "./ids.ts";
import { StopSignalSchema } from "./stop.ts";

const count = z.int().nonnegative();

/** Amounts left on the limited axes of a budget. Axes without a limit are absent. */
export const RemainingSchema = z.record(z.string(), z.number()).readonly();

export const LimitsSchema = z.strictObject({
  maxDepth: count,
  maxBreadthPerParent: count,
  maxTotalSubagents: count,
});

export const ToolKindSchema = z.enum(["function", "delegation", "external", "finish"]);

/** Stop signals in order of arrival; events of early releases have none. */
export const StopSignalsSchema = z.array(StopSignalSchema).readonly().default([]);

export const GuardDecisionSchema = z.enum(["allow", "ask", "deny"]);

/** What makes an agent take another step (R61): calls that were answered, messages and subtasks that came in, a veto, a reply or a result that is still missing. */
export const WorkTypeSchema = z.enum([
  "tool_calls",
  "messages",
  "subtasks",
  "subagents",
  "veto",
  "missing_reply",
  "missing_output",
  "overflow",
]);

/** What makes an agent take another step. */
export type WorkType = z.infer<typeof WorkTypeSchema>;

/** The host that serves a model. */
export const ServerSchema = z.strictObject({ address: z.string(), port: count.optional() });

/** The run and the step of its root from which another one was forked, and where that run is in its trace. */
export const ForkOriginSchema = z.strictObject({
  runId: RunIdSchema,
  stepNumber: count,
  traceId: z.string(),
  spanId: z.string().optional(),
  /** Whether its trace was taken. */
  isSampled: z.boolean().optional(),
});

/** A model call whose end is unknown: which model was asked. */
export const LostCallSchema = z.strictObject({ provider: z.string(), model: z.string() });
