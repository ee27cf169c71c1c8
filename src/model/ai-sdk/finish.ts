// How a reply ended, and what it took, in our words.

import type {
  LanguageModelV4FinishReason,
  LanguageModelV4StreamPart,
  SharedV4Warning,
} from "@ai-sdk/provider";

import type { FinishReason } from "../../protocol/finish-reason.ts";
import type { TokenUsage } from "../token-usage.ts";
import {
  costIn,
  countIn,
  fieldsOf,
  isText,
  listOf,
  namesServerTools,
  usageOfFigures,
  type Fields,
} from "../wire-json.ts";
import { firstWordOf } from "./provider-name.ts";

type Finish = Extract<LanguageModelV4StreamPart, { type: "finish" }>;

/**
 * Returns true if the stream ended before the model had. Some providers say so, others only show that
 * they know nothing of an end. `lacksEnd`: none was in the events of the stream.
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
  // OpenRouter makes whole calls of what has come of calls.
  return (
    unified === "other" || (unified === "tool-calls" && firstWordOf(provider) === "openrouter")
  );
}

/**
 * Returns our word for the end of a reply. Anthropic pauses a turn, also after a compaction. An empty
 * reply with a word that the AI SDK does not know, such as `MODEL_ARMOR`, was blocked.
 */
export function finishReasonOf(
  { unified, raw = "" }: LanguageModelV4FinishReason,
  isEmpty: boolean,
): FinishReason {
  if (PAUSED.has(raw)) return "paused";
  if (isEmpty && unified === "other" && raw !== "" && !RETRYABLE.test(raw)) return "content_filter";
  return REASONS.get(unified) ?? "unknown";
}

/** Returns the warning for a reply that counts as filtered by the provider's own word alone. */
export function blockWarnings(
  finishReason: FinishReason,
  { unified, raw = "" }: LanguageModelV4FinishReason,
): readonly string[] {
  return finishReason === "content_filter" && unified === "other"
    ? [`The provider ended the reply with ${raw} and without content. It counts as filtered.`]
    : [];
}

const PAUSED: ReadonlySet<string> = new Set(["pause_turn", "compaction"]);
/** Words for a plain end, a mistake of the model or a failure of the server. */
const RETRYABLE =
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
 * Returns the usage of a reply as its provider counted it, or `undefined` if it does not count. Figures
 * that cannot be true are corrected where the size of the call is known.
 */
export function usageOfReply({
  usage,
  providerMetadata,
  hasServerTools = false,
}: Pick<Finish, "usage" | "providerMetadata"> & { readonly hasServerTools?: boolean }):
  | TokenUsage
  | undefined {
  const { total: input = 0, cacheRead: cached, cacheWrite: written } = usage.inputTokens;
  const costUsd = costIn(usage.raw);
  const { total: output = costUsd === undefined ? undefined : 0, reasoning } = usage.outputTokens;
  if (output === undefined) return undefined;
  const serviceTier = tierIn(providerMetadata) ?? usage.raw?.["service_tier"];
  const iterations = listOf(usage.raw?.["iterations"]).map(fieldsOf);
  return usageOfFigures({
    ...withIterations({ input, cached, written, output }, iterations),
    reasoning,
    costUsd,
    serviceTier,
    hasServerTools:
      hasServerTools ||
      iterations.length > 1 ||
      namesServerTools(usage.raw) ||
      hasSearched(providerMetadata),
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
function withIterations(own: Figures, iterations: readonly Fields[]): Figures {
  const isFallback = iterations.some(({ type }) => type === "fallback_message");
  const ownIterations = isFallback ? [] : iterations.filter(isOwn);
  const others = iterations.filter((one) => !isOwn(one));
  if (ownIterations.length + others.length === 0) return own;
  const [read, write] = ["cache_read_input_tokens", "cache_creation_input_tokens"] as const;
  // An iteration may leave its cache to the top-level figures.
  const cached = Math.max(sum(ownIterations, read), own.cached ?? 0);
  const written = Math.max(sum(ownIterations, write), own.written ?? 0);
  const input = sum(ownIterations, "input_tokens") + cached + written;
  const output = sum(ownIterations, "output_tokens");
  const base = ownIterations.length === 0 ? own : { input, output };
  const [otherCached, otherWritten] = [sum(others, read), sum(others, write)];
  return {
    input: base.input + sum(others, "input_tokens") + otherCached + otherWritten,
    cached: cached + otherCached,
    written: written + otherWritten,
    output: base.output + sum(others, "output_tokens"),
  };
}

function sum(iterations: readonly Fields[], name: string): number {
  return iterations.reduce((total, one) => total + (countIn(one, name) ?? 0), 0);
}

function isOwn({ type }: Fields): boolean {
  return OWN_ITERATIONS.has(type);
}

/** The top-level figures of a reply contain a `fallback_message`. */
const OWN_ITERATIONS: ReadonlySet<unknown> = new Set(["message", "compaction", "fallback_message"]);

/** Whichever provider says it. */
function tierIn(metadata: Finish["providerMetadata"] = {}): unknown {
  return Object.values(metadata).find((fields) => isText(fields["serviceTier"]))?.["serviceTier"];
}

/** Returns true if Gemini searched the web for the reply: its pages count as input. */
function hasSearched(metadata: Finish["providerMetadata"] = {}): boolean {
  return Object.values(metadata).some(
    ({ groundingMetadata }) => listOf(fieldsOf(groundingMetadata)["webSearchQueries"]).length > 0,
  );
}

/** What a provider left out or changed, in words. */
export function warningText(warning: SharedV4Warning): string {
  if (warning.type === "other") return warning.message;
  if (warning.type === "deprecated") return `Deprecated: ${warning.setting}. ${warning.message}`;
  const { feature, details } = warning;
  const how = warning.type === "unsupported" ? "Not supported" : "Supported in part";
  return `${how}: ${feature}${details === undefined ? "" : ` (${details})`}`;
}
