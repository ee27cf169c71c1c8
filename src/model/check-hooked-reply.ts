// Checks a reply that hooks around a model call created or changed.

import { sameJson } from "../kernel/json.ts";
import {
  type CallSize,
  buildReply,
  copyCalls,
  parseReply,
  PlainReplySchema,
} from "./check-reply.ts";
import type { Model, ModelReply } from "./model.ts";
import { fitParts } from "../protocol/reply-message.ts";

/**
 * Returns the checked reply. `replies` are the checked replies of the model. If the parts of the
 * result equal the parts of one of the replies, the result keeps them, as far as they match its
 * text and calls. Warnings of the model were recorded when it replied. Throws as `checkReply`.
 */
export function checkHookedReply(
  model: Model,
  reply: ModelReply,
  size: CallSize,
  replies: readonly ModelReply[],
): ModelReply {
  const { message, warnings: _warnings, ...rest } = parseReply(PlainReplySchema(), model, reply);
  const { parts: claimed, writtenBy: _claim, ...plain } = copyCalls(message);
  const origins = replies
    .map(({ message }) => message)
    .filter(({ parts }) => parts !== undefined && sameJson(parts, claimed));
  const origin = origins.find(({ text }) => text === plain.text) ?? origins[0];
  if (origin === undefined) return buildReply(model, { ...rest, message: plain }, size);
  const { refusal: _refusal, ...plainOrigin } = origin;
  return buildReply(
    model,
    { ...rest, message: fitParts({ ...plainOrigin, ...plain }, origin) },
    size,
  );
}
