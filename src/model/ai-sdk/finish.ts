// How a reply ended, and what it took, in our words.

import type {
  LanguageModelV4FinishReason,
  LanguageModelV4StreamPart,
  SharedV4Warning,
} from "@ai-sdk/provider";

import type { FinishReason } from "../../protocol/finish-reason.ts";
import type { TokenUsage } from "../token-usage.ts";
import { costIn, isText, namesServerTools, usageOfFigures } from "../wire-json.ts";
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
  return REASONS.get(unified) ?? "unknown";
}

const REASONS: ReadonlyMap<unknown, FinishReason> = new Map([
  ["stop", "stop"],
  ["length", "length"],
  ["error", "error"],
  ["other", "other"],
  ["tool-calls", "tool_calls"],
  ["content-filter", "content_filter"],
]);

/** As it came: what cannot be true is corrected where the size of the call is known. Undefined: the provider does not count. */
export function usageOfReply({
  usage,
  providerMetadata,
  hasServerTools = false,
}: Pick<Finish, "usage" | "providerMetadata"> & { readonly hasServerTools?: boolean }):
  | TokenUsage
  | undefined {
  const { total: input, cacheRead: cached, cacheWrite: written } = usage.inputTokens;
  const { total: output, reasoning } = usage.outputTokens;
  if (input === undefined || output === undefined) return undefined;
  const serviceTier = tierIn(providerMetadata) ?? usage.raw?.["service_tier"];
  const costUsd = costIn(usage.raw);
  return usageOfFigures({
    input,
    cached,
    written,
    output,
    reasoning,
    costUsd,
    serviceTier,
    hasServerTools: hasServerTools || namesServerTools(usage.raw),
  });
}

/** Whichever provider says it. */
function tierIn(metadata: Finish["providerMetadata"] = {}): unknown {
  return Object.values(metadata).find((fields) => isText(fields["serviceTier"]))?.["serviceTier"];
}

/** What a provider left out or changed, in words. */
export function warningText(warning: SharedV4Warning): string {
  if (warning.type === "other") return warning.message;
  if (warning.type === "deprecated") return `Deprecated: ${warning.setting}. ${warning.message}`;
  const { feature, details } = warning;
  const how = warning.type === "unsupported" ? "Not supported" : "Supported in part";
  return `${how}: ${feature}${details === undefined ? "" : ` (${details})`}`;
}
