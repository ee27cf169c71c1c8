// Reads responses and chunks of Chat Completions, and builds replies. Accepts deviations from
// OpenAI's format, except in the message, and in the names of called tools, which the loop needs.

import {
  omitUndefined,
  isRecord,
  type JsonObject,
  type JsonValue,
  tryParseJson,
} from "../../kernel/json.ts";
import { parseId } from "../../protocol/ids.ts";
import type { ProviderData, ReplyPart } from "../../protocol/message.ts";
import type { FinishReason } from "../../protocol/finish-reason.ts";
import type { ModelReply } from "../model.ts";
import { buildReplyMessage, type ReplyPiece } from "../../protocol/reply-message.ts";
import {
  CUT_WARNING,
  estimateReceivedTokens,
  measureData,
  type ReplyLimits,
  type ReplyMeter,
} from "../reply-limits.ts";
import type { TokenUsage } from "../token-usage.ts";
import { failures } from "./openai-errors.ts";
import {
  readCost,
  readCount,
  findErrorInBody,
  readFields,
  isText,
  readList,
  hasServerToolUsage,
  toTokenUsage,
  addCachedInput,
  type Fields,
  isWireObject,
  readOwnData,
} from "../wire-json.ts";
import { GrowingText } from "./growing-text.ts";
import { REASONING_FIELDS, type ReasoningField, type ReplyStream } from "./answer-options.ts";

/** The fields of a response beside its pieces. */
interface Completion {
  readonly refusal?: string;
  /** As the server sent it. */
  readonly finishReason: unknown;
  readonly usage?: TokenUsage | undefined;
  readonly responseId?: string | undefined;
  readonly responseModel?: string | undefined;
}

export interface CompletionCall {
  readonly id: string;
  readonly name: string;
  readonly argumentsText: string;
  readonly data?: ProviderData | undefined;
}

/** Returns the JSON object of a body. `refuse` creates the error for any other body. */
export function parseBody(body: string, limits: ReplyLimits, refuse: Refuse): Fields {
  // A body that begins as an object is a truncated reply. Any other body never was a reply.
  const lostOutputTokens = body.startsWith("{")
    ? estimateReceivedTokens(Buffer.byteLength(body), limits)
    : undefined;
  return parseObject(body, "a body", { lostOutputTokens }, refuse);
}

type Refuse = (got: string, lostOutputTokens: number | undefined) => Error;

/** Returns the JSON object of a text, which is a body or the data of an event. */
export function parseObject(
  text: string,
  subject: string,
  reply: Pick<ReplyStream, "lostOutputTokens">,
  refuse: Refuse,
): Fields {
  const parsed = tryParseJson(text);
  if (isRecord(parsed)) return parsed;
  const error = findErrorInBody(parsed);
  if (error !== undefined) throw failures.reported(error, reply.lostOutputTokens);
  throw refuse(`${subject} that is not a JSON object: ${text}`, reply.lostOutputTokens);
}

/**
 * Returns the call in the report of a malformed call (Groq's `tool_use_failed`), which is the
 * model's fault and not the request's. `undefined` if the report is another, or the call is
 * unreadable.
 */
export function readFailedCall(report: unknown): CompletionCall | undefined {
  if (!isRecord(report) || report["code"] !== "tool_use_failed") return undefined;
  const written = joinTexts(report["failed_generation"]);
  const call = tryParseJson(written);
  if (isRecord(call)) {
    const { name, argumentsText } = readCall({ function: call });
    return name === "" ? undefined : { id: "", name, argumentsText };
  }
  const [opening, name] = /<function=([\w.-]+)>?/.exec(written) ?? [];
  if (opening === undefined || name === undefined) return undefined;
  const [argumentsText = ""] = written
    .slice(written.indexOf(opening) + opening.length)
    .split("</function>", 1);
  return { id: "", name, argumentsText: argumentsText.trim() };
}

/** Returns a reply with such a call. Like any other reply it is cut, and its call validated. */
export function convertFailedCall(
  call: CompletionCall,
  meter: ReplyMeter,
  reasoning: readonly ReplyPiece[] = [],
): ModelReply {
  const [name = "", argumentsText = ""] = meter.admitItem([call.name, call.argumentsText], 0);
  if (!meter.isCut)
    return toReply([...reasoning, toCallPiece(call, "call.0")], { finishReason: "tool_calls" });
  // A truncated name would call another tool.
  const calls = name === call.name ? [toCallPiece({ ...call, argumentsText }, "call.0")] : [];
  const reply = toReply([...reasoning, ...calls], { finishReason: "length" });
  return { ...reply, warnings: [CUT_WARNING] };
}

/** Returns the usage, from any of the places where servers put it. */
export function findUsage(response: Fields, choice: Fields | undefined): unknown {
  return response["usage"] ?? readFields(response["x_groq"])["usage"] ?? choice?.["usage"];
}

/** Returns the output tokens that were charged for a missing reply. */
export function readReportedTokens(usage: unknown): number | undefined {
  const tokens = readChatUsage(usage, undefined)?.outputTokens;
  return tokens !== undefined && tokens > 0 ? tokens : undefined;
}

/** Builds a reply from its pieces. */
export function toReply(
  pieces: readonly ReplyPiece[],
  { refusal = "", finishReason: raw, usage, responseId, responseModel }: Completion,
): ModelReply {
  const message = buildReplyMessage(pieces);
  const finishReason = FINISH_REASONS.get(raw) ?? (isText(raw) ? "other" : "unknown");
  return {
    message: refusal === "" ? message : Object.freeze({ ...message, refusal }),
    finishReason,
    ...(isText(raw) && raw !== finishReason ? { rawFinishReason: raw } : {}),
    ...omitUndefined({ usage, responseId, responseModel }),
  };
}

/** Returns the error that a response or chunk contains instead of an answer, in any form. */
export function findReport(response: Fields): unknown {
  return response["error"] ?? (response["object"] === "error" ? response : undefined);
}

/** Returns the first choice. Requests never ask for more. */
export function findFirstChoice(response: Fields): Fields | undefined {
  const choices = readList(response["choices"]).filter(isRecord);
  return choices.find(({ index }) => (index ?? 0) === 0);
}

/** Returns a call, or a delta of a call. Missing texts are empty. */
export function readCall(call: unknown): CompletionCall {
  const fields = readFields(call);
  const callee = readFields(fields["function"]);
  const args = callee["arguments"] ?? "";
  return {
    id: joinTexts(fields["id"]),
    name: joinTexts(callee["name"]),
    argumentsText: typeof args === "string" ? args : JSON.stringify(args),
    ...readExtraContent(fields),
  };
}

/** Converts a call to a piece of a reply. `ownId`: used if the server sent no id. */
export function toCallPiece(
  { id, name, argumentsText, data }: CompletionCall,
  ownId: string,
): ReplyPiece {
  const callId = parseId<"CallId">(id === "" ? ownId : id);
  return { type: "call", callId, toolName: name, argumentsText, data };
}

const FINISH_REASONS: ReadonlyMap<unknown, FinishReason> = new Map([
  ["stop", "stop"],
  ["length", "length"],
  ["tool_calls", "tool_calls"],
  ["function_call", "tool_calls"],
  ["content_filter", "content_filter"],
  ["error", "error"],
]);

/** Returns the usage that a server reports, or `undefined` without figures. */
export function readChatUsage(
  usage: unknown,
  serviceTier: unknown,
  hasServerTools = false,
): TokenUsage | undefined {
  if (!isRecord(usage)) return undefined;
  const costUsd = readCost(usage);
  const prompt = usage["prompt_tokens"] ?? 0;
  const completion = usage["completion_tokens"] ?? (costUsd === undefined ? undefined : 0);
  if (typeof prompt !== "number" || typeof completion !== "number") return undefined;
  const total = readCount(usage, "total_tokens") ?? 0;
  const details = usage["prompt_tokens_details"];
  const cached =
    readCount(details, "cached_tokens") ??
    readCount(usage, "num_cached_tokens") ??
    readCount(usage, "prompt_cache_hit_tokens") ??
    0;
  const hasPrompt = prompt !== 0 || cached > 0;
  // Some servers omit reasoning from completion_tokens, but all include it in the total and charge
  // it.
  const rest = hasPrompt ? total - addCachedInput(prompt, cached) : 0;
  const outputTokens = completion < 0 ? completion : Math.max(completion, rest);
  const promptTokens = hasPrompt || completion <= 0 ? prompt : Math.max(total - completion, 0);
  return toTokenUsage({
    input: promptTokens,
    cached,
    written: readCount(details, "cache_write_tokens"), // An extension of OpenAI's format.
    output: outputTokens,
    reasoning: readCount(usage["completion_tokens_details"], "reasoning_tokens"),
    costUsd,
    serviceTier,
    hasServerTools: hasServerTools || hasServerToolUsage(usage),
  });
}

// Reads and writes fields of Chat Completions beside text and calls that servers need back:
// reasoning, which has a different name per server, and related data. OpenAI's own messages contain
// neither. Mistral's reasoning comes as parts of `content`: { type: "thinking", thinking: [{ type:
// "text", … }] }.

/** `undefined`: the field that the server uses. `false`: reasoning is neither stored nor sent. */
export type ReasoningOption = ReasoningField | false | undefined;

/** Key of our data in `ReplyPart.data`. */
const NAMESPACE = "chat";

/** Data that is stored with the reasoning of a reply. */
interface ReasoningData {
  /** The field that contained the reasoning, or absent if there were only details. */
  readonly field?: ReasoningField;
  /** Other fields of a thinking part, such as `signature`, if the reasoning was in `content`. */
  readonly thinking?: JsonObject;
  /** True if a thinking part was a text instead of a list of parts. */
  readonly isText?: true;
  /** `reasoning_details` of OpenRouter and others: signatures and encrypted reasoning. */
  readonly details?: readonly JsonObject[];
}

/** Collects the reasoning of a reply, from a message or from its deltas. */
export class ChatReasoning {
  readonly #option: ReasoningOption;
  readonly #meter: ReplyMeter;
  readonly #text = new GrowingText();
  #field: ReasoningField | undefined;
  readonly #details: Record<string, JsonValue>[] = [];
  readonly #thinking: ThinkingPart[] = [];

  constructor(option: ReasoningOption, meter: ReplyMeter) {
    this.#option = option;
    this.#meter = meter;
  }

  /**
   * Processes the reasoning of a message or delta after a text of this length. Returns the
   * reasoning within the cap.
   */
  take(message: Fields, textLength: number): string {
    const hasField = (this.#option || this.#field) !== undefined;
    const thinking = hasField
      ? []
      : readList(message["content"]).filter(isWireObject).filter(isThinking);
    if (thinking.length > 0)
      return thinking.map((part) => this.#takeThinking(part, textLength)).join("");
    const known = this.#option === false ? undefined : (this.#option ?? this.#field);
    const field = known ?? REASONING_FIELDS.find((name) => joinTexts(message[name]) !== "");
    const text = field === undefined ? "" : this.#meter.admit(joinTexts(message[field]));
    if (this.#option === false) return text;
    if (text !== "") this.#field ??= field;
    this.#text.push(text);
    for (const detail of readList(message["reasoning_details"]).filter(isWireObject))
      this.#takeDetail(detail, text !== "");
    return text;
  }

  /**
   * Returns the reasoning and the text of the reply in order. The last piece is a text with `data`.
   */
  buildPieces(text: string, data: ProviderData | undefined): readonly ReplyPiece[] {
    const pieces: ReplyPiece[] = [];
    let from = 0;
    for (const part of this.#thinking) {
      if (part.textLength > from)
        pieces.push({ type: "text", text: text.slice(from, part.textLength) });
      from = part.textLength;
      const data = {
        thinking: part.fields,
        ...(part.isText ? { isText: true as const } : {}),
      } satisfies ReasoningData;
      pieces.push({ type: "reasoning", text: String(part.text), data: { [NAMESPACE]: data } });
    }
    const details = this.#details;
    const thought = String(this.#text);
    if (thought !== "" || details.length > 0) {
      // Reasoning in a field beside the text.
      const ownData = {
        ...omitUndefined({ field: this.#field }),
        ...(details.length === 0 ? {} : { details }),
      } satisfies ReasoningData;
      pieces.push({ type: "reasoning", text: thought, data: { [NAMESPACE]: ownData } });
    }
    return [...pieces, { type: "text", text: text.slice(from), data }];
  }

  /** A streamed part continues the last part until its signature, or a text, has been received. */
  #takeThinking({ type: _type, thinking, ...fields }: JsonObject, textLength: number): string {
    const text = this.#meter.admit(joinTexts(thinking));
    const isEmpty = text === "" && Object.keys(fields).length === 0;
    if (this.#option === false || isEmpty) return text;
    const last = this.#thinking.at(-1);
    // A part without text ends the last part, also after a text.
    const isNew = text !== "" && last?.textLength !== textLength;
    const open = last === undefined || isNew || "signature" in last.fields ? undefined : last;
    const isText = typeof thinking === "string";
    const part = open ?? { text: new GrowingText(), textLength, fields: {}, isText };
    if (open === undefined) {
      this.#thinking.push(part);
      this.#meter.countOpened();
    }
    part.text.push(text);
    for (const [name, value] of Object.entries(fields)) {
      if (part.fields[name] !== value) this.#meter.countData(measureData(value));
      part.fields[name] = value;
    }
    return text;
  }

  /**
   * Adds a detail, or appends to the last one: streamed details come as deltas with one index.
   * `isCounted`: their texts were counted.
   */
  #takeDetail(detail: JsonObject, isCounted: boolean): void {
    const open = this.#details.at(-1);
    const { type, index } = detail;
    const isNext = typeof index === "number" && open?.["index"] === index && open["type"] === type;
    if (open === undefined || !isNext) {
      this.#details.push({ ...detail });
      this.#meter.countData(measureData(detail));
      return;
    }
    for (const [name, value] of Object.entries(detail)) {
      const before = open[name];
      if (GROWING.includes(name) && typeof before === "string" && typeof value === "string") {
        open[name] = before + value;
        if (!isCounted || name === "data") this.#meter.countData(Buffer.byteLength(value));
      } else {
        open[name] = value;
        if (before !== value) this.#meter.countData(measureData(value));
      }
    }
  }
}

function isThinking(part: unknown): boolean {
  const { type, thinking } = readFields(part);
  return type === "thinking" && (Array.isArray(thinking) || typeof thinking === "string");
}

/**
 * Splits a message or delta so that thinking parts precede the text of each piece. Its other fields
 * are in the last piece.
 */
export function splitAtThinking(message: Fields): readonly Fields[] {
  if (!Array.isArray(message["content"])) return [message];
  const { content: _content, ...others } = message;
  const parts: readonly unknown[] = message["content"];
  const begins = parts.flatMap((part, index) =>
    index > 0 && isThinking(part) && !isThinking(parts[index - 1]) ? [index] : [],
  );
  const ends = [...begins, parts.length];
  return ends.map((end, index) => {
    const piece = parts.slice(begins[index - 1] ?? 0, end);
    return index === begins.length ? { ...others, content: piece } : { content: piece };
  });
}

interface ThinkingPart {
  readonly text: GrowingText;
  /** The length of the text before the part. */
  readonly textLength: number;
  readonly isText: boolean;
  readonly fields: Record<string, JsonValue>;
}

const GROWING: readonly string[] = ["text", "summary", "data"];

/**
 * Returns the fields of a message that send reasoning back, under the names that its server used.
 */
export function writeReasoning(pieces: readonly ReplyPiece[], option: ReasoningOption): Fields {
  if (option === false) return {};
  const sent: Record<string, string> = {};
  let details: readonly unknown[] = [];
  for (const piece of pieces) {
    if (piece.type !== "reasoning") continue;
    const field = findReasoningField(piece, option);
    if (field !== undefined) sent[field] = (sent[field] ?? "") + piece.text;
    const { details: ownDetails } = readOwnData(piece.data, NAMESPACE);
    if (Array.isArray(ownDetails)) details = details.concat(ownDetails);
  }
  return details.length === 0 ? sent : { ...sent, reasoning_details: details };
}

/**
 * Returns the `content` of a message that sends thinking parts back, or `undefined` if the reply
 * has no such parts.
 */
export function writeThinking(
  pieces: readonly ReplyPiece[],
  option: ReasoningOption,
): readonly JsonObject[] | undefined {
  if (option !== undefined) return undefined;
  let hasThinking = false;
  const parts = pieces.flatMap((piece): readonly JsonObject[] => {
    if (piece.type === "text") return createTextParts(piece.text);
    if (piece.type !== "reasoning") return [];
    const { thinking, isText } = readOwnData(piece.data, NAMESPACE);
    if (!isWireObject(thinking)) return [];
    hasThinking = true;
    const sent = isText === true ? piece.text : createTextParts(piece.text);
    return [{ type: "thinking", thinking: sent, ...thinking }];
  });
  return hasThinking ? parts : undefined;
}

function createTextParts(text: string): readonly JsonObject[] {
  return text === "" ? [] : [{ type: "text", text }];
}

/**
 * Returns the field that sends the reasoning of a part back, or `undefined` without visible
 * reasoning.
 */
export function findReasoningField(
  part: ReplyPart | ReplyPiece,
  option: ReasoningOption,
): ReasoningField | undefined {
  if (option === false || part.type !== "reasoning" || part.text === "") return undefined;
  const { field } = readOwnData(part.data, NAMESPACE);
  return option ?? REASONING_FIELDS.find((name) => name === field);
}

/** Returns the signature of reasoning that Gemini's Chat API adds to a text or a call. */
export function readExtraContent(fields: Fields): {
  readonly data?: ProviderData;
} {
  const extra = fields["extra_content"];
  return isWireObject(extra) ? { data: { [NAMESPACE]: { extra_content: extra } } } : {};
}

/** Returns the field that sends the signature back. */
export function writeExtraContent({ data }: ReplyPiece): Fields {
  const { extra_content } = readOwnData(data, NAMESPACE);
  return extra_content === undefined ? {} : { extra_content };
}

/** Returns the text of a content, which is a string, a list of parts, or absent. */
export function joinTexts(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((part) => readFields(part)["text"])
    .filter((text) => typeof text === "string")
    .join("");
}
