// What effects result in, as it is kept. A schema beside each type of effects.ts: what does not fit both does not compile.

import { FinishReasonSchema } from "../protocol/finish-reason.ts";
import { SPEND_AXES } from "../protocol/account.ts";
import { z } from "../protocol/late-zod.ts";
import { AssistantMessageSchema } from "../protocol/message.ts";
import { TimeSpanSchema } from "../protocol/step-timing.ts";
import { ErrorRecordSchema } from "../protocol/stop.ts";
import { ToolExecutionSchema } from "../protocol/tool-outcome.ts";
import { isCountable, ModelUsageSchema, UsageSchema } from "../protocol/usage.ts";
import { DeferralSchema } from "./agent-snapshot.ts";
import type { Lease } from "./account-view.ts";
import { callUsage, type Payer } from "./call-usage.ts";
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

/** What a model call came to, as it was kept. Early releases kept usages that cannot be booked: then it is our own count of what came. */
export function keptOutcome(payer: Payer, lease: Lease, kept: unknown): InferOutcome {
  // Parsing freezes a list at its top only: what is copied can be frozen whole.
  const outcome = structuredClone(InferOutcomeSchema.parse(kept));
  if (isCountable(outcome.usage)) return outcome;
  if (outcome.type !== "replied")
    return { ...outcome, usage: callUsage(payer, lease, { type: "abandoned" }) };
  const { usage: _reported, ...reply } = outcome.reply;
  const end = { type: "replied", reply, brokenAttempts: 0, lostOutputTokens: 0 } as const;
  return { ...outcome, usage: callUsage(payer, lease, end) };
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
