// A response of the Responses interface as our reply: what each of its items is to us, and what all of them add up to. Lenient towards
// servers that leave out or bend what OpenAI sends.

import { defined, isRecord } from "../../kernel/json.ts";
import { idOf, type CallId } from "../../protocol/ids.ts";
import type { FinishReason } from "../../protocol/finish-reason.ts";
import type { ModelReply } from "../model.ts";
import { replyMessage, type ReplyPiece } from "../../protocol/reply-message.ts";
import {
  MOST_DATA_BYTES,
  OPENED_CALL_BYTES,
  tokensThatCame,
  type ReplyLimits,
} from "../reply-limits.ts";
import type { TokenUsage } from "../token-usage.ts";
import { failures, protocolError } from "./openai-errors.ts";
import { dataBytes, objectOfBody } from "./from-openai.ts";
import { BETWEEN_SUMMARIES, NAMESPACE } from "./to-responses.ts";
import { countIn, fieldsOf, isParsed, isText, usageOfFigures, type Fields } from "../wire-json.ts";

/** How large items are. */
export interface ItemsSize {
  /** What the model said, and what a call takes besides. */
  readonly saidBytes: number;
  /** What goes back as it came. */
  readonly dataBytes: number;
}

/** What is kept of one item. */
export interface ReadItem extends ItemsSize {
  readonly pieces: readonly ReplyPiece[];
  readonly text: string;
  readonly refusal: string;
}

const WRONG_SERVER =
  'Check that the base URL is that of a server that speaks Responses, or say api: "chat".';

/** The server answered with something that is no response. */
export function noResponseError(got: string, lostOutputTokens: number | undefined): Error {
  return protocolError(got, lostOutputTokens, WRONG_SERVER);
}

/**
 * Reads the body of a response that was not streamed.
 *
 * @throws ModelError `model_protocol_error` if it is no response, or longer than `limits` allow; the code of the error that it
 * reports, if it does.
 */
export function responseOfBody(body: string, limits: ReplyLimits): ModelReply {
  const response = objectOfBody(body, limits, noResponseError);
  const cameTokens = tokensThatCame(Buffer.byteLength(body), limits);
  const error = reportIn(response);
  if (error !== undefined) throw failures.reported(error, outputTokensOf(response));
  const { output } = response;
  if (!Array.isArray(output))
    throw noResponseError(`a response without output: ${body}`, undefined);
  const items = output.map((item, index) => readItem(item, index, cameTokens));
  const saidBytes = items.reduce((sum, item) => sum + item.saidBytes, 0);
  const dataBytes = items.reduce((sum, item) => sum + item.dataBytes, 0);
  checkSize({ saidBytes, dataBytes }, limits, cameTokens);
  return toReplyOfResponse(response, items);
}

/** Throws `model_protocol_error` if items are larger than a reply may be. `lostOutputTokens` are on the error. */
export function checkSize(
  { saidBytes, dataBytes }: ItemsSize,
  { replyBytes }: ReplyLimits,
  lostOutputTokens: number,
): void {
  if (saidBytes > replyBytes)
    throw failures.excess(`a reply of more than ${replyBytes} bytes`, lostOutputTokens);
  if (dataBytes > MOST_DATA_BYTES)
    throw failures.excess(
      `a reply with more than ${MOST_DATA_BYTES} bytes of data`,
      lostOutputTokens,
    );
}

/** The error that a response, or an event without a type, reports in place of an answer. */
export function reportIn(response: Fields): unknown {
  const { error, status, object } = response;
  if (isRecord(error) || typeof error === "string") return error;
  if (object === "error") return response;
  return status === "failed" ? { message: "the response failed, without a reason" } : undefined;
}

/** The output tokens that were charged for a reply that did not come. */
export function outputTokensOf(response: Fields): number | undefined {
  const tokens = countIn(response["usage"], "output_tokens") ?? 0;
  return tokens === 0 ? undefined : tokens;
}

/** The reply that a response with these items stands for. */
export function toReplyOfResponse(response: Fields, items: readonly ReadItem[]): ModelReply {
  const { status = "completed", incomplete_details: incomplete, id, model } = response;
  const message = replyMessage(items.flatMap(({ pieces }) => pieces));
  const refusal = items.map((item) => item.refusal).join("");
  const { reason } = fieldsOf(incomplete);
  const raw = isText(reason) ? reason : status;
  const wordOfCompleted = message.toolCalls.length > 0 ? "tool_calls" : "stop";
  const finishReason = raw === "completed" ? wordOfCompleted : (FINISH_REASONS.get(raw) ?? "other");
  return {
    message: refusal === "" ? message : Object.freeze({ ...message, refusal }),
    finishReason,
    ...(isText(raw) && raw !== "completed" && raw !== finishReason ? { rawFinishReason: raw } : {}),
    ...defined({ usage: toUsage(response) }),
    ...(isText(id) ? { responseId: id } : {}),
    ...(isText(model) ? { responseModel: model } : {}),
  };
}

const FINISH_REASONS: ReadonlyMap<unknown, FinishReason> = new Map([
  ["max_output_tokens", "length"],
  ["content_filter", "content_filter"],
]);

/** Reads the item at this place of a response. `lostOutputTokens` are on the error if it cannot be used. */
export function readItem(item: unknown, index: number, lostOutputTokens: number): ReadItem {
  if (!isRecord(item)) return NO_ITEM;
  switch (item["type"]) {
    case "message":
      return readMessage(item);
    case "reasoning":
      return readReasoning(item);
    case "function_call":
      return readCall(item, index, lostOutputTokens);
    default:
      return readOther(item);
  }
}

const NO_ITEM: ReadItem = Object.freeze({
  pieces: [],
  text: "",
  refusal: "",
  saidBytes: 0,
  dataBytes: 0,
});

function readMessage({ content, phase }: Fields): ReadItem {
  const text = textsIn(content, "output_text", "text").join("");
  const refusal = textsIn(content, "refusal", "refusal").join("");
  const data = isText(phase) ? { [NAMESPACE]: { phase } } : undefined;
  return {
    ...NO_ITEM,
    pieces: text === "" ? [] : [{ type: "text", text, data }],
    text,
    refusal,
    saidBytes: Buffer.byteLength(text) + Buffer.byteLength(refusal),
  };
}

/** Of a model that shows its reasoning, there is no summary but the text itself. */
function readReasoning({ summary, content, encrypted_content: sealed }: Fields): ReadItem {
  const summaries = textsIn(summary, "summary_text", "text");
  const text =
    summaries.length > 0
      ? summaries.join(BETWEEN_SUMMARIES)
      : textsIn(content, "reasoning_text", "text").join("");
  const lengths = summaries.map(({ length }) => length);
  const isOne = text === "" ? lengths.length === 0 : lengths[0] === text.length;
  const own = isText(sealed)
    ? { encrypted_content: sealed, ...(isOne ? {} : { summary: lengths }) }
    : undefined;
  if (text === "" && own === undefined) return NO_ITEM;
  const data = own === undefined ? undefined : { [NAMESPACE]: own };
  return {
    ...NO_ITEM,
    pieces: [{ type: "reasoning", text, data }],
    saidBytes: Buffer.byteLength(text),
    dataBytes: dataBytes(data),
  };
}

function readCall(item: Fields, index: number, lostOutputTokens: number): ReadItem {
  const { name, arguments: args = "" } = item;
  if (!isText(name)) throw protocolError("a tool call that names no tool", lostOutputTokens);
  const argumentsText = typeof args === "string" ? args : JSON.stringify(args);
  const ownId = callIdIn(item, index);
  const saidBytes = Buffer.byteLength(ownId + name + argumentsText) + OPENED_CALL_BYTES;
  const call = { callId: ownId, toolName: name, argumentsText };
  return { ...NO_ITEM, pieces: [{ type: "call", ...call }], saidBytes };
}

/** The id of a call, or one by its place where the server gives none. */
export function callIdIn({ call_id: callId, id }: Fields, index: number): CallId {
  return idOf<"CallId">([callId, id].find(isText) ?? `call.${index}`);
}

/** What the provider ran itself, or has made of the history: sent back as it came, but for the id, which the provider would not find again. */
function readOther(item: Fields): ReadItem {
  const { id: _id, ...kept } = item;
  const { type } = kept;
  if (!isText(type) || !isParsed(kept)) return NO_ITEM;
  const data = { [NAMESPACE]: kept };
  return { ...NO_ITEM, pieces: [{ type: "opaque", kind: type, data }], dataBytes: dataBytes(data) };
}

/** The texts of the parts of this type. */
function textsIn(parts: unknown, type: string, field: string): readonly string[] {
  if (!Array.isArray(parts)) return [];
  return parts.flatMap((part: unknown) => {
    const text = isRecord(part) && part["type"] === type ? part[field] : undefined;
    return typeof text === "string" ? [text] : [];
  });
}

function toUsage({ usage, service_tier: serviceTier }: Fields): TokenUsage | undefined {
  if (!isRecord(usage)) return undefined;
  const { input_tokens: input, output_tokens: output, input_tokens_details: details } = usage;
  if (typeof input !== "number" || typeof output !== "number") return undefined;
  return usageOfFigures({
    input,
    cached: countIn(details, "cached_tokens"),
    written: countIn(details, "cache_write_tokens"),
    output,
    reasoning: countIn(usage["output_tokens_details"], "reasoning_tokens"),
    serviceTier,
  });
}
