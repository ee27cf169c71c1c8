// What a Chat Completions response or chunk says, and the reply that it stands for. Lenient towards servers that leave out or bend what OpenAI sends; strict about what
// the loop relies on: a message, and calls that name their tool.

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
  type ReplyCut,
  type ReplyLimits,
  OPENED_BYTES,
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
import { REASONING_FIELDS, type ReasoningField } from "./answer-options.ts";

/** What a response said besides the pieces of its message; unchecked where the type is unknown. */
interface Completion {
  readonly refusal?: string;
  readonly finishReason: unknown;
  readonly usage?: unknown;
  readonly serviceTier?: unknown;
  /** The message shows that the server ran tools of its own. */
  readonly hasServerTools?: boolean;
  readonly responseId?: string | undefined;
  readonly responseModel?: string | undefined;
}

export interface CompletionCall {
  readonly id: string;
  readonly name: string;
  readonly argumentsText: string;
  readonly data?: ProviderData;
}

/** The object of JSON that a body is. `refuse` makes the error if it is none. */
export function parseBody(
  body: string,
  limits: ReplyLimits,
  refuse: (got: string, lostOutputTokens: number | undefined) => Error,
): Fields {
  const response = tryParseJson(body);
  if (isRecord(response)) return response;
  const error = findErrorInBody(response);
  if (error !== undefined) throw failures.reported(error, undefined);
  // Broken JSON is what is left of a reply; anything else was never one.
  const came = estimateReceivedTokens(Buffer.byteLength(body), limits);
  throw refuse(
    `a body that is not a JSON object: ${body}`,
    body.startsWith("{") ? came : undefined,
  );
}

/** How large the data of a piece is. */
export function measureProviderData(data: ProviderData | undefined): number {
  return data === undefined ? 0 : Buffer.byteLength(JSON.stringify(data));
}

/**
 * The call in a report that the model wrote one that its server would not take (Groq's `tool_use_failed`): the model's fault, not that of
 * the request. Undefined if it reports anything else, or the call cannot be read.
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

/** The reply that such a call is: to be checked, and corrected, like any other. It is cut like any other, too. */
export function convertFailedCall(
  call: CompletionCall,
  cut: ReplyCut,
  reasoning: readonly ReplyPiece[] = [],
): ModelReply {
  const [name = "", argumentsText = ""] = cut.admitItem([call.name, call.argumentsText], 0);
  if (!cut.isCut)
    return toReply([...reasoning, toCallPiece(call, "call.0")], { finishReason: "tool_calls" });
  // Half a name would be the name of another tool.
  const calls = name === call.name ? [toCallPiece({ ...call, argumentsText }, "call.0")] : [];
  const reply = toReply([...reasoning, ...calls], { finishReason: "length" });
  return { ...reply, warnings: [CUT_WARNING] };
}

/** The usage, wherever in a response or chunk its server puts it. */
export function findUsage(response: Fields, choice: Fields | undefined): unknown {
  return response["usage"] ?? readFields(response["x_groq"])["usage"] ?? choice?.["usage"];
}

/** The output tokens that were charged for a reply that did not come. */
export function readReportedTokens(usage: unknown): number | undefined {
  const tokens = readChatUsage(usage, undefined)?.outputTokens;
  return tokens !== undefined && tokens > 0 ? tokens : undefined;
}

/** The reply that these pieces are. */
export function toReply(
  pieces: readonly ReplyPiece[],
  {
    refusal = "",
    finishReason: raw,
    usage,
    serviceTier,
    hasServerTools,
    responseId,
    responseModel,
  }: Completion,
): ModelReply {
  const message = buildReplyMessage(pieces);
  const finishReason = FINISH_REASONS.get(raw) ?? (isText(raw) ? "other" : "unknown");
  return {
    message: refusal === "" ? message : Object.freeze({ ...message, refusal }),
    finishReason,
    ...(isText(raw) && raw !== finishReason ? { rawFinishReason: raw } : {}),
    ...omitUndefined({
      usage: readChatUsage(usage, serviceTier, hasServerTools),
      responseId,
      responseModel,
    }),
  };
}

/** The error that a response or chunk reports in place of an answer, in one of the forms that servers use. */
export function findReport(response: Fields): unknown {
  return response["error"] ?? (response["object"] === "error" ? response : undefined);
}

/** The first choice: we never ask for more than one. */
export function findFirstChoice(response: Fields): Fields | undefined {
  const choices = readList(response["choices"]).filter(isRecord);
  return choices.find(({ index }) => (index ?? 0) === 0);
}

/** A call, or a piece of one: what is missing is empty text. */
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

/** A call as a piece of a reply. `ownId`: for one that its server gave no id. */
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

/** The usage that a server gives; `undefined` if it has no figures. */
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
  // Some servers leave reasoning out of completion_tokens, but none leaves it out of the total, nor out of the bill.
  const rest = hasPrompt ? total - addCachedInput(prompt, cached) : 0;
  const outputTokens = completion < 0 ? completion : Math.max(completion, rest);
  const promptTokens = hasPrompt || completion <= 0 ? prompt : Math.max(total - completion, 0);
  return toTokenUsage({
    input: promptTokens,
    cached,
    written: readCount(details, "cache_write_tokens"), // What servers with a cache of their own add to OpenAI's form.
    output: outputTokens,
    reasoning: readCount(usage["completion_tokens_details"], "reasoning_tokens"),
    costUsd,
    serviceTier,
    hasServerTools: hasServerTools || hasServerToolUsage(usage),
  });
}

// What Chat Completions servers say besides text and calls, and want to see again: reasoning, under
// the name that each has for it, and data that goes with it. OpenAI's own messages contain neither.
// Mistral's reasoning comes as parts of `content`: { type: "thinking", thinking: [{ type: "text", … }] }.

/** By default it is the field that came; `false`: reasoning is neither kept nor sent. */
export type ReasoningOption = ReasoningField | false | undefined;

/** Under this name our data stands in `ReplyPart.data`. */
const NAMESPACE = "chat";

/** What is kept of a reply with its reasoning, as `data`. */
interface ReasoningData {
  /** The field that it came in. Left out: there were details only. */
  readonly field?: ReasoningField;
  /** The other fields of a thinking part, such as `signature`, if the reasoning came in `content`. */
  readonly thinking?: JsonObject;
  /** True if a thinking part was a text, and not a list of parts. */
  readonly isText?: true;
  /** `reasoning_details` of OpenRouter and others: signatures and encrypted reasoning. */
  readonly details?: readonly JsonObject[];
}

interface TakenReasoning {
  readonly text: string;
  /** The size of the parts that were opened, besides their texts. */
  readonly openedBytes: number;
  readonly dataBytes: number;
}

/** The reasoning of one reply, put together from a message or from the pieces of one. */
export class ChatReasoning {
  readonly #option: ReasoningOption;
  readonly #text = new GrowingText();
  #field: ReasoningField | undefined;
  readonly #details: Record<string, JsonValue>[] = [];
  readonly #thinking: ThinkingPart[] = [];

  constructor(option: ReasoningOption) {
    this.#option = option;
  }

  /**
   * Takes the reasoning of a message, or of a piece of one, behind a text of this length. Returns the
   * reasoning as `admit` takes it, and how many bytes are kept besides.
   */
  take(message: Fields, textLength: number, admit: (text: string) => string): TakenReasoning {
    const hasField = (this.#option || this.#field) !== undefined;
    const thinking = hasField
      ? []
      : readList(message["content"]).filter(isWireObject).filter(isThinking);
    if (thinking.length > 0) return this.#takeThinking(thinking, textLength, admit);
    const known = this.#option === false ? undefined : (this.#option ?? this.#field);
    const field = known ?? REASONING_FIELDS.find((name) => joinTexts(message[name]) !== "");
    const text = field === undefined ? "" : admit(joinTexts(message[field]));
    if (this.#option === false) return { text, openedBytes: 0, dataBytes: 0 };
    if (text !== "") {
      this.#field ??= field;
      this.#text.push(text);
    }
    let dataBytes = 0;
    for (const detail of readList(message["reasoning_details"]).filter(isWireObject))
      dataBytes += this.#takeDetail(detail, text !== "");
    return { text, openedBytes: 0, dataBytes };
  }

  /** Returns the reasoning and the text of the reply in their order. The last piece is a text with `data`. */
  piecesWith(text: string, data: ProviderData | undefined): readonly ReplyPiece[] {
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
      // The reasoning that came in a field beside the text.
      const own = {
        ...omitUndefined({ field: this.#field }),
        ...(details.length === 0 ? {} : { details }),
      } satisfies ReasoningData;
      pieces.push({ type: "reasoning", text: thought, data: { [NAMESPACE]: own } });
    }
    return [...pieces, { type: "text", text: text.slice(from), data }];
  }

  /** Streamed parts continue the last one until its signature, or a text, has come. */
  #takeThinking(
    parts: readonly JsonObject[],
    textLength: number,
    admit: (text: string) => string,
  ): TakenReasoning {
    let all = "";
    let openedBytes = 0;
    let dataBytes = 0;
    for (const { type: _type, thinking, ...fields } of parts) {
      const text = admit(joinTexts(thinking));
      all += text;
      const isEmpty = text === "" && Object.keys(fields).length === 0;
      if (this.#option === false || isEmpty) continue;
      const last = this.#thinking.at(-1);
      // A part without text is the end of the last one, also behind a text.
      const isNew = text !== "" && last?.textLength !== textLength;
      const open = last === undefined || isNew || "signature" in last.fields ? undefined : last;
      const isText = typeof thinking === "string";
      const part = open ?? { text: new GrowingText(), textLength, fields: {}, isText };
      if (open === undefined) {
        this.#thinking.push(part);
        openedBytes += OPENED_BYTES;
      }
      part.text.push(text);
      for (const [name, value] of Object.entries(fields)) {
        if (part.fields[name] !== value) dataBytes += Buffer.byteLength(JSON.stringify(value));
        part.fields[name] = value;
      }
    }
    return { text: all, openedBytes, dataBytes };
  }

  /** Details that are streamed come in pieces with one index. Gives the bytes that it adds; `isCounted`: but not those of its text. */
  #takeDetail(detail: JsonObject, isCounted: boolean): number {
    const open = this.#details.at(-1);
    const { type, index } = detail;
    const isNext = typeof index === "number" && open?.["index"] === index && open["type"] === type;
    if (open === undefined || !isNext) {
      this.#details.push({ ...detail });
      return Buffer.byteLength(JSON.stringify(detail));
    }
    let bytes = 0;
    for (const [name, value] of Object.entries(detail)) {
      const before = open[name];
      const isGrowing = GROWING.includes(name) && typeof before === "string";
      if (!isGrowing || typeof value !== "string") {
        if (before !== value) bytes += Buffer.byteLength(JSON.stringify(value));
        open[name] = value;
        continue;
      }
      open[name] = before + value;
      if (!isCounted || name === "data") bytes += Buffer.byteLength(value);
    }
    return bytes;
  }
}

function isThinking(part: unknown): boolean {
  const { type, thinking } = readFields(part);
  return type === "thinking" && (Array.isArray(thinking) || typeof thinking === "string");
}

/**
 * Returns the message, or a piece of one, in pieces of which each has its thinking parts before its
 * text. Its other fields are in the last one.
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
  /** The length of the text before it. */
  readonly textLength: number;
  readonly isText: boolean;
  readonly fields: Record<string, JsonValue>;
}

const GROWING: readonly string[] = ["text", "summary", "data"];

/** The fields of a message that send the reasoning of its pieces back, under the names that it came by. */
export function writeReasoning(pieces: readonly ReplyPiece[], option: ReasoningOption): Fields {
  if (option === false) return {};
  const sent: Record<string, string> = {};
  let details: readonly unknown[] = [];
  for (const piece of pieces) {
    if (piece.type !== "reasoning") continue;
    const field = findReasoningField(piece, option);
    if (field !== undefined) sent[field] = (sent[field] ?? "") + piece.text;
    const { details: own } = readOwnData(piece.data, NAMESPACE);
    if (Array.isArray(own)) details = details.concat(own);
  }
  return details.length === 0 ? sent : { ...sent, reasoning_details: details };
}

/**
 * Returns the `content` of a reply with thinking parts that is sent back, or `undefined` for a reply
 * without such parts.
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

/** The field in which a part of a reply goes back; undefined: it has no reasoning in clear. */
export function findReasoningField(
  part: ReplyPart | ReplyPiece,
  option: ReasoningOption,
): ReasoningField | undefined {
  if (option === false || part.type !== "reasoning" || part.text === "") return undefined;
  const { field } = readOwnData(part.data, NAMESPACE);
  return option ?? REASONING_FIELDS.find((name) => name === field);
}

/** What Gemini's Chat interface puts beside a text or a call: the signature of what it thought. */
export function readExtraContent(of: Fields): {
  readonly data?: ProviderData;
} {
  const extra = of["extra_content"];
  return isWireObject(extra) ? { data: { [NAMESPACE]: { extra_content: extra } } } : {};
}

/** The field that sends it back. */
export function writeExtraContent({ data }: ReplyPiece): Fields {
  const { extra_content } = readOwnData(data, NAMESPACE);
  return extra_content === undefined ? {} : { extra_content };
}

/** Text as servers give it: a string, a list of parts of which some are text, or nothing. */
export function joinTexts(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((part) => readFields(part)["text"])
    .filter((text) => typeof text === "string")
    .join("");
}
