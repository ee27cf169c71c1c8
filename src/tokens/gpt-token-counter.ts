// Entry `espalier/tokens`: counts tokens as OpenAI models do, with their vocabulary and without
// network access (R101). The tokenizer is an optional package. It is loaded when a counter is
// created, so that a program may import this entry without it.

import { checkText, mismatch } from "../kernel/argument-checks.ts";
import { createLoadError } from "../kernel/optional-package.ts";
import { readMessageExtras, estimateTokensFromBytes } from "../model/count-tokens.ts";
import type { ModelRequest, OutputSchema, ToolSpec } from "../model/model.ts";
import { getOrCompute } from "../model/memoized-values.ts";
import type { Message } from "../protocol/message.ts";

const PACKAGE = "gpt-tokenizer";

/** Vocabularies by the beginning of model names. The first match wins. */
const VOCABULARIES = [
  [/^(gpt-5|gpt-4o|gpt-4\.1|gpt-4\.5|gpt-oss|chatgpt-4o|codex-|o[1-9](-|$))/, "o200k_base"],
  [/^(gpt-4|gpt-3\.5)(-|$)/, "cl100k_base"],
] as const satisfies readonly (readonly [RegExp, string])[];

// Overhead of a chat, as published by OpenAI: tokens around each message, and at the beginning of
// the reply.
const TOKENS_PER_MESSAGE = 4;
const TOKENS_PER_CALL = 8;
const TOKENS_PER_REPLY = 3;

/**
 * Loads a token counter of an OpenAI model, for the option `countTokens` of `openai()`. It counts
 * without network access. Needs the package `gpt-tokenizer`.
 *
 * Texts are counted exactly. The tokens that the provider adds for messages, tools and sealed
 * reasoning are not public, so they are estimated. Each message is counted once, however often it
 * is sent. The vocabulary takes tens of megabytes of memory, and about 0.2 seconds to load, once
 * per process.
 *
 * @throws EspalierError `invalid_argument` if the vocabulary of the model is unknown.
 * @throws EspalierError `missing_package` if the package is not installed.
 *
 * @example
 * ```ts
 * const countTokens = await loadGptTokenCounter("gpt-5.6");
 * const gpt = openai("gpt-5.6", { countTokens });
 * ```
 */
export async function loadGptTokenCounter(
  modelId: string,
): Promise<(request: ModelRequest) => number> {
  checkText("loadGptTokenCounter.modelId", modelId);
  const name = modelId.replace(/^ft:/, "");
  const vocabulary = VOCABULARIES.find(([names]) => names.test(name))?.[1];
  if (vocabulary === undefined) {
    const expected = "a model of OpenAI whose vocabulary is known (gpt-5, gpt-4o, o3 and the like)";
    const advice = "For other models leave countTokens out: tokens are estimated then.";
    throw mismatch("loadGptTokenCounter.modelId", expected, modelId, advice);
  }
  const count = await loadTokenizer(vocabulary);
  return createCounter(count);
}

type CountText = (text: string) => number;

async function loadTokenizer(vocabulary: "o200k_base" | "cl100k_base"): Promise<CountText> {
  // Control tokens in messages are ordinary text, as they are for providers.
  const asText = { disallowedSpecial: new Set<string>() };
  try {
    const { countTokens } =
      vocabulary === "o200k_base"
        ? await import("gpt-tokenizer/encoding/o200k_base")
        : await import("gpt-tokenizer/encoding/cl100k_base");
    return (text) => countTokens(text, asText);
  } catch (cause) {
    throw createLoadError(PACKAGE, "tokens can only be estimated", cause);
  }
}

function createCounter(count: CountText): (request: ModelRequest) => number {
  const messages = new WeakMap<Message, number>();
  const tools = new WeakMap<readonly ToolSpec[], number>();
  const outputs = new WeakMap<OutputSchema, number>();
  return (request) => {
    let tokens = TOKENS_PER_REPLY + getOrCompute(tools, request.tools, toolTokens);
    if (request.output !== undefined) tokens += getOrCompute(outputs, request.output, outputTokens);
    for (const message of request.messages)
      tokens += getOrCompute(messages, message, messageTokens);
    return tokens;
  };

  function toolTokens(specs: readonly ToolSpec[]): number {
    return specs.length === 0 ? 0 : countInParts(count, JSON.stringify(specs));
  }

  function outputTokens({ schema }: OutputSchema): number {
    return countInParts(count, JSON.stringify(schema));
  }

  function messageTokens(message: Message): number {
    const calls = message.role === "assistant" ? message.toolCalls : [];
    const callTokens = calls.reduce(
      (sum, { toolName, argumentsText }) =>
        sum + TOKENS_PER_CALL + countInParts(count, toolName + argumentsText),
      0,
    );
    const { reasoning, dataBytes, attachedTokens } = readMessageExtras(message);
    const extra =
      countInParts(count, reasoning) + estimateTokensFromBytes(dataBytes) + attachedTokens;
    return TOKENS_PER_MESSAGE + countInParts(count, message.text) + callTokens + extra;
  }
}

/**
 * The tokenizer takes quadratic time for a run without a break. A text with such a run is counted
 * in parts.
 */
const LONG_RUN = /\S{513}|\s{513}/;
const PART = 512;

/** Counts a text in parts. Each cut adds at most one token. */
function countInParts(count: CountText, text: string): number {
  if (!LONG_RUN.test(text)) return count(text);
  let tokens = 0;
  for (let from = 0; from < text.length; from += PART)
    tokens += count(text.slice(from, from + PART));
  return tokens;
}
