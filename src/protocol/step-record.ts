import { z } from "zod";

import { StepIdSchema } from "./ids.ts";
import { ToolCallSchema } from "./message.ts";
import { StepContextSchema } from "./step-context.ts";
import { StepTimingSchema } from "./step-timing.ts";
import { ErrorRecordSchema } from "./stop.ts";
import { ToolExecutionSchema } from "./tool-outcome.ts";
import { UsageSchema } from "./usage.ts";

export const StepRecordSchema = z.strictObject({
  stepId: StepIdSchema,
  /** From 1. */
  number: z.int().positive(),
  /** What it began with. */
  context: StepContextSchema,
  /** What went into the model and came out of it. */
  io: z.strictObject({
    messageCount: z.int().nonnegative(),
    text: z.string(),
    refusal: z.string().optional(),
    finishReason: z.string(),
  }),
  /** What the model asked for, and what came of it: one execution for every call, in call order. */
  tools: z.strictObject({
    calls: z.array(ToolCallSchema).readonly(),
    executions: z.array(ToolExecutionSchema).readonly(),
  }),
  telemetry: z.strictObject({
    usage: UsageSchema,
    startedAtMs: z.number(),
    endedAtMs: z.number(),
    /** From the start of the execution to the end of the step, without the time in which it waited for an answer or was paused. */
    elapsedMs: z.number(),
    timing: StepTimingSchema,
  }),
  /** Set when the step was cut off. */
  error: ErrorRecordSchema.optional(),
});
/** One completed pass of the loop (R43). */
export type StepRecord = Readonly<z.infer<typeof StepRecordSchema>>;
