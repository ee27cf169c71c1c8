// Converts responses of the Responses API to replies, and requests to its bodies. Accepts
// deviations from OpenAI's format.

import { omitUndefined, isRecord } from "../../kernel/json.ts";
import { parseId, type CallId } from "../../protocol/ids.ts";
import type { FinishReason } from "../../protocol/finish-reason.ts";
import type { ModelReply, ModelRequest } from "../model.ts";
import type { ModelError } from "../model-error.ts";
import {
  buildReplyMessage,
  type ReplyPiece,
  getReplyPieces,
} from "../../protocol/reply-message.ts";
import { addLostInput } from "../http-errors.ts";
import type { TokenUsage } from "../token-usage.ts";
import { failures, createProtocolError } from "./openai-errors.ts";
import {
  readCost,
  readCount,
  readFields,
  isWireObject,
  isText,
  readList,
  hasServerToolUsage,
  toTokenUsage,
  type Fields,
  readOwnData,
} from "../wire-json.ts";
import type { Message } from "../../protocol/message.ts";
import { getContentParts } from "../recipient-messages.ts";
import { MemoizedList } from "../memoized-values.ts";
import { RESPONSES_CALL_ID, adaptCallId, stringifyForWire } from "../wire-text.ts";
import {
  repairArguments,
  buildRequestFields,
  stringifyFields,
  createToolsWriter,
  convertToWireParts,
} from "./request-fields.ts";
import type { WireSettings } from "./to-openai.ts";

/** The stored part of an item. */
export interface ReadItem {
  readonly piece?: ReplyPiece | undefined;
  readonly refusal?: string;
}

/** Returns the texts of an item, or their beginning if the reply is cut. */
export type AdmitTexts = (texts: readonly string[]) => readonly string[];

const WRONG_SERVER =
  'Check that the base URL belongs to a server with the Responses API, or set api: "chat_completions".';

/** Creates the error for an answer that is not a response. */
export function createNoResponseError(got: string, lostOutputTokens: number | undefined): Error {
  return createProtocolError(got, lostOutputTokens, WRONG_SERVER);
}

/** Returns the error that a response, or an event without a type, contains instead of an answer. */
export function findResponseReport(response: Fields): unknown {
  const { error, object } = response;
  if (isRecord(error) || typeof error === "string") return error;
  return object === "error" ? response : undefined;
}

/**
 * Returns the failure of a failed or cancelled response, with its charged output, or `undefined`.
 * `arrivedTokens`: the received output.
 */
export function findResponseFailure(
  response: Fields,
  arrivedTokens: number | undefined,
): ModelError | undefined {
  const { status } = response;
  const error = findResponseReport(response);
  if (error === undefined && status !== "failed" && status !== "cancelled") return undefined;
  const charged = readOutputTokens(response) ?? arrivedTokens;
  const lost = charged && Math.max(charged, arrivedTokens ?? 0);
  return status === "cancelled" ? failures.cancelled(lost) : failures.failed(error, lost);
}

/** Returns the output tokens that were charged for a missing reply. */
export function readOutputTokens(response: Fields): number | undefined {
  const tokens = readCount(response["usage"], "output_tokens") ?? 0;
  return tokens === 0 ? undefined : tokens;
}

const FINISH_REASONS: ReadonlyMap<unknown, FinishReason> = new Map([
  ["max_output_tokens", "length"],
  ["content_filter", "content_filter"],
]);

/** Returns the id of a call, or an id by its index if the server sent none. */
export function readCallId({ call_id: callId, id }: Fields, index: number): CallId {
  return parseId<"CallId">([callId, id].find(isText) ?? `call.${index}`);
}

/** Returns the usage of a response, or `undefined` without figures. */
export function readResponseUsage(
  { usage, service_tier: serviceTier }: Fields,
  hasServerTools = false,
): TokenUsage | undefined {
  if (!isRecord(usage)) return undefined;
  const costUsd = readCost(usage);
  const input = usage["input_tokens"] ?? 0;
  const output = usage["output_tokens"] ?? (costUsd === undefined ? undefined : 0);
  if (typeof input !== "number" || typeof output !== "number") return undefined;
  const { input_tokens_details: details } = usage;
  return toTokenUsage({
    input,
    cached: readCount(details, "cached_tokens"),
    written: readCount(details, "cache_write_tokens"),
    output,
    costUsd,
    reasoning: readCount(usage["output_tokens_details"], "reasoning_tokens"),
    serviceTier,
    hasServerTools: hasServerTools || hasServerToolUsage(usage),
  });
}

/**
 * Reads the item at this index of a response, as far as its texts are admitted. An invalid item
 * throws an error with `lostOutputTokens`.
 */
export function readItem(
  item: unknown,
  index: number,
  admit: AdmitTexts,
  lostOutputTokens: number,
): ReadItem {
  if (!isRecord(item)) return {};
  const { type } = item;
  switch (type) {
    case "message": {
      const { content, phase } = item;
      const outputText = readTexts(content, "output_text", "text").join("");
      const refused = readTexts(content, "refusal", "refusal").join("");
      const [text = "", refusal = ""] = admit([outputText, refused]);
      const data = isText(phase) ? { [NAMESPACE]: { phase } } : undefined;
      return { piece: text === "" ? undefined : { type: "text", text, data }, refusal };
    }
    case "reasoning": {
      const { summary, content, encrypted_content: sealed } = item;
      const summaries = readTexts(summary, "summary_text", "text");
      // A model that shows its reasoning sends the text instead of a summary.
      const shown = readTexts(content, "reasoning_text", "text").join("");
      const whole = summaries.length > 0 ? summaries.join(BETWEEN_SUMMARIES) : shown;
      const [text = ""] = admit([whole]);
      const lengths = summaries.map(({ length }) => length);
      const isOne = text === "" ? lengths.length === 0 : lengths[0] === text.length;
      // Encrypted reasoning is sent back with its complete summary, or not at all.
      const ownData =
        isText(sealed) && text === whole
          ? { encrypted_content: sealed, ...(isOne ? {} : { summary: lengths }) }
          : undefined;
      if (text === "" && ownData === undefined) return {};
      return { piece: { type, text, data: ownData && { [NAMESPACE]: ownData } } };
    }
    case "function_call": {
      const { name, arguments: args = "" } = item;
      if (!isText(name))
        throw createProtocolError("a tool call that names no tool", lostOutputTokens);
      const written = typeof args === "string" ? args : JSON.stringify(args);
      const [toolName = "", argumentsText = ""] = admit([name, written]);
      // A truncated name would call another tool.
      if (toolName !== name) return {};
      return { piece: { type: "call", callId: readCallId(item, index), toolName, argumentsText } };
    }
    default: {
      // Server-side calls and compactions are sent back unchanged, but without the id, which the
      // server no longer knows.
      const { id: _id, ...fields } = item;
      if (!isText(type) || !isWireObject(fields)) return {};
      return { piece: { type: "opaque", kind: type, data: { [NAMESPACE]: fields } } };
    }
  }
}

/** Returns the texts of the parts of this type. */
function readTexts(parts: unknown, type: string, field: string): readonly string[] {
  return readList(parts)
    .map((part) => (readFields(part)["type"] === type ? readFields(part)[field] : undefined))
    .filter((text) => typeof text === "string");
}

/** Calls and approvals that the client should answer, for tools that our requests never offer. */
const UNSUPPORTED =
  /^((custom_tool|apply_patch|shell|local_shell|computer)_call|mcp_approval_request)$/;

/**
 * Builds the reply from the items of a response.
 *
 * @throws ModelError `model_protocol_error` for an unfinished response, or for a response that only
 * calls unsupported tools.
 */
export function convertResponseToReply(response: Fields, items: readonly ReadItem[]): ModelReply {
  const { status = "completed", incomplete_details: incomplete, id, model } = response;
  const pieces = items.flatMap(({ piece }) => piece ?? []);
  const kinds = pieces.flatMap((piece) => (piece.type === "opaque" ? [piece.kind] : []));
  // The output of a client tool comes from the client.
  const hasServerCalls = kinds.some(
    (kind) => kind.endsWith("_call_output") || (kind.endsWith("_call") && !UNSUPPORTED.test(kind)),
  );
  const usage = readResponseUsage(response, hasServerCalls);
  if (!pieces.some(({ type }) => type === "call" || type === "text")) {
    const lost = readOutputTokens(response);
    if (status === "queued" || status === "in_progress")
      throw addLostInput(failures.unfinished(status, lost), usage);
    const call = kinds.find((kind) => UNSUPPORTED.test(kind));
    if (call !== undefined) throw addLostInput(failures.unsupportedCall(call, lost), usage);
  }
  const message = buildReplyMessage(pieces);
  const refusal = items.map((item) => item.refusal ?? "").join("");
  const { reason } = readFields(incomplete);
  const raw = isText(reason) ? reason : status;
  const wordOfCompleted = message.toolCalls.length > 0 ? "tool_calls" : "stop";
  const finishReason = raw === "completed" ? wordOfCompleted : (FINISH_REASONS.get(raw) ?? "other");
  return {
    message: refusal === "" ? message : Object.freeze({ ...message, refusal }),
    finishReason,
    ...(isText(raw) && raw !== "completed" && raw !== finishReason ? { rawFinishReason: raw } : {}),
    ...omitUndefined({ usage }),
    ...(isText(id) ? { responseId: id } : {}),
    ...(isText(model) ? { responseModel: model } : {}),
  };
}

// Writes requests as JSON text of the Responses API. Stateless: the provider stores nothing and
// items have no ids, so that a history can be forked, compacted and sent from anywhere. The text of
// each message is memoised by the message object. Content for other models was removed before,
// which created another object.

/** Key of our data in `ReplyPart.data`. */
const NAMESPACE = "openai";

/**
 * Returns the body of a request. Fields that stay the same from step to step come first: a request
 * up to the end of its input is a prefix of the next request, so that prompt caches hit.
 * `request.messages` must contain only content for this model. `isSealed`: requests encrypted
 * reasoning, which can be sent back. Models without reasoning refuse such requests.
 */
export function toResponses(
  request: ModelRequest,
  { modelId, options }: Pick<WireSettings, "modelId" | "options">,
  isStreaming: boolean,
  isSealed: boolean,
): string {
  const head = `{"model":${stringifyForWire(modelId)}${textOfTools(request.tools, options)},"input":[`;
  const input = writtenItems.getAll(request.messages, writeItems).filter((text) => text !== "");
  const fields = {
    ...buildRequestFields("responses", request, options),
    store: false,
    ...(isSealed ? { include: ["reasoning.encrypted_content"] } : {}),
    ...(isStreaming ? { stream: true, stream_options: { include_obfuscation: false } } : {}),
    ...options.extraBody,
  };
  const cap = `],"max_output_tokens":${request.maxOutputTokens}`;
  return `${head}${input.join(",")}${cap}${stringifyFields(fields)}}`;
}

const writtenItems = new MemoizedList<Message, string>();

/** The default of `strict` is true here, unlike in Chat Completions. */
const textOfTools = createToolsWriter(({ spec, strict }) => {
  const { name, description, inputSchema } = spec;
  const parameters = strict ?? inputSchema;
  return { type: "function", name, description, parameters, strict: strict !== undefined };
});

/** Returns the items of a message as JSON without brackets. An empty reply has no items. */
function writeItems(message: Message): string {
  return stringifyForWire(toItems(message)).slice(1, -1);
}

function toItems(message: Message): readonly object[] {
  const { role, text } = message;
  if (role === "system") return [{ role: "developer", content: text }];
  if (role === "assistant") {
    const items = getReplyPieces(message).flatMap(toItem);
    const { refusal } = message;
    return refusal === undefined ? items : [...items, { role, content: refusal }];
  }
  const hasParts = message.content !== undefined;
  const content = hasParts ? convertToWireParts("responses", getContentParts(message)) : text;
  if (role === "user") return [{ role, content }];
  const call_id = adaptCallId(message.callId, RESPONSES_CALL_ID);
  return [{ type: "function_call_output", call_id, output: content }];
}

function toItem(piece: ReplyPiece): readonly object[] {
  const ownData = readOwnData(piece.data, NAMESPACE);
  switch (piece.type) {
    case "reasoning": {
      const { encrypted_content, summary } = ownData;
      if (typeof encrypted_content !== "string") return [];
      // `summary` contains lengths unless the summary is the text in one part.
      const whole = piece.text === "" ? [] : [piece.text];
      const texts = Array.isArray(summary) ? splitSummary(piece.text, summary) : whole;
      const parts = texts.map((text) => ({ type: "summary_text", text }));
      return [{ type: "reasoning", summary: parts, encrypted_content }];
    }
    case "text": {
      const phase = ownData["phase"] === undefined ? {} : { phase: ownData["phase"] };
      return [{ role: "assistant", content: piece.text, ...phase }];
    }
    case "call": {
      const { callId, toolName: name, argumentsText } = piece;
      const args = repairArguments(argumentsText) ?? argumentsText;
      const call_id = adaptCallId(callId, RESPONSES_CALL_ID);
      return [{ type: "function_call", call_id, name, arguments: args }];
    }
    case "opaque":
      return ownData["type"] === piece.kind ? [ownData] : [];
  }
}

/** Separator between the parts of a summary in the text of their piece. */
export const BETWEEN_SUMMARIES = "\n\n";

function splitSummary(text: string, lengths: readonly unknown[]): readonly string[] {
  let from = 0;
  return lengths.map((length) => {
    const part = text.slice(from, from + Number(length));
    from += part.length + BETWEEN_SUMMARIES.length;
    return part;
  });
}
