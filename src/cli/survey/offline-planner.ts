// The offline planner: a model that follows fixed rules and is not a language model, so that the
// demo runs without a key and without the network. It keeps nothing between requests. Its tokens,
// prices and delays are simulated.

import { setTimeout } from "node:timers/promises";

import type { Model } from "espalier";
import {
  toCallId,
  type AssistantMessage,
  type ModelReply,
  type ModelRequest,
} from "espalier/extend";

import { planCalls } from "./survey-plan.ts";
import { readPosition } from "./survey-position.ts";
import { reportFolder, reportPart } from "./survey-report.ts";

const CHARACTERS_PER_TOKEN = 4;
/** Simulated prices of a small model. */
const PRICE = { inputUsdPerMillion: 0.25, outputUsdPerMillion: 2, source: "simulated" };

/**
 * Creates a model for the roles of the survey. It counts four characters as a token, and answers
 * after `delayMs`, or after up to half as much again.
 */
export function createOfflinePlanner({ delayMs = 0 } = {}): Model {
  return {
    provider: "offline",
    id: "simulated-planner",
    price: PRICE,
    countTokens: countInput,
    generate: async (request, { signal }) => {
      // Varies the delay, so that agents which started together do not stay synchronous.
      const variation = (countInput(request) % 100) / 200;
      await setTimeout(delayMs * (1 + variation), undefined, { signal });
      return truncateReply(writeReply(request), request);
    },
  };
}

function writeReply(request: ModelRequest): AssistantMessage {
  const position = readPosition(request);
  const planned = planCalls(position);
  if (planned.length === 0 && position.isLead)
    return { role: "assistant", text: reportFolder(position), toolCalls: [] };
  const finish = { toolName: "Finish", input: reportPart(position) };
  const calls = planned.length === 0 ? [finish] : planned;
  const toolCalls = calls.map(({ toolName, input }, index) => ({
    callId: toCallId(`call_${request.messages.length}_${index + 1}`),
    toolName,
    argumentsText: JSON.stringify(input),
  }));
  return { role: "assistant", text: "", toolCalls };
}

/** Cuts a reply at the limit of output tokens, as a provider would. Calls are then left out. */
function truncateReply(message: AssistantMessage, request: ModelRequest): ModelReply {
  const { maxOutputTokens } = request;
  const { text, toolCalls } = message;
  const wanted = countTokens(text + JSON.stringify(toolCalls));
  const isCut = wanted > maxOutputTokens;
  const head = text.slice(0, maxOutputTokens * CHARACTERS_PER_TOKEN);
  const counts = { inputTokens: countInput(request), cachedInputTokens: 0, reasoningTokens: 0 };
  const usualEnd = toolCalls.length > 0 ? "tool_calls" : "stop";
  return {
    message: isCut ? { role: "assistant", text: head, toolCalls: [] } : message,
    finishReason: isCut ? "length" : usualEnd,
    usage: { ...counts, outputTokens: Math.min(wanted, maxOutputTokens) },
  };
}

function countInput({ messages, tools }: ModelRequest): number {
  return countTokens(JSON.stringify([messages, tools]));
}

function countTokens(text: string): number {
  return Math.max(1, Math.ceil(text.length / CHARACTERS_PER_TOKEN));
}
