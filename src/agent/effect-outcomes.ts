// What effects result in, as it is kept. A schema beside each type of effects.ts: what does not fit both does not compile.

import { FinishReasonSchema } from "../protocol/finish-reason.ts";
import { SPEND_AXES } from "../protocol/account.ts";
import { z } from "../protocol/late-zod.ts";
import { AssistantMessageSchema } from "../protocol/message.ts";
import { TimeSpanSchema } from "../protocol/step-timing.ts";
import { ErrorRecordSchema } from "../protocol/stop.ts";
import { ToolExecutionSchema } from "../protocol/tool-outcome.ts";
import { ModelUsageSchema, UsageSchema } from "../protocol/usage.ts";
import { DeferralSchema } from "./agent-state.ts";
import type { CallEnd, InferOutcome } from "./effects.ts";

const count = z.int().nonnegative();
const spans = z.array(TimeSpanSchema).readonly().exactOptional();
const otherModels = z.array(ModelUsageSchema.readonly()).readonly().exactOptional();
const spent = { usage: UsageSchema, otherModels, spans };
const TokenUsageSchema = z.strictObject({
  inputTokens: count,
  cachedInputTokens: count,
  cacheWriteInputTokens: count.exactOptional(),
  outputTokens: count,
  reasoningTokens: count,
  reportedCostUsd: z.number().nonnegative().exactOptional(),
  serviceTier: z.string().exactOptional(),
  hasServerTools: z.literal(true).exactOptional(),
});

const RefusalSchema = z.strictObject({
  axis: z.enum([...SPEND_AXES, "wallTimeMs"]),
  accountPath: z.string(),
  maximum: z.number(),
  spent: z.number(),
  asked: z.number(),
  kept: z.number().exactOptional(),
});

export const InferOutcomeSchema: z.ZodType<InferOutcome> = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("replied"),
    reply: z.strictObject({
      message: AssistantMessageSchema,
      finishReason: FinishReasonSchema,
      rawFinishReason: z.string().exactOptional(),
      usage: TokenUsageSchema.exactOptional(),
      responseId: z.string().exactOptional(),
      responseModel: z.string().exactOptional(),
    }),
    ...spent,
  }),
  z.strictObject({
    type: z.literal("failed"),
    error: ErrorRecordSchema,
    isRetryable: z.boolean(),
    ...spent,
  }),
  z.strictObject({ type: z.literal("refused"), refusal: RefusalSchema, ...spent }),
  z.strictObject({ type: z.literal("cancelled"), ...spent }),
]);

/** Returns the stored outcome of a model call. Parsing freezes only the top of a list; a copy can be frozen whole. */
export function readInferOutcome(stored: unknown): InferOutcome {
  return structuredClone(InferOutcomeSchema.parse(stored));
}

export const CallEndSchema: z.ZodType<CallEnd> = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("executed"),
    execution: ToolExecutionSchema,
    isToSummarize: z.boolean(),
    failure: ErrorRecordSchema.exactOptional(),
    spans,
  }),
  z.strictObject({ type: z.literal("deferred"), deferral: DeferralSchema, spans }),
]);
