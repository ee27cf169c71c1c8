// A reply whose message has parts, as a model's adapter gave it: they are copied, measured, and must say what the message says. And the
// problem of a value that is no reply.

import { messageOf } from "../kernel/error.ts";
import { jsonCopy } from "../kernel/json-copy.ts";
import { isRecord, unsoundness } from "../kernel/json.ts";
import { z } from "../protocol/late-zod.ts";
import {
  AssistantMessageSchema,
  ReplyPartSchema,
  type AssistantMessage,
  type ReplyPart,
} from "../protocol/message.ts";
import { estimateTokens, isTokenCount } from "./count-tokens.ts";
import type { Model } from "./model.ts";
import { ModelError } from "./model-error.ts";
import { MOST_DATA_BYTES } from "./reply-limits.ts";
import { PlainReplySchema } from "./reply-schema.ts";

const MOST_DATA_LEVELS = 200;

/** Parts of later releases stand in stored messages, never in a reply; who wrote it is for the loop to say. */
const MessageWithPartsSchema = AssistantMessageSchema.extend({
  parts: z.preprocess(ownCopies, z.array(ReplyPartSchema).optional()),
  writtenBy: z.unknown().optional(),
}).superRefine(({ text, toolCalls, parts }, context) => {
  const issue = parts === undefined ? undefined : issueIn(parts, { text, toolCalls });
  if (issue === undefined) return;
  const { index, message } = issue;
  context.addIssue({ code: "custom", path: ["parts", ...index], message });
});

/** Copies of all parts: an adapter could change them later. */
function ownCopies(parts: unknown, context: z.RefinementCtx): unknown {
  if (!Array.isArray(parts)) return parts;
  let bytes = 0;
  return Array.from(parts, (part: unknown, index) => {
    try {
      const copy = jsonCopy(part);
      const data = isRecord(copy) ? copy["data"] : undefined;
      if (data === undefined) return copy;
      const reason = unsoundness(data, MOST_DATA_LEVELS);
      if (reason !== undefined) throw new TypeError(`of its data ${reason}`);
      bytes += Buffer.byteLength(JSON.stringify(data));
      if (bytes <= MOST_DATA_BYTES) return copy;
      throw new RangeError(`with it the data is over ${MOST_DATA_BYTES} bytes`);
    } catch (cause) {
      const message = `Expected JSON that can be kept, but ${messageOf(cause)}`;
      context.addIssue({ code: "custom", path: [index], message });
      return z.NEVER;
    }
  });
}

/** The first part that does not fit the message; no index: what is missing is one. */
interface PartIssue {
  readonly index: readonly number[];
  readonly message: string;
}

function issueIn(
  parts: readonly ReplyPart[],
  { text, toolCalls }: Pick<AssistantMessage, "text" | "toolCalls">,
): PartIssue | undefined {
  const open = toolCalls.map(({ callId }) => callId);
  let length = 0;
  for (const [index, part] of parts.entries()) {
    const next = part.type === "call" ? open.shift() : undefined;
    if (part.type === "call" && part.callId !== next) {
      const expected = next === undefined ? "no further call" : `the call ${next}`;
      return { index: [index], message: `Expected ${expected}, got ${part.callId}` };
    }
    length += part.type === "text" ? part.length : 0;
    if (length > text.length)
      return {
        index: [index],
        message: `Expected it to end within the text of ${text.length} characters, got ${length}`,
      };
  }
  if (open.length > 0)
    return { index: [], message: `Expected a part for each call, got none for ${open.join(", ")}` };
  if (length === text.length) return undefined;
  const expected = `parts for a text of ${text.length} characters`;
  return { index: [], message: `Expected ${expected}, got parts for ${length}` };
}

/** A reply whose message may have parts. */
export const ReplyWithPartsSchema = PlainReplySchema.extend({ message: MessageWithPartsSchema });

/** Throws a `ModelError` `model_misbehaved` if `reply` does not fit. */
export function parsedReply<Parsed>(
  schema: z.ZodType<Parsed>,
  model: Model,
  reply: unknown,
): Parsed {
  const parsed = schema.safeParse(reply);
  if (parsed.success) return parsed.data;
  throw new ModelError({
    code: "model_misbehaved",
    message: `Expected the model ${model.id} to give a ModelReply: ${z.prettifyError(parsed.error)}. Correct the model's adapter.`,
    data: { provider: model.provider, model: model.id },
    // It was paid for.
    lostOutputTokens: outputTokensIn(reply),
  });
}

/** What it says that it wrote, else an estimate of its text. */
function outputTokensIn(reply: unknown): number {
  const { usage, message } = isRecord(reply) ? reply : {};
  const tokens = isRecord(usage) ? usage["outputTokens"] : undefined;
  if (isTokenCount(tokens)) return tokens;
  const text = isRecord(message) ? message["text"] : undefined;
  return typeof text === "string" ? estimateTokens(text) : 0;
}
