// How many tokens a request will cost. Exact where the model counts, else an estimate that grows with the new messages only.

import type { Message } from "../protocol/message.ts";
import type { Model, ModelRequest, ToolSpec } from "./model.ts";
import type { TokenUsage } from "./token-usage.ts";

// One token is about four characters of English, three of code, one of Chinese. We take three bytes of UTF-8: a lease that is too large is given back,
// one that is too small would be an overdraft.
const BYTES_PER_TOKEN = 3;
const TOKENS_PER_MESSAGE = 6;

const countedMessages = new WeakMap<Message, number>();
const countedTools = new WeakMap<readonly ToolSpec[], number>();

/** What the provider said of an earlier request: the first `messageCount` messages, with the tools, are `tokens` long. */
export interface MeasuredPrefix {
  readonly messageCount: number;
  readonly tokens: number;
}

/** Input tokens of `request`: the model's own count, else the provider's count of the known prefix plus an estimate of the rest. */
export function countInputTokens(
  model: Model,
  request: ModelRequest,
  prefix: MeasuredPrefix,
): number {
  const counted = model.countTokens?.(request);
  if (counted !== undefined && Number.isSafeInteger(counted) && counted >= 0) return counted;
  let tokens = prefix.messageCount === 0 ? estimateTools(request.tools) : prefix.tokens;
  for (let index = prefix.messageCount; index < request.messages.length; index += 1) {
    const message = request.messages[index];
    if (message !== undefined) tokens += estimateMessage(message);
  }
  return tokens;
}

/** An estimate of the tokens in `text`. */
export function estimateTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN);
}

/** An estimate of the tokens of a message with this text. */
export function estimateMessageTokens(text: string): number {
  return TOKENS_PER_MESSAGE + estimateTokens(text);
}

function estimateMessage(message: Message): number {
  const known = countedMessages.get(message);
  if (known !== undefined) return known;
  const calls = message.role === "assistant" ? JSON.stringify(message.toolCalls) : "";
  const tokens = estimateMessageTokens(message.text + calls);
  countedMessages.set(message, tokens);
  return tokens;
}

function estimateTools(tools: readonly ToolSpec[]): number {
  const known = countedTools.get(tools);
  if (known !== undefined) return known;
  const tokens = tools.length === 0 ? 0 : estimateTokens(JSON.stringify(tools));
  countedTools.set(tools, tokens);
  return tokens;
}

/** The known prefix after a reply: what the provider counted, and the reply itself without the reasoning that is not sent again. */
export function countedPrefix(
  prefix: MeasuredPrefix,
  sentMessages: number,
  usage: TokenUsage | undefined,
): MeasuredPrefix {
  if (usage === undefined) return prefix;
  return {
    messageCount: sentMessages + 1,
    tokens: usage.inputTokens + usage.outputTokens - usage.reasoningTokens,
  };
}
