// A response of the Responses interface as our reply: what each of its items is to us, and what all of them add up to. Lenient towards
// servers that leave out or bend what OpenAI sends.

import { defined, isRecord } from "../../kernel/json.ts";
import { idOf, type CallId } from "../../protocol/ids.ts";
import type { FinishReason } from "../../protocol/finish-reason.ts";
import type { ModelReply } from "../model.ts";
import type { ModelError } from "../model-error.ts";
import { replyMessage, type ReplyPiece } from "../../protocol/reply-message.ts";
import {
  CUT_WARNING,
  MOST_DATA_BYTES,
  ReplyCut,
  tokensThatCame,
  type ReplyLimits,
} from "../reply-limits.ts";
import { withLostInput } from "../http-errors.ts";
import type { TokenUsage } from "../token-usage.ts";
import { failures, protocolError } from "./openai-errors.ts";
import { dataBytes, objectOfBody } from "./from-openai.ts";
import { BETWEEN_SUMMARIES, NAMESPACE } from "./to-responses.ts";
import {
  costIn,
  countIn,
  errorInBody,
  fieldsOf,
  isParsed,
  isText,
  namesServerTools,
  usageOfFigures,
  type Fields,
} from "../wire-json.ts";

/** What is kept of one item. */
export interface ReadItem {
  readonly pieces: readonly ReplyPiece[];
  readonly text: string;
  readonly refusal: string;
  /** The size of what goes back as it came. */
  readonly dataBytes: number;
}

/** Returns the texts of an item, or their beginning where the reply is cut. */
export type AdmitTexts = (texts: readonly string[]) => readonly string[];

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
  const failure = failureOfResponse(response, undefined);
  if (failure !== undefined) throw withLostInput(failure, readResponseUsage(response));
  const { output } = response;
  const other = Array.isArray(output) ? undefined : errorInBody(response);
  if (other !== undefined) throw failures.reported(other, undefined);
  if (!Array.isArray(output))
    throw noResponseError(`a response without output: ${body}`, undefined);
  const cut = new ReplyCut(limits);
  cut.trust(outputTokensOf(response));
  const admit: AdmitTexts = (texts) => cut.admitItem(texts, 0);
  const items = output.map((item, index) => readItem(item, index, admit, cameTokens));
  checkData(
    items.reduce((sum, item) => sum + item.dataBytes, 0),
    cameTokens,
  );
  return cut.isCut ? cutReply(response, items, cut) : toReplyOfResponse(response, items);
}

/** Throws `model_protocol_error` if a reply has too much data. `lostOutputTokens` are on the error. */
export function checkData(bytes: number, lostOutputTokens: number): void {
  if (bytes <= MOST_DATA_BYTES) return;
  const got = `a reply with more than ${MOST_DATA_BYTES} bytes of data`;
  throw failures.excess(got, lostOutputTokens);
}

/** Returns the reply that was cut: with its reported usage, unless what came counts for more. */
export function cutReply(
  { usage, ...response }: Fields,
  items: readonly ReadItem[],
  cut: ReplyCut,
): ModelReply {
  const isHonest = cut.isHonest(outputTokensOf({ usage }));
  const ended = { ...response, ...CUT_END, ...(isHonest ? { usage } : {}) };
  return { ...toReplyOfResponse(ended, items), warnings: [CUT_WARNING] };
}

const CUT_END: Fields = {
  status: "incomplete",
  incomplete_details: { reason: "max_output_tokens" },
};

/** The error that a response, or an event without a type, reports in place of an answer. */
export function reportIn(response: Fields): unknown {
  const { error, object } = response;
  if (isRecord(error) || typeof error === "string") return error;
  return object === "error" ? response : undefined;
}

/**
 * Returns the failure of a response that has failed or was cancelled, with the output that was charged
 * for it, or `undefined`. `arrivedTokens`: the output that came.
 */
export function failureOfResponse(
  response: Fields,
  arrivedTokens: number | undefined,
): ModelError | undefined {
  const { status } = response;
  const error = reportIn(response);
  if (error === undefined && status !== "failed" && status !== "cancelled") return undefined;
  const charged = outputTokensOf(response) ?? arrivedTokens;
  const lost = charged && Math.max(charged, arrivedTokens ?? 0);
  return status === "cancelled" ? failures.cancelled(lost) : failures.failed(error, lost);
}

/** The output tokens that were charged for a reply that did not come. */
export function outputTokensOf(response: Fields): number | undefined {
  const tokens = countIn(response["usage"], "output_tokens") ?? 0;
  return tokens === 0 ? undefined : tokens;
}

/** The reply that a response with these items stands for. */
export function toReplyOfResponse(response: Fields, items: readonly ReadItem[]): ModelReply {
  const { status = "completed", incomplete_details: incomplete, id, model } = response;
  checkAnswer(response, items);
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
    ...defined({ usage: readResponseUsage(response, items.some(isServerCall)) }),
    ...(isText(id) ? { responseId: id } : {}),
    ...(isText(model) ? { responseModel: model } : {}),
  };
}

/** Calls and requests that the client should answer, of tools that a request of ours never offers. */
const UNSUPPORTED =
  /^((custom_tool|apply_patch|shell|local_shell|computer)_call|mcp_approval_request)$/;

/** Throws `model_protocol_error` for a response that is not there yet, or only calls unknown tools. */
function checkAnswer(response: Fields, items: readonly ReadItem[]): void {
  const { status } = response;
  const kinds = items.flatMap(({ pieces }) => pieces);
  if (kinds.some(({ type }) => type === "call" || type === "text")) return;
  const lost = outputTokensOf(response);
  const input = readResponseUsage(response);
  if (status === "queued" || status === "in_progress")
    throw withLostInput(failures.unfinished(status, lost), input);
  const call = kinds.find((piece) => piece.type === "opaque" && UNSUPPORTED.test(piece.kind));
  if (call?.type === "opaque")
    throw withLostInput(failures.unsupportedCall(call.kind, lost), input);
}

const FINISH_REASONS: ReadonlyMap<unknown, FinishReason> = new Map([
  ["max_output_tokens", "length"],
  ["content_filter", "content_filter"],
]);

/**
 * Reads the item at this place of a response, as far as its texts are admitted. `lostOutputTokens`
 * are on the error if it cannot be used.
 */
export function readItem(
  item: unknown,
  index: number,
  admit: AdmitTexts,
  lostOutputTokens: number,
): ReadItem {
  if (!isRecord(item)) return NO_ITEM;
  switch (item["type"]) {
    case "message":
      return readMessage(item, admit);
    case "reasoning":
      return readReasoning(item, admit);
    case "function_call":
      return readCall(item, index, admit, lostOutputTokens);
    default:
      return readOther(item);
  }
}

const NO_ITEM: ReadItem = Object.freeze({
  pieces: [],
  text: "",
  refusal: "",
  dataBytes: 0,
});

function readMessage({ content, phase }: Fields, admit: AdmitTexts): ReadItem {
  const [text = "", refusal = ""] = admit([
    textsIn(content, "output_text", "text").join(""),
    textsIn(content, "refusal", "refusal").join(""),
  ]);
  const data = isText(phase) ? { [NAMESPACE]: { phase } } : undefined;
  return {
    ...NO_ITEM,
    pieces: text === "" ? [] : [{ type: "text", text, data }],
    text,
    refusal,
  };
}

/** Of a model that shows its reasoning, there is no summary but the text itself. */
function readReasoning(
  { summary, content, encrypted_content: sealed }: Fields,
  admit: AdmitTexts,
): ReadItem {
  const summaries = textsIn(summary, "summary_text", "text");
  const whole =
    summaries.length > 0
      ? summaries.join(BETWEEN_SUMMARIES)
      : textsIn(content, "reasoning_text", "text").join("");
  const [text = ""] = admit([whole]);
  const lengths = summaries.map(({ length }) => length);
  const isOne = text === "" ? lengths.length === 0 : lengths[0] === text.length;
  // Sealed reasoning goes back with the whole of its summary, or not at all.
  const own =
    isText(sealed) && text === whole
      ? { encrypted_content: sealed, ...(isOne ? {} : { summary: lengths }) }
      : undefined;
  if (text === "" && own === undefined) return NO_ITEM;
  const data = own === undefined ? undefined : { [NAMESPACE]: own };
  return {
    ...NO_ITEM,
    pieces: [{ type: "reasoning", text, data }],
    dataBytes: dataBytes(data),
  };
}

function readCall(
  item: Fields,
  index: number,
  admit: AdmitTexts,
  lostOutputTokens: number,
): ReadItem {
  const { name, arguments: args = "" } = item;
  if (!isText(name)) throw protocolError("a tool call that names no tool", lostOutputTokens);
  const written = typeof args === "string" ? args : JSON.stringify(args);
  const [toolName = "", argumentsText = ""] = admit([name, written]);
  // Half a name would be the name of another tool.
  if (toolName !== name) return NO_ITEM;
  const call = { callId: callIdIn(item, index), toolName, argumentsText };
  return { ...NO_ITEM, pieces: [{ type: "call", ...call }] };
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

/** The usage of a response; `undefined` if it has no figures. */
export function readResponseUsage(
  { usage, service_tier: serviceTier }: Fields,
  hasServerTools = false,
): TokenUsage | undefined {
  if (!isRecord(usage)) return undefined;
  const costUsd = costIn(usage);
  const input = usage["input_tokens"] ?? 0;
  const output = usage["output_tokens"] ?? (costUsd === undefined ? undefined : 0);
  if (typeof input !== "number" || typeof output !== "number") return undefined;
  const { input_tokens_details: details } = usage;
  return usageOfFigures({
    input,
    cached: countIn(details, "cached_tokens"),
    written: countIn(details, "cache_write_tokens"),
    output,
    costUsd,
    reasoning: countIn(usage["output_tokens_details"], "reasoning_tokens"),
    serviceTier,
    hasServerTools: hasServerTools || namesServerTools(usage),
  });
}

/** True for a call that the provider ran. The output of a client tool comes from the client. */
function isServerCall({ pieces }: ReadItem): boolean {
  return pieces.some(
    (piece) =>
      piece.type === "opaque" &&
      (piece.kind.endsWith("_call_output") ||
        (piece.kind.endsWith("_call") && !UNSUPPORTED.test(piece.kind))),
  );
}
