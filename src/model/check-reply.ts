// Checks a reply of a model's adapter, which may be the user's code, once, before anything relies
// on it.

import { omitUndefined, isRecord, findJsonProblem, sameJson } from "../kernel/json.ts";
import { freezeInTests } from "../kernel/freeze-shared.ts";
import {
  type AssistantMessage,
  AssistantMessageSchema,
  ReplyPartSchema,
  type ReplyPart,
  PlainAssistantMessageSchema,
} from "../protocol/message.ts";
import type { Model, ModelReply } from "./model.ts";
import { toReplayKey } from "./recipient-messages.ts";
import { getErrorMessage } from "../kernel/error.ts";
import { copyForeignJson } from "../kernel/json-copy.ts";
import { fitParts } from "../protocol/reply-message.ts";
import { readFields } from "./wire-json.ts";
import { lazySchema, z } from "../protocol/lazy-schema.ts";
import { estimateTokens, isTokenCount, MAX_TOKENS } from "./count-tokens.ts";
import { ModelError } from "./model-error.ts";
import { MAX_DATA_BYTES } from "./reply-limits.ts";
import { FinishReasonSchema } from "../protocol/finish-reason.ts";
import { describeReceived } from "../kernel/argument-checks.ts";
import { warnOnce } from "../kernel/warn-once.ts";
import { isCost, type ReportedInput, type TokenUsage } from "./token-usage.ts";

/** The loop sets `writtenBy`, and the usage is checked apart. */
const PlainReplySchema = lazySchema(() =>
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

/**
 * Replies of our own adapters, which have validated the server's data. Their messages are not
 * validated again.
 */
const ownReplies = new WeakSet<ModelReply>();

/** Marks a reply of our own adapters. A reply with parts is copied and measured nevertheless. */
export function markOwnReply(reply: ModelReply): ModelReply {
  if (reply.message.parts === undefined) ownReplies.add(Object.freeze(reply));
  return reply;
}

/**
 * Returns a frozen copy of the reply, with `writtenBy` if it has parts. Omits an impossible usage:
 * the call is then charged by our own count, and a warning names the model once.
 *
 * @throws ModelError `model_invalid_reply` if it is not a valid reply.
 */
export function checkReply(model: Model, reply: ModelReply, size: CallSize): ModelReply {
  if (ownReplies.has(reply)) return buildReply(model, reply, size);
  const { data } = PlainReplySchema().safeParse(reply);
  if (data !== undefined && data.message.parts === undefined) {
    const { parts: _none, writtenBy: _claim, ...message } = data.message;
    return buildReply(model, { ...data, message: copyCalls(message) }, size);
  }
  const { message, ...rest } = parseReply(ReplyWithPartsSchema(), model, reply);
  const { parts, writtenBy: _claim, ...plain } = copyCalls(message);
  const stamped = parts === undefined ? {} : { parts, writtenBy: toReplayKey(model) };
  return buildReply(model, { ...rest, message: { ...plain, ...stamped } }, size);
}

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

/**
 * Returns the reply with `writtenBy`, also if it has no parts: a fallback needs to know the writer.
 */
export function signReply(reply: ModelReply, writer: Model): ModelReply {
  const writtenBy = toReplayKey(writer);
  if (reply.message.writtenBy === writtenBy) return reply;
  return freezeInTests({ ...reply, message: { ...reply.message, writtenBy } });
}

/**
 * Returns a message with its own list of calls, which may be frozen. Parsing freezes the list, but
 * not its items.
 */
function copyCalls<Read extends Pick<AssistantMessage, "toolCalls">>(message: Read): Read {
  return { ...message, toolCalls: [...message.toolCalls] };
}

type ReadReply = Omit<z.infer<ReturnType<typeof PlainReplySchema>>, "message"> & {
  readonly message: AssistantMessage;
};

const MAX_WARNING_CHARACTERS = 500;
const MAX_FINISH_REASON_CHARACTERS = 200;

/** Creates the reply from parsed data. Omits an impossible usage. */
function buildReply(model: Model, read: ReadReply, size: CallSize): ModelReply {
  const { message, finishReason, warnings = [] } = read;
  const { rawFinishReason: raw, responseId, responseModel } = read;
  const usage = validateUsage(model, read.usage, size);
  const isRejected = usage === undefined && !isAllZero(read.usage);
  const warned = isRejected ? [...warnings, describeRejectedUsage(read.usage)] : warnings;
  const rawFinishReason = raw === undefined ? raw : clipText(raw, MAX_FINISH_REASON_CHARACTERS);
  return freezeInTests({
    message,
    finishReason,
    ...omitUndefined({ rawFinishReason, usage, responseId, responseModel }),
    ...(warned.length === 0
      ? {}
      : { warnings: warned.map((warning) => clipText(warning, MAX_WARNING_CHARACTERS)) }),
  });
}

function clipText(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** Returns true for an absent usage, and for the zeros of servers that do not count. */
function isAllZero(usage: unknown): boolean {
  return usage === undefined || (isRecord(usage) && isNothing({ ...ZERO_USAGE, ...usage }));
}

const ZERO_USAGE = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, reasoningTokens: 0 };

// Validates a reply whose message has parts: copies and measures the parts, which must match the
// message. Reports an invalid reply.

const MAX_DATA_LEVELS = 200;

/**
 * Parts of later versions occur in stored messages, but never in replies. The loop sets
 * `writtenBy`.
 */
const MessageWithPartsSchema = lazySchema(() =>
  AssistantMessageSchema()
    .extend({
      parts: z.preprocess(copyParts, z.array(ReplyPartSchema()).optional()),
      writtenBy: z.unknown().optional(),
    })
    .superRefine(({ text, toolCalls, parts }, context) => {
      const [path, message] = (parts && findPartIssue(parts, { text, toolCalls })) ?? [];
      if (path !== undefined)
        context.addIssue({ code: "custom", path: ["parts", ...path], message });
    }),
);

/** Copies all parts, since an adapter may change its own later. */
function copyParts(parts: unknown, context: z.RefinementCtx): unknown {
  if (!Array.isArray(parts)) return parts;
  let bytes = 0;
  return Array.from(parts, (part: unknown, index) => {
    try {
      const copy = copyForeignJson(part);
      const data = isRecord(copy) ? copy["data"] : undefined;
      if (data === undefined) return copy;
      const reason = findJsonProblem(data, MAX_DATA_LEVELS);
      if (reason !== undefined) throw new TypeError(`of its data ${reason}`);
      bytes += Buffer.byteLength(JSON.stringify(data));
      if (bytes <= MAX_DATA_BYTES) return copy;
      throw new RangeError(`with it the data is over ${MAX_DATA_BYTES} bytes`);
    } catch (cause) {
      const message = `Expected plain JSON, but ${getErrorMessage(cause)}`;
      context.addIssue({ code: "custom", path: [index], message });
      return z.NEVER;
    }
  });
}

/**
 * Returns the first mismatch between parts and message: the path of the part, and a description.
 */
function findPartIssue(
  parts: readonly ReplyPart[],
  { text, toolCalls }: Pick<AssistantMessage, "text" | "toolCalls">,
): readonly [path: readonly number[], message: string] | undefined {
  const open = toolCalls.map(({ callId }) => callId);
  let length = 0;
  for (const [index, part] of parts.entries()) {
    const next = part.type === "call" ? open.shift() : undefined;
    if (part.type === "call" && part.callId !== next) {
      const expected = next === undefined ? "no further call" : `the call ${next}`;
      return [[index], `Expected ${expected}, got ${part.callId}`];
    }
    length += part.type === "text" ? part.length : 0;
    const most = `within the text of ${text.length} characters`;
    if (length > text.length) return [[index], `Expected it to end ${most}, got ${length}`];
  }
  if (open.length > 0)
    return [[], `Expected a part for each call, got none for ${open.join(", ")}`];
  if (length === text.length) return undefined;
  const expected = `parts for a text of ${text.length} characters`;
  return [[], `Expected ${expected}, got parts for ${length}`];
}

/** A reply whose message may have parts. */
const ReplyWithPartsSchema = lazySchema(() =>
  PlainReplySchema().extend({ message: MessageWithPartsSchema() }),
);

/** Throws a `ModelError` `model_invalid_reply` if `reply` does not fit. */
function parseReply<Parsed>(schema: z.ZodType<Parsed>, model: Model, reply: unknown): Parsed {
  const parsed = schema.safeParse(reply);
  if (parsed.success) return parsed.data;
  const { usage, message } = readFields(reply);
  const { outputTokens } = readFields(usage);
  const { text } = readFields(message);
  throw new ModelError({
    code: "model_invalid_reply",
    message: `Expected the model ${model.id} to return a ModelReply: ${z.prettifyError(parsed.error)}. Correct the model's adapter.`,
    data: { provider: model.provider, model: model.id },
    // The provider charges it: by the output that it reports, or else by an estimate of its text.
    lostOutputTokens: isTokenCount(outputTokens)
      ? outputTokens
      : estimateTokens(typeof text === "string" ? text : ""),
  });
}

// Checks the usage that a provider reports. Impossible figures are not charged, and a warning names
// the model once.

/** The size of a call by our own count, to which the provider's figures are compared. */
export interface CallSize {
  /** Counted by the model's own counter, or estimated. */
  readonly inputTokens: number;
  /** The cap of the attempt. */
  readonly maxOutputTokens: number;
}

/**
 * Factor of the counted input plus the cap beyond which different tokenizers cannot explain a
 * figure.
 */
const MAX_COUNT_RATIO = 10;
/** Most input if the provider ran its own tools: several windows of the largest models. */
const MAX_SERVER_INPUT = 10_000_000;
/** 4 KiB, which a client may have read whatever the cap is. */
const LOSS_ALLOWANCE_TOKENS = 1_366;

/** Returns the most tokens that a provider can have counted for a call of this size. */
function computeMaxTokens({ inputTokens, maxOutputTokens }: CallSize): number {
  return Math.min(MAX_COUNT_RATIO * (inputTokens + maxOutputTokens), MAX_TOKENS);
}

/**
 * Returns the usage of a reply, or `undefined` if it is absent or impossible: the call is then
 * charged by our own count. Zeros for a non-empty request count as absent.
 */
function validateUsage(model: Model, reported: unknown, size: CallSize): TokenUsage | undefined {
  if (reported === undefined) return undefined;
  const { data: usage } = UsageSchema().safeParse(reported);
  if (usage !== undefined && isNothing(usage) && size.inputTokens > 0) return undefined;
  if (usage !== undefined && isPossible(usage, size)) return usage;
  warnOfFigures(model, `an impossible usage (${listFigures(reported)})`, size);
  return undefined;
}

function isPossible(usage: TokenUsage, size: CallSize): boolean {
  const { inputTokens, outputTokens, hasServerTools } = usage;
  const most = computeMaxTokens(size);
  if (hasServerTools === true) return inputTokens <= MAX_SERVER_INPUT && outputTokens <= most;
  return inputTokens + outputTokens <= most;
}

/** Returns the warning for a reply whose usage was rejected. */
function describeRejectedUsage(reported: unknown): string {
  return `The provider reported an impossible usage (${listFigures(reported)}). It was rejected, and the call was charged by the token count of espalier.`;
}

/**
 * Returns true for a usage of zero. Servers that do not count report it, as do hooks whose reply
 * cost nothing.
 */
export function isNothing({ inputTokens, outputTokens, reportedCostUsd = 0 }: TokenUsage): boolean {
  return inputTokens === 0 && outputTokens === 0 && reportedCostUsd === 0;
}

const UsageSchema = lazySchema(() => {
  const count = z.int().min(0).max(MAX_TOKENS);
  return z
    .object({
      inputTokens: count,
      cachedInputTokens: count,
      cacheWriteInputTokens: count.optional(),
      outputTokens: count,
      reasoningTokens: count,
      reportedCostUsd: z.custom<number>(isCost).optional(),
      serviceTier: z.string().optional(),
      hasServerTools: z.literal(true).optional(),
    })
    .refine(
      ({ inputTokens, cachedInputTokens, cacheWriteInputTokens = 0, ...usage }) =>
        cachedInputTokens + cacheWriteInputTokens <= inputTokens &&
        usage.reasoningTokens <= usage.outputTokens,
    );
});

/**
 * Returns the lost output tokens that a failure reports, or `arrived` if the figure is impossible.
 * A warning then names the model once.
 */
export function checkLoss(model: Model, lost: unknown, size: CallSize, arrived: number): number {
  if (isTokenCount(lost) && lost <= computeMaxTokens(size) + LOSS_ALLOWANCE_TOKENS) return lost;
  warnOfFigures(model, `an impossible loss (lostOutputTokens ${describeReceived(lost)})`, size);
  return arrived;
}

/** Returns the input that a failure reports, or `undefined` if it is absent or impossible. */
export function checkLostInput(
  model: Model,
  lost: unknown,
  size: CallSize,
): ReportedInput | undefined {
  if (lost === undefined) return undefined;
  const input = isRecord(lost) ? { ...lost, outputTokens: 0, reasoningTokens: 0 } : lost;
  const usage = validateUsage(model, input, size);
  if (usage === undefined) return undefined;
  const { inputTokens, cachedInputTokens, cacheWriteInputTokens } = usage;
  return { inputTokens, cachedInputTokens, ...omitUndefined({ cacheWriteInputTokens }) };
}

function warnOfFigures(model: Model, problem: string, size: CallSize): void {
  warnOnce(
    model,
    `The model ${model.id} of ${model.provider} reported ${problem} for a call of ${size.inputTokens} counted input tokens and a cap of ${size.maxOutputTokens}. Such calls are charged by the token count of espalier. Check the server, or the model's adapter.`,
  );
}

function listFigures(reported: unknown): string {
  if (!isRecord(reported)) return describeReceived(reported);
  return Object.entries(reported)
    .map(([name, figure]) => `${name} ${describeReceived(figure)}`)
    .join(", ");
}
