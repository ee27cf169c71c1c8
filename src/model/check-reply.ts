// A reply as it came from a model's adapter, which may be foreign code: checked once, before anything relies on it.

import { defined, isRecord, unsoundness } from "../kernel/json.ts";
import { shared } from "../kernel/shared.ts";
import {
  type AssistantMessage,
  AssistantMessageSchema,
  ReplyPartSchema,
  type ReplyPart,
  PlainAssistantMessageSchema,
} from "../protocol/message.ts";
import { believableUsage, isNothing, usageWarning, type CallSize } from "./believable-usage.ts";
import type { Model, ModelReply } from "./model.ts";
import { replayKeyOf } from "./written-by.ts";
import { messageOf } from "../kernel/error.ts";
import { jsonCopy } from "../kernel/json-copy.ts";
import { lazySchema, z } from "../protocol/lazy-schema.ts";
import { estimateTokens, isTokenCount } from "./count-tokens.ts";
import { ModelError } from "./model-error.ts";
import { MOST_DATA_BYTES } from "./reply-limits.ts";
import { FinishReasonSchema } from "../protocol/finish-reason.ts";

/** Who wrote the message is for the loop to say; the usage is checked apart. */
export const PlainReplySchema = lazySchema(() =>
  z.object({
    message: PlainAssistantMessageSchema().extend({
      parts: z.unknown().optional(),
      writtenBy: z.unknown().optional(),
    }),
    finishReason: FinishReasonSchema(),
    rawFinishReason: z.string().optional(),
    usage: z.unknown().optional(),
    responseId: z.string().optional(),
    responseModel: z.string().optional(),
    warnings: z.array(z.string()).readonly().optional(),
  }),
);

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
  const { data } = PlainReplySchema().safeParse(reply);
  if (data !== undefined && data.message.parts === undefined) {
    const { parts: _none, writtenBy: _claim, ...message } = data.message;
    return builtReply(model, { ...data, message: withOwnCalls(message) }, size);
  }
  const { message, ...rest } = parsedReply(ReplyWithPartsSchema(), model, reply);
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

type ReadReply = Omit<z.infer<ReturnType<typeof PlainReplySchema>>, "message"> & {
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

// A reply whose message has parts, as a model's adapter gave it: they are copied, measured, and must say what the message says. And the
// problem of a value that is no reply.

const MOST_DATA_LEVELS = 200;

/** Parts of later releases stand in stored messages, never in a reply; who wrote it is for the loop to say. */
const MessageWithPartsSchema = lazySchema(() =>
  AssistantMessageSchema()
    .extend({
      parts: z.preprocess(ownCopies, z.array(ReplyPartSchema()).optional()),
      writtenBy: z.unknown().optional(),
    })
    .superRefine(({ text, toolCalls, parts }, context) => {
      const issue = parts === undefined ? undefined : issueIn(parts, { text, toolCalls });
      if (issue === undefined) return;
      const { index, message } = issue;
      context.addIssue({ code: "custom", path: ["parts", ...index], message });
    }),
);

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
const ReplyWithPartsSchema = lazySchema(() =>
  PlainReplySchema().extend({ message: MessageWithPartsSchema() }),
);

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
