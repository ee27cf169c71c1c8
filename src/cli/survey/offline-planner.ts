// The offline planner: a model that follows fixed rules and is not a language model, so that the
// demo runs without a key and without the network. It keeps nothing between requests.

import type { Model } from "espalier";
import {
  toCallId,
  type AssistantMessage,
  type ModelReply,
  type ModelRequest,
} from "espalier/extend";

import { planSurvey, type SurveyCall } from "./survey-plan.ts";
import { Position } from "./survey-position.ts";
import { reportFolder, reportPart } from "./survey-report.ts";

const CHARACTERS_PER_TOKEN = 4;

/** Creates a model for the roles of the survey. It counts four characters as a token, at no cost. */
export function offlinePlanner(): Model {
  return {
    provider: "offline",
    id: "offline-planner",
    price: { inputUsdPerMillion: 0, outputUsdPerMillion: 0 },
    countTokens: countInput,
    generate: async (request, { signal, onDelta }) => {
      signal.throwIfAborted();
      const reply = limitReply(writeReply(request), request);
      const { text } = reply.message;
      if (text !== "") onDelta?.({ type: "text", text });
      return reply;
    },
  };
}

function writeReply(request: ModelRequest): AssistantMessage {
  const position = new Position(request);
  const [remark, calls] = planSurvey(position);
  if (calls.length > 0) return writeCalls(request, remark, calls);
  if (position.isLead) return { role: "assistant", text: reportFolder(position), toolCalls: [] };
  return writeCalls(request, "Reporting.", [{ toolName: "Finish", input: reportPart(position) }]);
}

function writeCalls(
  { messages }: ModelRequest,
  text: string,
  calls: readonly SurveyCall[],
): AssistantMessage {
  const toolCalls = calls.map(({ toolName, input }, index) => ({
    callId: toCallId(`call_${messages.length}_${index + 1}`),
    toolName,
    argumentsText: JSON.stringify(input),
  }));
  return { role: "assistant", text, toolCalls };
}

/** Cuts a reply at the limit of output tokens, as a provider would. Calls are then left out. */
function limitReply(message: AssistantMessage, request: ModelRequest): ModelReply {
  const { maxOutputTokens } = request;
  const { text, toolCalls } = message;
  const wanted = countTokens(text + JSON.stringify(toolCalls));
  const isCut = wanted > maxOutputTokens;
  const cutText = text.slice(0, maxOutputTokens * CHARACTERS_PER_TOKEN);
  const inputTokens = countInput(request);
  const outputTokens = Math.min(wanted, maxOutputTokens);
  return {
    message: isCut ? { role: "assistant", text: cutText, toolCalls: [] } : message,
    finishReason: isCut ? "length" : toolCalls.length > 0 ? "tool_calls" : "stop",
    usage: { inputTokens, cachedInputTokens: 0, outputTokens, reasoningTokens: 0 },
  };
}

function countInput({ messages, tools }: ModelRequest): number {
  return countTokens(JSON.stringify([messages, tools]));
}

function countTokens(text: string): number {
  return Math.max(1, Math.ceil(text.length / CHARACTERS_PER_TOKEN));
}
