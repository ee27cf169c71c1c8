import { StepIdSchema, type StepId } from "./ids.ts";
import { lazyObject, z } from "./lazy-schema.ts";
import { ToolCallSchema, type ToolCall } from "./message.ts";
import { StepContextSchema, type StepContext } from "./step-context.ts";
import { StepTimingSchema, type StepTiming } from "./step-timing.ts";
import { ErrorRecordSchema, type ErrorRecord } from "./stop.ts";
import { ToolExecutionSchema, type ToolExecution } from "./tool-outcome.ts";
import { UsageSchema, type Usage } from "./usage.ts";

/** One completed pass of the loop. */
export interface StepRecord {
  readonly stepId: StepId;
  /** From 1. */
  readonly number: number;
  /** What it began with. */
  readonly context: StepContext;
  /** What went into the model and came out of it. */
  readonly io: {
    /** How many messages the model was shown. */
    readonly messageCount: number;
    /** The text of its reply. */
    readonly text: string;
    /** The text was taken for the typed result. */
    readonly isResult?: true | undefined;
    /** Set when the model declined to answer, in its own words. */
    readonly refusal?: string | undefined;
    /** Why the reply ended: a `FinishReason`. */
    readonly finishReason: string;
  };
  /** What the model asked for, and what came of it: one execution for every call, in call order. */
  readonly tools: {
    /** As the model wrote them. */
    readonly calls: readonly ToolCall[];
    /** What came of each. */
    readonly executions: readonly ToolExecution[];
  };
  /** What it consumed, and when. */
  readonly telemetry: {
    /** What the step consumed, retries of its model call included. */
    readonly usage: Usage;
    /** Milliseconds since the epoch. */
    readonly startedAtMs: number;
    /** Milliseconds since the epoch. */
    readonly endedAtMs: number;
    /** From the start of the execution to the end of the step, without the time in which it waited for an answer or was paused. */
    readonly elapsedMs: number;
    /** What the time went into. */
    readonly timing: StepTiming;
  };
  /** Set when the step was cut off. */
  readonly error?: ErrorRecord | undefined;
}

export const StepRecordSchema = lazyObject(() => ({
  stepId: StepIdSchema(),
  number: z.int().positive(),
  context: StepContextSchema(),
  io: z.strictObject({
    messageCount: z.int().nonnegative(),
    text: z.string(),
    isResult: z.literal(true).optional(),
    refusal: z.string().optional(),
    finishReason: z.string(),
  }),
  tools: z.strictObject({
    calls: z.array(ToolCallSchema()).readonly(),
    executions: z.array(ToolExecutionSchema()).readonly(),
  }),
  telemetry: z.strictObject({
    usage: UsageSchema(),
    startedAtMs: z.number(),
    endedAtMs: z.number(),
    elapsedMs: z.number(),
    timing: StepTimingSchema(),
  }),
  error: ErrorRecordSchema().optional(),
})) satisfies () => z.ZodType<StepRecord>;
