// How a reply ended, and what it took, in our words.

import type {
  LanguageModelV4FinishReason,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
  SharedV4Warning,
} from "@ai-sdk/provider";

import type { FinishReason } from "../../protocol/finish-reason.ts";
import type { TokenUsage } from "../token-usage.ts";
import { firstWordOf } from "./provider-name.ts";

type Finish = Extract<LanguageModelV4StreamPart, { type: "finish" }>;

/** Whether the stream ended before the model had: some providers say so, others only show that they know nothing of an end. */
export function isCutOff({ finishReason, usage }: Finish, provider: string): boolean {
  const { unified, raw } = finishReason;
  if (unified === "interrupted") return true;
  if (raw !== undefined || usage.outputTokens.total !== undefined) return false;
  // OpenRouter makes whole calls of what has come of calls.
  return (
    unified === "other" || (unified === "tool-calls" && firstWordOf(provider) === "openrouter")
  );
}

export function finishReasonOf({ unified }: LanguageModelV4FinishReason): FinishReason {
  switch (unified) {
    case "stop":
    case "length":
    case "error":
    case "other":
      return unified;
    case "tool-calls":
      return "tool_calls";
    case "content-filter":
      return "content_filter";
    default:
      return "unknown";
  }
}

/** As it came: what cannot be true is corrected where the size of the call is known. Undefined: the provider does not count. */
export function usageOfReply({
  inputTokens,
  outputTokens,
}: LanguageModelV4Usage): TokenUsage | undefined {
  const { total: input, cacheRead = 0, cacheWrite } = inputTokens;
  const { total: output, reasoning = 0 } = outputTokens;
  // Zero is what providers report that know nothing. No request is empty.
  if (input === undefined || input === 0 || output === undefined) return undefined;
  const cachedInputTokens = Math.min(cacheRead, input);
  return {
    inputTokens: input,
    cachedInputTokens,
    ...(cacheWrite === undefined
      ? {}
      : { cacheWriteInputTokens: Math.min(cacheWrite, input - cachedInputTokens) }),
    outputTokens: output,
    reasoningTokens: Math.min(reasoning, output),
  };
}

/** What a provider left out or changed, in words. */
export function warningText(warning: SharedV4Warning): string {
  switch (warning.type) {
    case "unsupported":
      return `Not supported: ${withDetails(warning)}`;
    case "compatibility":
      return `Supported in part: ${withDetails(warning)}`;
    case "deprecated":
      return `Deprecated: ${warning.setting}. ${warning.message}`;
    case "other":
      return warning.message;
  }
}

function withDetails(warning: { readonly feature: string; readonly details?: string }): string {
  const { feature, details } = warning;
  return details === undefined ? feature : `${feature} (${details})`;
}
