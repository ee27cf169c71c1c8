// Reads the JSON of servers for all adapters. Missing values and values of another type count as
// absent.

import { omitUndefined, isRecord, type JsonObject } from "../kernel/json.ts";
import type { ProviderData } from "../protocol/message.ts";
import { isCost, type TokenUsage } from "./token-usage.ts";

/** An unchecked JSON object of a server. */
export type Fields = Readonly<Record<string, unknown>>;

/** Returns true for an error in a server's own form. The field is `null` in many replies. */
function isErrorReport(error: unknown): boolean {
  return isText(error) || Object.keys(readFields(error)).length > 0;
}

/**
 * Returns the error that a body of JSON consists of, or `undefined` for any other body. Gateways
 * report an error in a list, or without the field `error`.
 *
 * @example findErrorInBody([{ error: { code: 429 } }]) // { code: 429 }
 * @example findErrorInBody({ detail: "No key." }) // { detail: "No key.", message: "No key." }
 */
export function findErrorInBody(body: unknown): unknown {
  const fields = readFields(Array.isArray(body) ? body[0] : body);
  const { error, object, message, detail } = fields;
  if (isErrorReport(error)) return error;
  if (object === "error") return fields;
  // A reply has an object or a list beside its texts.
  const isFlat = Object.entries(fields).every(
    ([name, value]) => name === "detail" || value === null || typeof value !== "object",
  );
  if (!isFlat || (!isText(message) && !isErrorReport(detail) && readList(detail).length === 0))
    return undefined;
  const text = isText(detail) ? detail : JSON.stringify(detail);
  return { ...fields, message: isText(message) ? message : text };
}

/** Narrows an object of a response, which was parsed from JSON and contains nothing else. */
export function isWireObject(value: unknown): value is JsonObject {
  return isRecord(value);
}

/** Returns true for non-empty text. */
export function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/** Returns the fields of an object, or no fields for another value. */
export function readFields(value: unknown): Fields {
  return isRecord(value) ? value : {};
}

/** Returns the entry of a part's data under a name. */
export function readOwnData(data: ProviderData | undefined, namespace: string): Fields {
  return readFields(data?.[namespace]);
}

export function readList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Returns a count in an object of counts, or `undefined` if it is missing. */
export function readCount(counts: unknown, name: string): number | undefined {
  const value = isRecord(counts) ? counts[name] : undefined;
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/**
 * Converts reported figures to a usage. No part is larger than its total. `undefined` if all
 * figures are zero, which servers without counting send. Impossible input and output are rejected
 * later, where the size of the call is known. An input of 0 beside output is estimated later.
 */
export function toTokenUsage(figures: {
  readonly input: number;
  readonly cached: number | undefined;
  readonly written: number | undefined;
  readonly output: number;
  readonly reasoning: number | undefined;
  /** In the form of `readCost`. */
  readonly costUsd?: number | undefined;
  readonly hasServerTools?: boolean;
  /** As reported. */
  readonly serviceTier: unknown;
}): TokenUsage | undefined {
  const { output, cached: cachedInputTokens = 0, written, reasoning = 0, serviceTier } = figures;
  const input = addCachedInput(figures.input, cachedInputTokens);
  const isCounted = input > 0 || output > 0 || (figures.costUsd ?? 0) > 0;
  if (!isCounted) return undefined;
  return {
    inputTokens: input,
    cachedInputTokens,
    ...omitUndefined({
      cacheWriteInputTokens: written && Math.min(written, input - cachedInputTokens),
    }),
    outputTokens: output,
    reasoningTokens: Math.min(reasoning, output),
    ...omitUndefined({ reportedCostUsd: figures.costUsd }),
    ...(figures.hasServerTools === true ? { hasServerTools: true } : {}),
    ...(isText(serviceTier) ? { serviceTier } : {}),
  };
}

/** Returns the input with its cached part: some servers count that part beside the input. */
export function addCachedInput(input: number, cached: number): number {
  return cached > input && input >= 0 ? input + cached : input;
}

/**
 * Returns true if a usage counts server-side tools: Anthropic and OpenRouter, Gemini, Perplexity,
 * xAI.
 */
export function hasServerToolUsage(usage: unknown): boolean {
  const counts = ["toolUsePromptTokenCount", "num_search_queries", "num_sources_used"];
  const counted = counts.map((name) => readCount(usage, name) ?? 0);
  const used = Object.values(readFields(readFields(usage)["server_tool_use"]));
  return [...counted, ...used].some((count) => typeof count === "number" && count > 0);
}

/**
 * Returns true if a message of Chat Completions has citations of a web search, or tool runs of
 * Groq.
 */
export function hasServerToolOutput(message: Fields): boolean {
  return ["annotations", "executed_tools"].some((name) => readList(message[name]).length > 0);
}

/**
 * Returns the cost of a call in US dollars by the usage of OpenRouter, including the charges of
 * another provider to the user's own key.
 */
export function readCost(usage: unknown): number | undefined {
  const { cost, cost_details: details, is_byok: isOwnKey } = readFields(usage);
  const { upstream_inference_cost: elsewhere } = readFields(details);
  if (!isCost(cost)) return undefined;
  const isElsewhere = isOwnKey ?? (isCost(elsewhere) && elsewhere > cost);
  if (isElsewhere !== true) return cost;
  return isCost(elsewhere) ? cost + elsewhere : undefined;
}
