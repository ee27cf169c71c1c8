// A reply as it came from a model's adapter, which may be anybody's code: checked once, before anything relies on it.

import { z } from "zod";

import { shown } from "../kernel/check.ts";
import { isRecord } from "../kernel/json.ts";
import { warnOnce } from "../kernel/warn-once.ts";
import { AssistantMessageSchema } from "../protocol/message.ts";
import { isTokenCount } from "./count-tokens.ts";
import { FinishReasonSchema, type Model, type ModelReply } from "./model.ts";
import { ModelError } from "./model-error.ts";
import type { TokenUsage } from "./token-usage.ts";

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
  usage: z.unknown().optional(),
  responseId: z.string().optional(),
  responseModel: z.string().optional(),
});

/** What we know of the size of a call ourselves: by it the figures of a provider are judged. */
export interface CallSize {
  /** As we, or the model's own counter, have counted them. */
  readonly inputTokens: number;
  /** The cap of the attempt. */
  readonly maxOutputTokens: number;
}

/** So many times the counted input plus the cap is more than any difference between tokenizers explains. */
const MOST_TIMES_COUNTED = 10;

/** Whether a provider can have counted so many tokens for a call of this size. */
function isBelievable(tokens: number, { inputTokens, maxOutputTokens }: CallSize): boolean {
  const most = MOST_TIMES_COUNTED * (inputTokens + maxOutputTokens);
  return isTokenCount(tokens) && tokens <= most;
}

/**
 * The reply as values of our own, without a usage that cannot be true: the call is then charged by our own count, and a warning names
 * the model once. Throws a `ModelError` `model_misbehaved` if it is no reply.
 */
export function checkReply(model: Model, reply: ModelReply, size: CallSize): ModelReply {
  const parsed = ModelReplySchema.safeParse(reply);
  if (!parsed.success) {
    throw new ModelError({
      code: "model_misbehaved",
      message: `Expected the model ${model.id} to give a ModelReply: ${z.prettifyError(parsed.error)}. Correct the model's adapter.`,
      data: { provider: model.provider, model: model.id },
      lostOutputTokens: 0,
    });
  }
  const { message, finishReason, responseId, responseModel } = parsed.data;
  const usage = believableUsage(model, parsed.data.usage, size);
  return {
    message: { ...message, toolCalls: message.toolCalls.map((call) => ({ ...call })) },
    finishReason,
    ...(usage === undefined ? {} : { usage }),
    ...(responseId === undefined ? {} : { responseId }),
    ...(responseModel === undefined ? {} : { responseModel }),
  };
}

function believableUsage(model: Model, reported: unknown, size: CallSize): TokenUsage | undefined {
  if (reported === undefined) return undefined;
  const parsed = TokenUsageSchema.safeParse(reported);
  const { inputTokens, outputTokens } = parsed.data ?? { inputTokens: NaN, outputTokens: NaN };
  if (parsed.success && isBelievable(inputTokens + outputTokens, size)) return parsed.data;
  warnOnce(
    model,
    `The model ${model.id} of ${model.provider} reported a usage that cannot be true (${figures(reported)}) for a call of ${size.inputTokens} counted input tokens and a cap of ${size.maxOutputTokens}. Such calls are charged by our own count. Check the server, or the model's adapter.`,
  );
  return undefined;
}

function figures(reported: unknown): string {
  if (!isRecord(reported)) return shown(reported);
  return Object.entries(reported)
    .map(([name, figure]) => `${name} ${shown(figure)}`)
    .join(", ");
}
