// A response of the Responses interface as our reply: what each of its items is to us, and what all of them add up to. Lenient towards
// servers that leave out or bend what OpenAI sends.

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
import { measureProviderData } from "./from-openai.ts";
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
import { getContentParts } from "../written-by.ts";
import { RememberedEach } from "../remembered.ts";
import { RESPONSES_CALL_ID, adaptCallId, stringifyForWire } from "../well-formed.ts";
import {
  repairArguments,
  buildRequestFields,
  stringifyFields,
  createToolsWriter,
  convertToWireParts,
} from "./request-fields.ts";
import type { WireSettings } from "./to-openai.ts";

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
  'Check that the base URL belongs to a server with the Responses API, or set api: "chat_completions".';

/** The server answered with something that is no response. */
export function createNoResponseError(got: string, lostOutputTokens: number | undefined): Error {
  return createProtocolError(got, lostOutputTokens, WRONG_SERVER);
}

/** The error that a response, or an event without a type, reports in place of an answer. */
export function findResponseReport(response: Fields): unknown {
  const { error, object } = response;
  if (isRecord(error) || typeof error === "string") return error;
  return object === "error" ? response : undefined;
}

/**
 * Returns the failure of a response that has failed or was cancelled, with the output that was charged
 * for it, or `undefined`. `arrivedTokens`: the output that came.
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

/** The output tokens that were charged for a reply that did not come. */
export function readOutputTokens(response: Fields): number | undefined {
  const tokens = readCount(response["usage"], "output_tokens") ?? 0;
  return tokens === 0 ? undefined : tokens;
}

const FINISH_REASONS: ReadonlyMap<unknown, FinishReason> = new Map([
  ["max_output_tokens", "length"],
  ["content_filter", "content_filter"],
]);

/** The id of a call, or one by its place where the server gives none. */
export function readCallId({ call_id: callId, id }: Fields, index: number): CallId {
  return parseId<"CallId">([callId, id].find(isText) ?? `call.${index}`);
}

/** The usage of a response; `undefined` if it has no figures. */
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

const NO_ITEM: ReadItem = Object.freeze({ pieces: [], text: "", refusal: "", dataBytes: 0 });

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
  const { type } = item;
  switch (type) {
    case "message": {
      const { content, phase } = item;
      const said = readTexts(content, "output_text", "text").join("");
      const refused = readTexts(content, "refusal", "refusal").join("");
      const [text = "", refusal = ""] = admit([said, refused]);
      const data = isText(phase) ? { [NAMESPACE]: { phase } } : undefined;
      return {
        ...NO_ITEM,
        pieces: text === "" ? [] : [{ type: "text", text, data }],
        text,
        refusal,
      };
    }
    case "reasoning": {
      const { summary, content, encrypted_content: sealed } = item;
      const summaries = readTexts(summary, "summary_text", "text");
      // A model that shows its reasoning has no summary but the text itself.
      const shown = readTexts(content, "reasoning_text", "text").join("");
      const whole = summaries.length > 0 ? summaries.join(BETWEEN_SUMMARIES) : shown;
      const [text = ""] = admit([whole]);
      const lengths = summaries.map(({ length }) => length);
      const isOne = text === "" ? lengths.length === 0 : lengths[0] === text.length;
      // Sealed reasoning goes back with the whole of its summary, or not at all.
      const own =
        isText(sealed) && text === whole
          ? { encrypted_content: sealed, ...(isOne ? {} : { summary: lengths }) }
          : undefined;
      if (text === "" && own === undefined) return NO_ITEM;
      const data = own && { [NAMESPACE]: own };
      return { ...NO_ITEM, pieces: [{ type, text, data }], dataBytes: measureProviderData(data) };
    }
    case "function_call": {
      const { name, arguments: args = "" } = item;
      if (!isText(name))
        throw createProtocolError("a tool call that names no tool", lostOutputTokens);
      const written = typeof args === "string" ? args : JSON.stringify(args);
      const [toolName = "", argumentsText = ""] = admit([name, written]);
      // Half a name would be the name of another tool.
      if (toolName !== name) return NO_ITEM;
      const callId = readCallId(item, index);
      return { ...NO_ITEM, pieces: [{ type: "call", callId, toolName, argumentsText }] };
    }
    default: {
      // What the provider ran itself, or has made of the history, goes back as it came, but for the id, which it would not find again.
      const { id: _id, ...kept } = item;
      if (!isText(type) || !isWireObject(kept)) return NO_ITEM;
      const data = { [NAMESPACE]: kept };
      const pieces: readonly ReplyPiece[] = [{ type: "opaque", kind: type, data }];
      return { ...NO_ITEM, pieces, dataBytes: measureProviderData(data) };
    }
  }
}

/** The texts of the parts of this type. */
function readTexts(parts: unknown, type: string, field: string): readonly string[] {
  return readList(parts)
    .map((part) => (readFields(part)["type"] === type ? readFields(part)[field] : undefined))
    .filter((text) => typeof text === "string");
}

/** Calls and requests that the client should answer, of tools that a request of ours never offers. */
const UNSUPPORTED =
  /^((custom_tool|apply_patch|shell|local_shell|computer)_call|mcp_approval_request)$/;

/**
 * Returns the reply that a response with these items stands for.
 *
 * @throws ModelError `model_protocol_error` for a response that is not there yet, or only calls unknown tools.
 */
export function convertResponseToReply(response: Fields, items: readonly ReadItem[]): ModelReply {
  const { status = "completed", incomplete_details: incomplete, id, model } = response;
  const pieces = items.flatMap((item) => item.pieces);
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
  const refusal = items.map((item) => item.refusal).join("");
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

// Our request as the JSON text of a Responses request. Stateless: nothing is kept at the provider, and no item has an id, so that a
// history can be forked, compacted and sent from anywhere. Each message is written once for as long as it lives; what of it another
// model wrote has been taken out before, and so stands in another value, with a text of its own.

/** Under this name our data stands in `ReplyPart.data`. */
const NAMESPACE = "openai";

/**
 * The body of a request. What stays the same from step to step comes first: the text of one request, up to the end of its
 * input, is a prefix of the next one, so that prompt caches hit. Nothing of `request.messages` may be what the model is not to see.
 * `isSealed`: whether reasoning is asked for in the form in which it can be sent back; models without reasoning refuse to be asked.
 */
export function toResponses(
  request: ModelRequest,
  { modelId, options }: Pick<WireSettings, "modelId" | "options">,
  isStreaming: boolean,
  isSealed: boolean,
): string {
  const head = `{"model":${stringifyForWire(modelId)}${textOfTools(request.tools, options)},"input":[`;
  const input = writtenItems.of(request.messages, writeItems).filter((text) => text !== "");
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

const writtenItems = new RememberedEach<Message, string>();

/** A tool of which nothing is said is strict here, unlike in Chat Completions. */
const textOfTools = createToolsWriter(({ spec, strict }) => {
  const { name, description, inputSchema } = spec;
  const parameters = strict ?? inputSchema;
  return { type: "function", name, description, parameters, strict: strict !== undefined };
});

/** Returns the items of a message without the brackets around them; a reply that said nothing has none. */
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
  const own = readOwnData(piece.data, NAMESPACE);
  switch (piece.type) {
    case "reasoning": {
      const { encrypted_content, summary } = own;
      if (typeof encrypted_content !== "string") return [];
      // Lengths are kept where the summary is not the text as one part.
      const whole = piece.text === "" ? [] : [piece.text];
      const texts = Array.isArray(summary) ? splitSummary(piece.text, summary) : whole;
      const parts = texts.map((text) => ({ type: "summary_text", text }));
      return [{ type: "reasoning", summary: parts, encrypted_content }];
    }
    case "text": {
      const phase = own["phase"] === undefined ? {} : { phase: own["phase"] };
      return [{ role: "assistant", content: piece.text, ...phase }];
    }
    case "call": {
      const { callId, toolName: name, argumentsText } = piece;
      const args = repairArguments(argumentsText) ?? argumentsText;
      const call_id = adaptCallId(callId, RESPONSES_CALL_ID);
      return [{ type: "function_call", call_id, name, arguments: args }];
    }
    case "opaque":
      return own["type"] === piece.kind ? [own] : [];
  }
}

/** What stands between the parts of a summary in the text of their piece. */
export const BETWEEN_SUMMARIES = "\n\n";

function splitSummary(text: string, lengths: readonly unknown[]): readonly string[] {
  let from = 0;
  return lengths.map((length) => {
    const part = text.slice(from, from + Number(length));
    from += part.length + BETWEEN_SUMMARIES.length;
    return part;
  });
}
