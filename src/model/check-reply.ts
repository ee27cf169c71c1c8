// A reply as it came from a model's adapter, which may be foreign code: checked once, before anything relies on it.

import { omitUndefined, isRecord, findJsonProblem } from "../kernel/json.ts";
import { freezeInTests } from "../kernel/shared.ts";
import {
  type AssistantMessage,
  AssistantMessageSchema,
  ReplyPartSchema,
  type ReplyPart,
  PlainAssistantMessageSchema,
} from "../protocol/message.ts";
import type { Model, ModelReply } from "./model.ts";
import { toReplayKey } from "./written-by.ts";
import { getErrorMessage } from "../kernel/error.ts";
import { copyForeignJson } from "../kernel/json-copy.ts";
import { readFields } from "./wire-json.ts";
import { lazySchema, z } from "../protocol/lazy-schema.ts";
import { estimateTokens, isTokenCount, MOST_TOKENS } from "./count-tokens.ts";
import { ModelError } from "./model-error.ts";
import { MOST_DATA_BYTES } from "./reply-limits.ts";
import { FinishReasonSchema } from "../protocol/finish-reason.ts";
import { describeReceived } from "../kernel/check.ts";
import { warnOnce } from "../kernel/warn-once.ts";
import { isCost, type ReportedInput, type TokenUsage } from "./token-usage.ts";

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
export function markOwnReply(reply: ModelReply): ModelReply {
  if (reply.message.parts === undefined) ownReplies.add(Object.freeze(reply));
  return reply;
}

/**
 * The reply as values of our own, stamped with who wrote it, without a usage that cannot be true: the call is then charged by our own
 * count, and a warning names the model once. Throws a `ModelError` `model_invalid_reply` if it is no reply.
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

/** The reply, stamped with who wrote it also if it has no parts: a fallback goes by that. */
export function signReply(reply: ModelReply, writer: Model): ModelReply {
  const writtenBy = toReplayKey(writer);
  if (reply.message.writtenBy === writtenBy) return reply;
  return freezeInTests({ ...reply, message: { ...reply.message, writtenBy } });
}

/** Parsing freezes a list at its top only: with a list of its own the message can be frozen whole. */
export function copyCalls<Read extends Pick<AssistantMessage, "toolCalls">>(message: Read): Read {
  return { ...message, toolCalls: [...message.toolCalls] };
}

type ReadReply = Omit<z.infer<ReturnType<typeof PlainReplySchema>>, "message"> & {
  readonly message: AssistantMessage;
};

const MAX_WARNING_CHARACTERS = 500;
const MAX_FINISH_REASON_CHARACTERS = 200;

/** The reply that was read, with what is believed of its usage. */
export function buildReply(model: Model, read: ReadReply, size: CallSize): ModelReply {
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

/** True for no usage, and for the zeros of servers that do not count. */
function isAllZero(usage: unknown): boolean {
  return usage === undefined || (isRecord(usage) && isNothing({ ...NO_FIGURES, ...usage }));
}

const NO_FIGURES = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, reasoningTokens: 0 };

// A reply whose message has parts, as a model's adapter gave it: they are copied, measured, and must say what the message says. And the
// problem of a value that is no reply.

const MOST_DATA_LEVELS = 200;

/** Parts of later releases stand in stored messages, never in a reply; who wrote it is for the loop to say. */
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

/** Copies of all parts: an adapter could change them later. */
function copyParts(parts: unknown, context: z.RefinementCtx): unknown {
  if (!Array.isArray(parts)) return parts;
  let bytes = 0;
  return Array.from(parts, (part: unknown, index) => {
    try {
      const copy = copyForeignJson(part);
      const data = isRecord(copy) ? copy["data"] : undefined;
      if (data === undefined) return copy;
      const reason = findJsonProblem(data, MOST_DATA_LEVELS);
      if (reason !== undefined) throw new TypeError(`of its data ${reason}`);
      bytes += Buffer.byteLength(JSON.stringify(data));
      if (bytes <= MOST_DATA_BYTES) return copy;
      throw new RangeError(`with it the data is over ${MOST_DATA_BYTES} bytes`);
    } catch (cause) {
      const message = `Expected plain JSON, but ${getErrorMessage(cause)}`;
      context.addIssue({ code: "custom", path: [index], message });
      return z.NEVER;
    }
  });
}

/** Returns the first problem of parts that do not fit their message: the path of a part, and in words. */
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
export function parseReply<Parsed>(
  schema: z.ZodType<Parsed>,
  model: Model,
  reply: unknown,
): Parsed {
  const parsed = schema.safeParse(reply);
  if (parsed.success) return parsed.data;
  const { usage, message } = readFields(reply);
  const { outputTokens } = readFields(usage);
  const { text } = readFields(message);
  throw new ModelError({
    code: "model_invalid_reply",
    message: `Expected the model ${model.id} to return a ModelReply: ${z.prettifyError(parsed.error)}. Correct the model's adapter.`,
    data: { provider: model.provider, model: model.id },
    // It was paid for, by what it says that it wrote, else by an estimate of its text.
    lostOutputTokens: isTokenCount(outputTokens)
      ? outputTokens
      : estimateTokens(typeof text === "string" ? text : ""),
  });
}

// What is believed of the figures that a provider reports. What cannot be true is not charged, and a warning names the model once.

/** What we know of the size of a call ourselves: the figures of a provider are compared with it. */
export interface CallSize {
  /** As we, or the model's own counter, have counted them. */
  readonly inputTokens: number;
  /** The cap of the attempt. */
  readonly maxOutputTokens: number;
}

/** So many times the counted input plus the cap is more than any difference between tokenizers explains. */
const MOST_TIMES_COUNTED = 10;
/** The most input with the results of a provider's own tools: several windows of the largest models. */
const MOST_SERVER_INPUT = 10_000_000;
/** 4 KiB, which a client may have read whatever the cap is. */
const LOSS_ALLOWANCE_TOKENS = 1_366;

/** The most tokens that a provider can have counted for a call of this size. */
function computeMaxTokens({ inputTokens, maxOutputTokens }: CallSize): number {
  return Math.min(MOST_TIMES_COUNTED * (inputTokens + maxOutputTokens), MOST_TOKENS);
}

/**
 * The usage of a reply; undefined if there is none, or it cannot be true: the call is then charged by our own count. Zeros for a request that
 * is not empty are none.
 */
function validateUsage(model: Model, reported: unknown, size: CallSize): TokenUsage | undefined {
  if (reported === undefined) return undefined;
  const usage = readUsage(reported);
  if (usage !== undefined && isNothing(usage) && size.inputTokens > 0) return undefined;
  if (usage !== undefined && isPossible(usage, size)) return usage;
  warnOfFigures(model, `an impossible usage (${listFigures(reported)})`, size);
  return undefined;
}

function isPossible(usage: TokenUsage, size: CallSize): boolean {
  const { inputTokens, outputTokens, hasServerTools } = usage;
  const most = computeMaxTokens(size);
  if (hasServerTools === true) return inputTokens <= MOST_SERVER_INPUT && outputTokens <= most;
  return inputTokens + outputTokens <= most;
}

/** Returns what is said of a reply whose usage was rejected. */
function describeRejectedUsage(reported: unknown): string {
  return `The provider reported an impossible usage (${listFigures(reported)}). It was rejected, and the call was charged by the token count of espalier.`;
}

/** Whether it says that nothing was consumed: so say servers that do not count, and hooks whose reply cost nothing. */
export function isNothing({ inputTokens, outputTokens, reportedCostUsd = 0 }: TokenUsage): boolean {
  return inputTokens === 0 && outputTokens === 0 && reportedCostUsd === 0;
}

/** The figures of a usage whose parts are not larger than their whole; undefined if it is none. */
function readUsage(reported: unknown): TokenUsage | undefined {
  if (!isRecord(reported)) return undefined;
  const { inputTokens, cachedInputTokens, cacheWriteInputTokens, outputTokens, reasoningTokens } =
    reported;
  const { reportedCostUsd, serviceTier, hasServerTools } = reported;
  if (!isTokenCount(inputTokens) || !isTokenCount(outputTokens)) return undefined;
  if (!isTokenCount(cachedInputTokens) || !isTokenCount(reasoningTokens)) return undefined;
  if (cacheWriteInputTokens !== undefined && !isTokenCount(cacheWriteInputTokens)) return undefined;
  if (reportedCostUsd !== undefined && !isCost(reportedCostUsd)) return undefined;
  if (serviceTier !== undefined && typeof serviceTier !== "string") return undefined;
  if (hasServerTools !== undefined && hasServerTools !== true) return undefined;
  const own = hasServerTools === true ? ({ hasServerTools: true } as const) : {};
  const isWithin = cachedInputTokens + (cacheWriteInputTokens ?? 0) <= inputTokens;
  if (!isWithin || reasoningTokens > outputTokens) return undefined;
  const said = omitUndefined({
    cacheWriteInputTokens,
    reportedCostUsd,
    serviceTier,
  });
  return { inputTokens, cachedInputTokens, outputTokens, reasoningTokens, ...said, ...own };
}

/**
 * The output tokens that a failure says were lost: those that `arrived`, as far as we know, where its figure cannot be true. A warning
 * then names the model once.
 */
export function checkLoss(model: Model, lost: unknown, size: CallSize, arrived: number): number {
  if (isTokenCount(lost) && lost <= computeMaxTokens(size) + LOSS_ALLOWANCE_TOKENS) return lost;
  warnOfFigures(model, `an impossible loss (lostOutputTokens ${describeReceived(lost)})`, size);
  return arrived;
}

/** Returns the input that a failure reports, or `undefined` if it reports none or it cannot be true. */
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

function warnOfFigures(model: Model, what: string, size: CallSize): void {
  warnOnce(
    model,
    `The model ${model.id} of ${model.provider} reported ${what} for a call of ${size.inputTokens} counted input tokens and a cap of ${size.maxOutputTokens}. Such calls are charged by the token count of espalier. Check the server, or the model's adapter.`,
  );
}

function listFigures(reported: unknown): string {
  if (!isRecord(reported)) return describeReceived(reported);
  return Object.entries(reported)
    .map(([name, figure]) => `${name} ${describeReceived(figure)}`)
    .join(", ");
}
