// Counts the input tokens of a request: exactly if the model counts, else by an estimate. The
// estimate reads only new messages.

import type { Message } from "../protocol/message.ts";
import type { Model, ModelReply, ModelRequest, OutputSchema, ToolSpec } from "./model.ts";
import { getOrCompute } from "./memoized-values.ts";
import { hasContent } from "./recipient-messages.ts";
import { findAttachmentSize } from "../protocol/attachment.ts";
import { isAttached, type ContentPart } from "../protocol/message-content.ts";

// A token is about four characters of English, three of code, one of Chinese. Three bytes of UTF-8
// estimate too many rather than too few: the rest of a lease is returned, but a lease that is too
// small would be overdrawn.
export const BYTES_PER_TOKEN = 3;
const TOKENS_PER_MESSAGE = 6;

/**
 * More tokens than any request or reply has. Larger figures are rejected, so that sums stay exact.
 */
export const MAX_TOKENS = 1_000_000_000;

/** Returns true for a number of tokens that a request or a reply can have. */
export function isTokenCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= MAX_TOKENS;
}

const countedMessages = new WeakMap<Message, number>();
const countedTools = new WeakMap<readonly ToolSpec[], number>();
const countedOutputs = new WeakMap<OutputSchema, number>();

/**
 * Count of an earlier request by its provider: `tokens` includes the first `messageCount` messages,
 * the tools and the schema of the result.
 */
export interface MeasuredPrefix {
  readonly messageCount: number;
  readonly tokens: number;
}

/**
 * Returns the input tokens of `request`: the model's own count, or else the provider's count of
 * `prefix` plus an estimate of the rest. `prefix` excludes `ephemeral` messages.
 */
export function countInputTokens(
  model: Model,
  request: ModelRequest,
  prefix: MeasuredPrefix,
  ephemeral?: ReadonlySet<Message>,
): { readonly tokens: number; readonly isEstimated: boolean } {
  const counted = model.countTokens?.(request);
  if (counted !== undefined && isTokenCount(counted))
    return { tokens: counted, isEstimated: false };
  const { messages } = request;
  const history =
    ephemeral === undefined ? messages : messages.filter((message) => !ephemeral.has(message));
  const known = prefix.messageCount === 0 ? estimateBeginningTokens(request) : prefix.tokens;
  const added = estimateMessages(history.slice(prefix.messageCount));
  return { tokens: known + added + estimateMessages(ephemeral ?? []), isEstimated: true };
}

/** Estimates the input tokens of a request. */
export function estimateRequest({ messages, tools }: ModelRequest): number {
  return estimateToolTokens(tools) + estimateMessages(messages);
}

/** Estimates the tokens of a text. */
export function estimateTokens(text: string): number {
  return estimateTokensFromBytes(Buffer.byteLength(text));
}

/** Estimates the tokens of a text with this length in UTF-8. */
export function estimateTokensFromBytes(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

/** Estimates the tokens of a message with this text. */
export function estimateMessageTokens(text: string): number {
  return TOKENS_PER_MESSAGE + estimateTokens(text);
}

/** Estimates the tokens of messages. */
export function estimateMessages(messages: Iterable<Message>): number {
  let tokens = 0;
  for (const message of messages)
    tokens += getOrCompute(countedMessages, message, estimateWholeMessage);
  return tokens;
}

function estimateWholeMessage(message: Message): number {
  const calls = message.role === "assistant" ? JSON.stringify(message.toolCalls) : "";
  const { reasoning, dataBytes, attachedTokens } = readMessageExtras(message);
  const extraTokens =
    estimateTokensFromBytes(Buffer.byteLength(reasoning) + dataBytes) + attachedTokens;
  return estimateMessageTokens(message.text + calls) + extraTokens;
}

/** Encrypted reasoning is base64: four characters encode three bytes. */
const DECODED_SHARE = 3 / 4;

/** Returns the content of a message beside its text and its calls. */
export function readMessageExtras(message: Message): {
  readonly reasoning: string;
  /** Bytes of data that the model reads. */
  readonly dataBytes: number;
  /** Estimate for attachments. */
  readonly attachedTokens: number;
} {
  let reasoning = "";
  let dataBytes = 0;
  if (hasContent(message))
    return { reasoning, dataBytes, attachedTokens: estimateContentTokens(message.content) };
  const { parts = [] } = message.role === "assistant" ? message : {};
  for (const part of parts) {
    if (part.type === "reasoning") reasoning += part.text;
    if (part.data !== undefined)
      dataBytes += Buffer.byteLength(JSON.stringify(part.data)) * DECODED_SHARE;
  }
  return { reasoning, dataBytes, attachedTokens: 0 };
}

/** Estimates the tokens of the tools and the schema, which precede the messages. */
function estimateBeginningTokens({ tools, output }: ModelRequest): number {
  const toolTokens = getOrCompute(countedTools, tools, estimateToolTokens);
  if (output === undefined) return toolTokens;
  return toolTokens + getOrCompute(countedOutputs, output, estimateSchemaTokens);
}

function estimateSchemaTokens({ schema }: OutputSchema): number {
  return estimateTokens(JSON.stringify(schema));
}

function estimateToolTokens(tools: readonly ToolSpec[]): number {
  return tools.length === 0 ? 0 : estimateTokens(JSON.stringify(tools));
}

/**
 * Returns the known prefix after a reply: the provider's count without ephemeral messages, plus the
 * reply. The reply's reasoning is excluded unless it is sent again.
 */
export function measurePrefix(
  prefix: MeasuredPrefix,
  { messages, ephemeralTokens }: { readonly messages: number; readonly ephemeralTokens: number },
  { message, usage }: Pick<ModelReply, "message" | "usage">,
): MeasuredPrefix {
  if (usage === undefined || usage.inputTokens === 0) return prefix;
  if (usage.hasServerTools === true) return prefix; // Includes input beside the history.
  const sent = Math.max(0, usage.inputTokens - ephemeralTokens);
  const unsent = message.parts === undefined ? usage.reasoningTokens : 0;
  return { messageCount: messages + 1, tokens: sent + usage.outputTokens - unsent };
}

// Estimates the tokens of attachments until the provider has counted them. The constants are the
// approximate figures that providers publish. Pure.

const IMAGE_TOKENS = 1_600;
const PIXELS_PER_TOKEN = 750;
const MIN_IMAGE_TOKENS = 85;
const MAX_IMAGE_TOKENS = 4_800;
const FILE_TOKENS = 2_000;
const FILE_BYTES_PER_TOKEN = 20;
const AUDIO_BYTES_PER_TOKEN = 500;

/** Estimates the tokens of attachments. */
function estimateContentTokens(content: readonly ContentPart[]): number {
  let tokens = 0;
  for (const attachment of content.filter(isAttached)) {
    const { type, data = "" } = attachment;
    const bytes = findAttachmentSize(attachment) ?? 0;
    if (type === "image") {
      const header = Buffer.from(data.slice(0, HEADER_CHARACTERS), "base64");
      const pixels = readPngPixels(header) ?? readJpegPixels(header);
      const counted = pixels === undefined ? IMAGE_TOKENS : Math.ceil(pixels / PIXELS_PER_TOKEN);
      tokens += Math.min(Math.max(counted, MIN_IMAGE_TOKENS), MAX_IMAGE_TOKENS);
    } else if (type === "file") tokens += FILE_TOKENS + Math.ceil(bytes / FILE_BYTES_PER_TOKEN);
    // The length of a sound that the provider fetches is unknown.
    else tokens += bytes === 0 ? FILE_TOKENS : Math.ceil(bytes / AUDIO_BYTES_PER_TOKEN);
  }
  return tokens;
}

/** A JPEG contains its size after the metadata of the camera: 64 KiB at most, or a little more. */
const HEADER_CHARACTERS = 4 * 32_768;

const PNG_SIGNATURE = 0x89_50_4e_47;
const PNG_WIDTH_OFFSET = 16;
const PNG_HEIGHT_OFFSET = 20;
const PNG_HEADER_BYTES = 24;

function readPngPixels(header: Buffer): number | undefined {
  if (header.length < PNG_HEADER_BYTES || header.readUInt32BE(0) !== PNG_SIGNATURE)
    return undefined;
  return header.readUInt32BE(PNG_WIDTH_OFFSET) * header.readUInt32BE(PNG_HEIGHT_OFFSET);
}

const JPEG_SIGNATURE = 0xff_d8;
const MARKER = 0xff;
/** The segments with the size of the image are C0 to CF, except three. */
const FIRST_FRAME = 0xc0;
const LAST_FRAME = 0xcf;
const OTHER_SEGMENTS: readonly number[] = [0xc4, 0xc8, 0xcc];
const SEGMENT_HEAD_BYTES = 9;

function readJpegPixels(header: Buffer): number | undefined {
  if (header.length < 2 || header.readUInt16BE(0) !== JPEG_SIGNATURE) return undefined;
  let at = 2;
  while (at + SEGMENT_HEAD_BYTES <= header.length && header[at] === MARKER) {
    const kind = header.readUInt8(at + 1);
    if (kind >= FIRST_FRAME && kind <= LAST_FRAME && !OTHER_SEGMENTS.includes(kind))
      return header.readUInt16BE(at + 5) * header.readUInt16BE(at + 7);
    at += 2 + header.readUInt16BE(at + 2);
  }
  return undefined;
}
