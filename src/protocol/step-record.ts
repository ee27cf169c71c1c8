import { FinishReasonSchema, type FinishReason } from "./finish-reason.ts";
import { StepIdSchema, type StepId } from "./ids.ts";
import { lazyObject, z } from "./lazy-schema.ts";
import { ToolCallSchema, type ToolCall } from "./message.ts";
import { StepContextSchema, type StepContext } from "./step-context.ts";
import { StepTimingSchema, type StepTiming } from "./step-timing.ts";
import { ErrorRecordSchema, type ErrorRecord } from "./stop.ts";
import { ToolExecutionSchema, type ToolExecution } from "./tool-outcome.ts";
import { UsageSchema, type Usage } from "./usage.ts";

/**
 * Record of a completed step: one model call and the tool calls of its reply.
 *
 * @example
 * ```ts
 * for (const { number, io, tools, telemetry } of result.steps) {
 *   console.log(number, io.text, telemetry.usage.totalTokens);
 *   for (const { call, type } of tools.executions) console.log(call.toolName, type);
 * }
 * ```
 */
export interface StepRecord {
  /** Id of the step. */
  readonly stepId: StepId;
  /** Number of the step in its execution, from 1. */
  readonly number: number;
  /** Model, tools, prompt and parameters of the step. */
  readonly context: StepContext;
  /** Input and output of the model call. */
  readonly io: {
    /** Number of messages in the request. */
    readonly messageCount: number;
    /** Text of the reply. */
    readonly text: string;
    /** True if the text is the typed result. */
    readonly isResult?: true | undefined;
    /** Refusal text, if the model declined to answer. */
    readonly refusal?: string | undefined;
    /** Finish reason of the reply. */
    readonly finishReason: FinishReason;
  };
  /** Tool calls of the reply and their executions. Each call has one execution, in call order. */
  readonly tools: {
    /** Tool calls as the model wrote them. */
    readonly calls: readonly ToolCall[];
    /** Executions of the calls. */
    readonly executions: readonly ToolExecution[];
  };
  /** Usage and times of the step. */
  readonly telemetry: {
    /** Usage of the step, including retries of its model call. */
    readonly usage: Usage;
    /** Start of the step, in milliseconds since the epoch. */
    readonly startedAtMs: number;
    /** End of the step, in milliseconds since the epoch. */
    readonly endedAtMs: number;
    /**
     * Milliseconds from the start of the execution to the end of the step, without pauses and waits
     * for answers.
     */
    readonly elapsedMs: number;
    /** Milliseconds of the step by activity. */
    readonly timing: StepTiming;
  };
  /** Error that cut the step off. Absent if the step is whole. */
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
    finishReason: FinishReasonSchema(),
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
