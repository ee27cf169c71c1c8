// A reply as it came from a model's adapter, which may be anybody's code: checked once, before anything relies on it.

import { z } from "zod";

import { AssistantMessageSchema } from "../protocol/message.ts";
import { FinishReasonSchema, type Model, type ModelReply } from "./model.ts";
import { ModelError } from "./model-error.ts";

const count = z.int().nonnegative();

const TokenUsageSchema = z
  .object({
    inputTokens: count,
    cachedInputTokens: count,
    cacheWriteInputTokens: count.optional(),
    outputTokens: count,
    reasoningTokens: count,
  })
  .refine(
    (usage) =>
      usage.cachedInputTokens + (usage.cacheWriteInputTokens ?? 0) <= usage.inputTokens &&
      usage.reasoningTokens <= usage.outputTokens,
  );

const ModelReplySchema = z.object({
  message: AssistantMessageSchema,
  finishReason: FinishReasonSchema,
  // A usage that cannot be true is as good as none: the call is then charged by estimate.
  usage: TokenUsageSchema.optional().catch(undefined),
  responseId: z.string().optional(),
  responseModel: z.string().optional(),
});

/** The reply as values of our own. Throws a `ModelError` `model_misbehaved` if it is no reply. */
export function checkReply(model: Model, reply: ModelReply): ModelReply {
  const parsed = ModelReplySchema.safeParse(reply);
  if (!parsed.success) {
    throw new ModelError({
      code: "model_misbehaved",
      message: `Expected the model ${model.id} to give a ModelReply: ${z.prettifyError(parsed.error)}. Correct the model's adapter.`,
      data: { provider: model.provider, model: model.id },
      lostOutputTokens: 0,
    });
  }
  const { message, finishReason, usage, responseId, responseModel } = parsed.data;
  return {
    message: { ...message, toolCalls: message.toolCalls.map((call) => ({ ...call })) },
    finishReason,
    ...(usage === undefined ? {} : { usage }),
    ...(responseId === undefined ? {} : { responseId }),
    ...(responseModel === undefined ? {} : { responseModel }),
  };
}
