// RawEvents: reads usage and finish reason from the raw events of a provider's stream. The AI SDK
// reports both only in its last part, which is missing if the connection breaks after a complete
// reply.

import type {
  LanguageModelV4StreamPart,
  LanguageModelV4FinishReason,
  SharedV4Warning,
} from "@ai-sdk/provider";

import { omitUndefined, isRecord } from "../../kernel/json.ts";
import type { ModelErrorOptions } from "../model-error.ts";
import type { ReportedInput, TokenUsage } from "../token-usage.ts";
import {
  readCount,
  readFields,
  isWireObject,
  isText,
  readList,
  hasServerToolOutput,
  type Fields,
  readCost,
  hasServerToolUsage,
  toTokenUsage,
} from "../wire-json.ts";
import type { FinishReason } from "../../protocol/finish-reason.ts";
import { readFirstWord } from "./ai-sdk-providers.ts";

type Unified = Finish["finishReason"]["unified"];

export class RawEvents {
  #usage: Fields = {};
  #end: string | undefined;
  #hasChoices = false;
  /** The error of the last event. The AI SDK leaves out its `details`. */
  report: unknown;
  /** The last status of a response, as a value of the Responses API. */
  status: unknown;
  /** True once an event has come, if its package passes events on. */
  hasEvents = false;
  /** True if the events show tools that the server ran. A provider may leave them out. */
  hasServerTools = false;
  /** The end of a response of Responses that ended without a reply. */
  failure: FailedEnd | undefined;
  /** True if the model had ended before the last event, whose error is then ignored. */
  wasOver = false;

  take(rawValue: unknown): void {
    const event = readFields(rawValue);
    this.hasEvents = true;
    this.wasOver = this.#end !== undefined;
    this.report = event["error"];
    const { message, response, usageMetadata, choices } = event;
    this.#hasChoices ||= readList(choices).length > 0;
    const { delta } = readFields(readList(choices)[0]);
    this.hasServerTools ||= hasServerToolOutput(readFields(delta));
    const usage = [event, readFields(message), readFields(response)].map(
      (fields) => fields["usage"],
    );
    for (const usageFields of [...usage, usageMetadata])
      this.#usage = { ...this.#usage, ...omitUndefined(readFields(usageFields)) };
    this.#takeStatus(event);
    // A server that continues by itself begins another message.
    this.#end = event["type"] === "message_start" ? undefined : (findEnd(event) ?? this.#end);
  }

  #takeStatus({ type, response }: Fields): void {
    const { status = this.status, error } = readFields(response);
    // A queued response continues on the server without its stream.
    if (this.status !== "queued" || status !== "in_progress") this.status = status;
    const named = BAD_ENDS.get(type) ?? BAD_ENDS.get(`response.${String(status)}`);
    const ended = named ?? (isRecord(error) ? "failed" : undefined);
    // Events after a complete reply cannot spoil it.
    if (ended !== undefined && !this.wasOver) this.failure = { status: ended, error };
  }

  /** True for events of Chat Completions without a finish reason: all its servers send one. */
  get lacksEnd(): boolean {
    return this.#hasChoices && this.#end === undefined;
  }

  /**
   * Returns the finish with all fields of the usage. A provider may omit costs and server tools.
   */
  completeUsage(finish: Finish): Finish {
    const raw = { ...this.#usage, ...finish.usage.raw };
    return isWireObject(raw) ? { ...finish, usage: { ...finish.usage, raw } } : finish;
  }

  /** The usage as far as it was reported. */
  get usage(): TokenUsage | undefined {
    return readSdkUsage({ usage: toSdkUsage(this.#usage, 0) });
  }

  /** The input as far as it was reported. */
  get input(): ReportedInput | undefined {
    const { usage } = this;
    if (usage === undefined) return undefined;
    const { inputTokens, cachedInputTokens, cacheWriteInputTokens } = usage;
    return { inputTokens, cachedInputTokens, ...omitUndefined({ cacheWriteInputTokens }) };
  }

  /**
   * Returns the finish of a reply without a last part, or `undefined` if its model had not ended.
   */
  finish(hasCalls: boolean): Finish | undefined {
    const raw = this.#end;
    if (raw === undefined) return undefined;
    const reason = UNIFIED_REASONS.find(([, words]) => words.test(raw))?.[0] ?? "other";
    const unified = reason === "stop" && hasCalls ? "tool-calls" : reason;
    return { type: "finish", finishReason: { unified, raw }, usage: toSdkUsage(this.#usage) };
  }
}

/** The end of a response that the AI SDK reports incompletely or not at all. */
interface FailedEnd {
  readonly status: "failed" | "cancelled";
  /** `null` or `undefined` without a reason. */
  readonly error: unknown;
}

const BAD_ENDS: ReadonlyMap<unknown, FailedEnd["status"]> = new Map([
  ["response.failed", "failed"],
  ["response.cancelled", "cancelled"],
]);

/**
 * Returns the tokens that a body or an event reports. They are lost unless the answer is a reply.
 */
export function findLostTokens(
  body: unknown,
): Pick<ModelErrorOptions, "lostOutputTokens" | "lostInput"> {
  const raw = new RawEvents();
  raw.take(body);
  const { input, usage } = raw;
  return omitUndefined({ lostInput: input, lostOutputTokens: usage?.outputTokens });
}

const UNIFIED_REASONS: readonly (readonly [Unified, RegExp])[] = [
  ["stop", /^(stop|end_turn|stop_sequence|pause_turn|completed)$/i],
  ["tool-calls", /^(tool_use|tool_calls|function_call)$/],
  ["length", /^(max_tokens|length|max_output_tokens|model_context_window_exceeded)$/i],
  ["content-filter", /^(refusal|content_filter|safety|recitation|prohibited_content|spii)$/i],
];

/**
 * Returns the provider's finish reason, in the form of Gemini, Anthropic, Chat Completions or
 * Responses.
 */
function findEnd({
  candidates,
  promptFeedback,
  delta,
  choices,
  type,
  response,
}: Fields): string | undefined {
  const { status, incomplete_details: incomplete } = readFields(response);
  const isOver = type === "response.completed" || type === "response.incomplete";
  const words = [
    readFields(readList(candidates)[0])["finishReason"],
    readFields(promptFeedback)["blockReason"],
    readFields(delta)["stop_reason"],
    readFields(readList(choices)[0])["finish_reason"],
    isOver ? (readFields(incomplete)["reason"] ?? status) : undefined,
  ];
  return words.filter(isText).find((word) => word !== "CONTINUATION");
}

/** Returns the usage in the form of the AI SDK. */
function toSdkUsage(usage: Fields, defaultOutput?: number): Finish["usage"] {
  const count = (name: string): number | undefined => readCount(usage, name);
  const countDetail = (name: string): number | undefined =>
    readCount(usage["input_tokens_details"] ?? usage["prompt_tokens_details"], name);
  const [read, written] = [count("cache_read_input_tokens"), count("cache_creation_input_tokens")];
  const tools = count("toolUsePromptTokenCount") ?? 0;
  const prompt = count("promptTokenCount");
  const gemini = prompt === undefined ? undefined : prompt + tools;
  const thoughts = count("thoughtsTokenCount");
  const beside = count("input_tokens"); // Anthropic does not include its cache in the input.
  const candidates = count("candidatesTokenCount");
  return {
    inputTokens: {
      total:
        beside === undefined
          ? (gemini ?? count("prompt_tokens"))
          : beside + (read ?? 0) + (written ?? 0),
      noCache: undefined,
      cacheRead: read ?? count("cachedContentTokenCount") ?? countDetail("cached_tokens"),
      cacheWrite: written ?? (read === undefined ? undefined : 0),
    },
    outputTokens: {
      total:
        count("output_tokens") ??
        count("completion_tokens") ??
        (candidates === undefined ? defaultOutput : candidates + (thoughts ?? 0)),
      text: undefined,
      reasoning: thoughts,
    },
    ...(isWireObject(usage) ? { raw: usage } : {}),
  };
}

// The finish reason and the usage of a reply, in our vocabulary.

export type Finish = Extract<LanguageModelV4StreamPart, { type: "finish" }>;

/**
 * Returns true if the stream ended before the model had. Some providers report this, others only
 * lack a finish reason. `lacksEnd`: the events of the stream contained none.
 */
export function isCutOff(
  { finishReason, usage }: Finish,
  provider: string,
  lacksEnd: boolean,
): boolean {
  const { unified, raw } = finishReason;
  if (unified === "interrupted") return true;
  if (raw !== undefined) return false;
  if (usage.outputTokens.total !== undefined) return unified === "other" && lacksEnd;
  // OpenRouter converts truncated calls to complete ones.
  return (
    unified === "other" || (unified === "tool-calls" && readFirstWord(provider) === "openrouter")
  );
}

/**
 * Returns our finish reason. Anthropic pauses a turn, also after a compaction. An empty reply with
 * a reason unknown to the AI SDK, such as `MODEL_ARMOR`, was blocked.
 */
export function toFinishReason(
  { unified, raw = "" }: LanguageModelV4FinishReason,
  isEmpty: boolean,
): FinishReason {
  if (PAUSE_REASONS.has(raw)) return "paused";
  if (isEmpty && unified === "other" && raw !== "" && !RETRYABLE_REASONS.test(raw))
    return "content_filter";
  return REASONS.get(unified) ?? "unknown";
}

/** Returns the warning for a reply that counts as filtered because of the provider's own reason. */
export function findBlockWarnings(
  finishReason: FinishReason,
  { unified, raw = "" }: LanguageModelV4FinishReason,
): readonly string[] {
  return finishReason === "content_filter" && unified === "other"
    ? [`The provider ended the reply with ${raw} and without content. It counts as filtered.`]
    : [];
}

const PAUSE_REASONS: ReadonlySet<string> = new Set(["pause_turn", "compaction"]);
/** Reasons for a normal end, a mistake of the model or a failure of the server. */
const RETRYABLE_REASONS =
  /^(eos|end|stop)|error|fail|malformed|unexpected|too_many|missing|abort|cancel|interrupt|timeout|overload|resource|^other$|^unknown$/i;

const REASONS: ReadonlyMap<unknown, FinishReason> = new Map([
  ["stop", "stop"],
  ["length", "length"],
  ["error", "error"],
  ["other", "other"],
  ["tool-calls", "tool_calls"],
  ["content-filter", "content_filter"],
]);

/**
 * Returns the usage of a reply as counted by its provider, or `undefined` without output tokens and
 * cost. `checkReply` rejects impossible counts, since it knows the size of the call.
 */
export function readSdkUsage({
  usage,
  providerMetadata,
  hasServerTools = false,
}: Pick<Finish, "usage" | "providerMetadata"> & { readonly hasServerTools?: boolean }):
  | TokenUsage
  | undefined {
  const { total: input = 0, cacheRead: cached, cacheWrite: written } = usage.inputTokens;
  const costUsd = readCost(usage.raw);
  const { total: output = costUsd === undefined ? undefined : 0, reasoning } = usage.outputTokens;
  if (output === undefined) return undefined;
  const metadata = Object.values(providerMetadata ?? {});
  const tiers = [...metadata.map((fields) => fields["serviceTier"]), usage.raw?.["service_tier"]];
  const iterations = readList(usage.raw?.["iterations"]).map(readFields);
  return toTokenUsage({
    ...addIterations({ input, cached, written, output }, iterations),
    reasoning,
    costUsd,
    serviceTier: tiers.find(isText),
    hasServerTools:
      hasServerTools ||
      iterations.length > 1 ||
      hasServerToolUsage(usage.raw) ||
      // Gemini searched the web for the reply: its pages count as input.
      metadata.some(
        ({ groundingMetadata }) =>
          readList(readFields(groundingMetadata)["webSearchQueries"]).length > 0,
      ),
  });
}

interface Figures {
  readonly input: number;
  readonly cached: number | undefined;
  readonly written: number | undefined;
  readonly output: number;
}

/**
 * Returns the figures of all iterations of a reply of Anthropic. The figures of the AI SDK lack the
 * cache of a compaction and all tokens of an advisor.
 */
function addIterations(figures: Figures, iterations: readonly Fields[]): Figures {
  const isFallback = iterations.some(({ type }) => type === "fallback_message");
  const ownIterations = isFallback ? [] : iterations.filter(isOwnIteration);
  const others = iterations.filter((iteration) => !isOwnIteration(iteration));
  if (ownIterations.length + others.length === 0) return figures;
  const [read, write] = ["cache_read_input_tokens", "cache_creation_input_tokens"] as const;
  // An iteration may leave its cache to the top-level figures.
  const cached = Math.max(sumField(ownIterations, read), figures.cached ?? 0);
  const written = Math.max(sumField(ownIterations, write), figures.written ?? 0);
  const input = sumField(ownIterations, "input_tokens") + cached + written;
  const output = sumField(ownIterations, "output_tokens");
  const base = ownIterations.length === 0 ? figures : { input, output };
  const [otherCached, otherWritten] = [sumField(others, read), sumField(others, write)];
  return {
    input: base.input + sumField(others, "input_tokens") + otherCached + otherWritten,
    cached: cached + otherCached,
    written: written + otherWritten,
    output: base.output + sumField(others, "output_tokens"),
  };
}

function sumField(iterations: readonly Fields[], name: string): number {
  return iterations.reduce((total, iteration) => total + (readCount(iteration, name) ?? 0), 0);
}

function isOwnIteration({ type }: Fields): boolean {
  return OWN_ITERATIONS.has(type);
}

/** The top-level figures of a reply contain a `fallback_message`. */
const OWN_ITERATIONS: ReadonlySet<unknown> = new Set(["message", "compaction", "fallback_message"]);

/** Returns the text of a warning about a setting that a provider omitted or changed. */
export function describeWarning(warning: SharedV4Warning): string {
  if (warning.type === "other") return warning.message;
  if (warning.type === "deprecated") return `Deprecated: ${warning.setting}. ${warning.message}`;
  const { feature, details } = warning;
  const support = warning.type === "unsupported" ? "Not supported" : "Supported in part";
  return `${support}: ${feature}${details === undefined ? "" : ` (${details})`}`;
}
