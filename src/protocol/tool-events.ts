// The events of tool calls.

import { z } from "zod";

import { GuardDecisionSchema, ToolKindSchema } from "./event-parts.ts";
import { ErrorRecordSchema } from "./stop.ts";
import { SpawnRefusalSchema } from "./subagent.ts";
import { ToolErrorSeveritySchema } from "./tool-error-record.ts";
import { ToolOutcomeTypeSchema } from "./tool-outcome.ts";
import { UsageSchema } from "./usage.ts";

const count = z.int().nonnegative();

/** The bodies of these events, by their names. */
export const TOOL_EVENTS = {
  /** A call runs: its tool was found, its arguments fit, and nothing forbids it. */
  "tool.started": {
    toolName: z.string(),
    kind: ToolKindSchema,
    description: z.string(),
  },
  /**
   * A call that is not run, whole: unknown, with arguments that do not fit, denied, refused by a limit, or left out. Every call has either
   * this event or `tool.started`.
   */
  "tool.rejected": {
    toolName: z.string(),
    kind: ToolKindSchema,
    /** Empty if there is no such tool: then the name may be any text that a model wrote. */
    description: z.string(),
    outcome: ToolOutcomeTypeSchema.exclude(["succeeded"]),
    errorCode: z.string(),
    severity: ToolErrorSeveritySchema,
    /** The guards and the hook that denied it, by name, with a comma between them. */
    blockedBy: z.string().exactOptional(),
    /** Why it was denied: the reasons of guards, of the hook, or of the approver. */
    reason: z.string().exactOptional(),
    /** Of a subagent that was not started. `isKnownRole` as in `subagent.refused`. */
    spawn: z
      .strictObject({
        role: z.string(),
        isKnownRole: z.literal(true).exactOptional(),
        refusal: SpawnRefusalSchema,
      })
      .exactOptional(),
    /** Length of the result, and of what the model reads of it, if that is less. */
    resultCharacters: count,
    shownCharacters: count.exactOptional(),
  },
  /** A delegation whose subagent is paused. */
  "tool.paused": { toolName: z.string() },
  "tool.resumed": { toolName: z.string(), kind: ToolKindSchema, description: z.string() },
  "tool.ended": {
    toolName: z.string(),
    outcome: ToolOutcomeTypeSchema,
    success: z.boolean(),
    errorCode: z.string().optional(),
    severity: ToolErrorSeveritySchema.optional(),
    /** Who denied the call. Only in what releases without `tool.rejected` wrote. */
    blockedBy: z.string().optional(),
    /** Length of the whole result. */
    resultCharacters: count,
    /** Length of what the model is shown, if that is less. */
    shownCharacters: count.optional(),
    /** Images, sounds and files that came with it. */
    attachments: count.optional(),
    durationMs: z.number(),
    queuedMs: z.number(),
    /** What the delegated subtree consumed. */
    usage: UsageSchema.optional(),
  },
  /** All guards of a call were asked (R72). */
  "tool.guarded": {
    toolName: z.string(),
    /** Deny beats ask beats allow. */
    decision: GuardDecisionSchema,
    answers: z
      .array(
        z.strictObject({
          guard: z.string(),
          answer: GuardDecisionSchema,
          reason: z.string().optional(),
        }),
      )
      .readonly(),
  },
  /** A wrapper calls the tool once more, without the model. */
  "tool.retried": {
    toolName: z.string(),
    attempt: z.int().positive(),
    error: ErrorRecordSchema,
    delayMs: z.number(),
  },
  /** How far a call is, as the tool reports. */
  "tool.progressed": {
    toolName: z.string(),
    done: z.number().optional(),
    total: z.number().optional(),
    message: z.string().optional(),
  },
} as const;
