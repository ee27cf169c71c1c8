// What is read of JSON that a server sent, by all adapters. Lenient: what is missing or of another kind is nothing.

import { omitUndefined, isRecord, type JsonObject } from "../kernel/json.ts";
import type { ProviderData } from "../protocol/message.ts";
import { isCost, type TokenUsage } from "./token-usage.ts";

/** An object of JSON that a server sent, unchecked. */
export type Fields = Readonly<Record<string, unknown>>;

/** Returns true for an error in the words of a server; many replies have one that is `null`. */
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
  const said = isText(detail) ? detail : JSON.stringify(detail);
  return { ...fields, message: isText(message) ? message : said };
}

/** All of a response was parsed of JSON, so there is nothing else in its objects. */
export function isWireObject(value: unknown): value is JsonObject {
  return isRecord(value);
}

/** True for text with something in it. */
export function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/** The fields of an object; of anything else none. */
export function readFields(value: unknown): Fields {
  return isRecord(value) ? value : {};
}

/** What of the data of a part is under one name. */
export function readOwnData(data: ProviderData | undefined, namespace: string): Fields {
  return readFields(data?.[namespace]);
}

export function readList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** A count in an object of counts; undefined if it has none. */
export function readCount(counts: unknown, name: string): number | undefined {
  const value = isRecord(counts) ? counts[name] : undefined;
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/**
 * Usage of figures as they came: what cannot be true of input and output is corrected where the size of the call is known. No part is larger
 * than its whole. `undefined` where all are zero: that is what servers send that do not count. Input of 0 beside output is estimated later.
 */
export function toTokenUsage(figures: {
  readonly input: number;
  readonly cached: number | undefined;
  readonly written: number | undefined;
  readonly output: number;
  readonly reasoning: number | undefined;
  /** As `costIn` reads it. */
  readonly costUsd?: number | undefined;
  readonly hasServerTools?: boolean;
  /** As it came. */
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

/** True if a usage counts tools that the provider ran: Anthropic and OpenRouter, Gemini, Perplexity, xAI. */
export function hasServerToolUsage(usage: unknown): boolean {
  const counts = ["toolUsePromptTokenCount", "num_search_queries", "num_sources_used"];
  const said = counts.map((name) => readCount(usage, name) ?? 0);
  const used = Object.values(readFields(readFields(usage)["server_tool_use"]));
  return [...said, ...used].some((count) => typeof count === "number" && count > 0);
}

/** True if a message of Chat Completions has citations of a web search, or the tools that Groq ran. */
export function hasServerToolOutput(message: Fields): boolean {
  return ["annotations", "executed_tools"].some((name) => readList(message[name]).length > 0);
}

/** What a call cost by the usage that OpenRouter gives, in US dollars. What the user's own key was charged elsewhere is part of it. */
export function readCost(usage: unknown): number | undefined {
  const { cost, cost_details: details, is_byok: isOwnKey } = readFields(usage);
  const { upstream_inference_cost: elsewhere } = readFields(details);
  if (!isCost(cost)) return undefined;
  const isElsewhere = isOwnKey ?? (isCost(elsewhere) && elsewhere > cost);
  if (isElsewhere !== true) return cost;
  return isCost(elsewhere) ? cost + elsewhere : undefined;
}
