// A reply as it came from a model's adapter, which may be foreign code: checked once, before anything relies on it.

import type { z } from "zod";

import { defined, isRecord } from "../kernel/json.ts";
import { shared } from "../kernel/shared.ts";
import type { AssistantMessage } from "../protocol/message.ts";
import { believableUsage, isNothing, usageWarning, type CallSize } from "./believable-usage.ts";
import type { Model, ModelReply } from "./model.ts";
import { PlainReplySchema } from "./reply-schema.ts";
import { parsedReply, ReplyWithPartsSchema } from "./reply-with-parts.ts";
import { replayKeyOf } from "./written-by.ts";

/** Replies of our own adapters, which have checked what their servers said: nothing in them is checked again. */
const ownReplies = new WeakSet<ModelReply>();

/** Marks a reply that an adapter of ours made. Its parts, if it has any, are copied and measured all the same. */
export function ownReply(reply: ModelReply): ModelReply {
  if (reply.message.parts === undefined) ownReplies.add(Object.freeze(reply));
  return reply;
}

/**
 * The reply as values of our own, stamped with who wrote it, without a usage that cannot be true: the call is then charged by our own
 * count, and a warning names the model once. Throws a `ModelError` `model_misbehaved` if it is no reply.
 */
export function checkReply(model: Model, reply: ModelReply, size: CallSize): ModelReply {
  if (ownReplies.has(reply)) return builtReply(model, reply, size);
  const { data } = PlainReplySchema.safeParse(reply);
  if (data !== undefined && data.message.parts === undefined) {
    const { parts: _none, writtenBy: _claim, ...message } = data.message;
    return builtReply(model, { ...data, message: withOwnCalls(message) }, size);
  }
  const { message, ...rest } = parsedReply(ReplyWithPartsSchema, model, reply);
  const { parts, writtenBy: _claim, ...plain } = withOwnCalls(message);
  const stamped = parts === undefined ? {} : { parts, writtenBy: replayKeyOf(model) };
  return builtReply(model, { ...rest, message: { ...plain, ...stamped } }, size);
}

/** The reply, stamped with who wrote it also if it has no parts: a fallback goes by that. */
export function signedReply(reply: ModelReply, writer: Model): ModelReply {
  const writtenBy = replayKeyOf(writer);
  if (reply.message.writtenBy === writtenBy) return reply;
  return shared({ ...reply, message: { ...reply.message, writtenBy } });
}

/** Parsing freezes a list at its top only: with a list of its own the message can be frozen whole. */
export function withOwnCalls<Read extends Pick<AssistantMessage, "toolCalls">>(
  message: Read,
): Read {
  return { ...message, toolCalls: [...message.toolCalls] };
}

type ReadReply = Omit<z.infer<typeof PlainReplySchema>, "message"> & {
  readonly message: AssistantMessage;
};

const MAX_WARNING_CHARACTERS = 500;
const MAX_FINISH_REASON_CHARACTERS = 200;

/** The reply that was read, with what is believed of its usage. */
export function builtReply(model: Model, read: ReadReply, size: CallSize): ModelReply {
  const { message, finishReason, warnings = [] } = read;
  const { rawFinishReason: raw, responseId, responseModel } = read;
  const rawFinishReason = raw === undefined ? raw : cut(raw, MAX_FINISH_REASON_CHARACTERS);
  const usage = believableUsage(model, read.usage, size);
  const isRejected = usage === undefined && !isAllZero(read.usage);
  const warned = isRejected ? [...warnings, usageWarning(read.usage)] : warnings;
  return shared({
    message,
    finishReason,
    ...defined({ rawFinishReason, usage, responseId, responseModel }),
    ...(warned.length === 0
      ? {}
      : { warnings: warned.map((warning) => cut(warning, MAX_WARNING_CHARACTERS)) }),
  });
}

/** True for no usage, and for the zeros of servers that do not count. */
function isAllZero(usage: unknown): boolean {
  return usage === undefined || (isRecord(usage) && isNothing({ ...NO_FIGURES, ...usage }));
}

const NO_FIGURES = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, reasoningTokens: 0 };

function cut(text: string, maxCharacters: number): string {
  return text.length > maxCharacters ? `${text.slice(0, maxCharacters)}…` : text;
}
