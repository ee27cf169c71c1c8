// What a Chat Completions response or chunk says, and the reply that it stands for. Lenient towards servers that leave out or bend what OpenAI sends; strict about what
// the loop relies on: a message, and calls that name their tool.

import { defined, isRecord } from "../../kernel/json.ts";
import { idOf } from "../../protocol/ids.ts";
import type { ProviderData } from "../../protocol/message.ts";
import type { FinishReason } from "../../protocol/finish-reason.ts";
import type { ModelReply } from "../model.ts";
import { replyMessage, type ReplyPiece } from "../../protocol/reply-message.ts";
import { CUT_WARNING, tokensThatCame, type ReplyCut, type ReplyLimits } from "../reply-limits.ts";
import type { TokenUsage } from "../token-usage.ts";
import { extraContent, textOf } from "./chat-reasoning.ts";
import { failures } from "./openai-errors.ts";
import {
  costIn,
  countIn,
  errorInBody,
  fieldsOf,
  isText,
  listOf,
  namesServerTools,
  parseWireJson,
  usageOfFigures,
  wholeInput,
  type Fields,
} from "../wire-json.ts";

/** What a response said besides the pieces of its message; unchecked where the type is unknown. */
export interface Completion {
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
export function objectOfBody(
  body: string,
  limits: ReplyLimits,
  refuse: (got: string, lostOutputTokens: number | undefined) => Error,
): Fields {
  const response = parseWireJson(body);
  if (isRecord(response)) return response;
  const error = errorInBody(response);
  if (error !== undefined) throw failures.reported(error, undefined);
  // Broken JSON is what is left of a reply; anything else was never one.
  const came = tokensThatCame(Buffer.byteLength(body), limits);
  throw refuse(`a body that is no JSON object: ${body}`, body.startsWith("{") ? came : undefined);
}

/** How large the data of a piece is. */
export function dataBytes(data: ProviderData | undefined): number {
  return data === undefined ? 0 : Buffer.byteLength(JSON.stringify(data));
}

/**
 * The call in a report that the model wrote one that its server would not take (Groq's `tool_use_failed`): the model's fault, not that of
 * the request. Undefined if it reports anything else, or the call cannot be read.
 */
export function failedCall(report: unknown): CompletionCall | undefined {
  if (!isRecord(report) || report["code"] !== "tool_use_failed") return undefined;
  const written = textOf(report["failed_generation"]);
  const call = parseWireJson(written);
  if (isRecord(call)) {
    const { name, argumentsText } = completionCall({ function: call });
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
export function replyOfFailedCall(
  call: CompletionCall,
  cut: ReplyCut,
  reasoning: readonly ReplyPiece[] = [],
): ModelReply {
  const [name = "", argumentsText = ""] = cut.admitItem([call.name, call.argumentsText], 0);
  if (!cut.isCut)
    return toReply([...reasoning, callPiece(call, "call.0")], { finishReason: "tool_calls" });
  // Half a name would be the name of another tool.
  const calls = name === call.name ? [callPiece({ ...call, argumentsText }, "call.0")] : [];
  const reply = toReply([...reasoning, ...calls], { finishReason: "length" });
  return { ...reply, warnings: [CUT_WARNING] };
}

/** The usage, wherever in a response or chunk its server puts it. */
export function usageOfReply(response: Fields, choice: Fields | undefined): unknown {
  return response["usage"] ?? fieldsOf(response["x_groq"])["usage"] ?? choice?.["usage"];
}

/** The output tokens that were charged for a reply that did not come. */
export function reportedTokens(usage: unknown): number | undefined {
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
  const message = replyMessage(pieces);
  const finishReason = FINISH_REASONS.get(raw) ?? "unknown";
  return {
    message: refusal === "" ? message : Object.freeze({ ...message, refusal }),
    finishReason,
    ...(isText(raw) && raw !== finishReason ? { rawFinishReason: raw } : {}),
    ...defined({
      usage: readChatUsage(usage, serviceTier, hasServerTools),
      responseId,
      responseModel,
    }),
  };
}

/** The error that a response or chunk reports in place of an answer, in one of the forms that servers use. */
export function reportOf(response: Fields): unknown {
  return response["error"] ?? (response["object"] === "error" ? response : undefined);
}

/** The first choice: we never ask for more than one. */
export function firstChoice(response: Fields): Fields | undefined {
  const choices = listOf(response["choices"]).filter(isRecord);
  return choices.find(({ index }) => (index ?? 0) === 0);
}

/** A call, or a piece of one: what is missing is empty text. */
export function completionCall(call: unknown): CompletionCall {
  const fields = fieldsOf(call);
  const callee = fieldsOf(fields["function"]);
  const args = callee["arguments"] ?? "";
  return {
    id: textOf(fields["id"]),
    name: textOf(callee["name"]),
    argumentsText: typeof args === "string" ? args : JSON.stringify(args),
    ...extraContent(fields),
  };
}

/** A call as a piece of a reply. `ownId`: for one that its server gave no id. */
export function callPiece(
  { id, name, argumentsText, data }: CompletionCall,
  ownId: string,
): ReplyPiece {
  const callId = idOf<"CallId">(id === "" ? ownId : id);
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
  const costUsd = costIn(usage);
  const prompt = usage["prompt_tokens"] ?? 0;
  const completion = usage["completion_tokens"] ?? (costUsd === undefined ? undefined : 0);
  if (typeof prompt !== "number" || typeof completion !== "number") return undefined;
  const total = countIn(usage, "total_tokens") ?? 0;
  const details = usage["prompt_tokens_details"];
  const cached =
    countIn(details, "cached_tokens") ??
    countIn(usage, "num_cached_tokens") ??
    countIn(usage, "prompt_cache_hit_tokens") ??
    0;
  const hasPrompt = prompt !== 0 || cached > 0;
  // Some servers leave reasoning out of completion_tokens, but none leaves it out of the total, nor out of the bill.
  const rest = hasPrompt ? total - wholeInput(prompt, cached) : 0;
  const outputTokens = completion < 0 ? completion : Math.max(completion, rest);
  const promptTokens = hasPrompt || completion <= 0 ? prompt : Math.max(total - completion, 0);
  return usageOfFigures({
    input: promptTokens,
    cached,
    written: countIn(details, "cache_write_tokens"), // What servers with a cache of their own add to OpenAI's form.
    output: outputTokens,
    reasoning: countIn(usage["completion_tokens_details"], "reasoning_tokens"),
    costUsd,
    serviceTier,
    hasServerTools: hasServerTools || namesServerTools(usage),
  });
}
