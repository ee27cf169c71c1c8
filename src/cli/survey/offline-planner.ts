// The offline planner: a model that is no language model. It decides by rules, always in the same
// way, so that the demo, and every test of it, runs without a key and without the network. It sees
// what a model sees, the messages and the tools of each request, and nothing else; it keeps nothing
// from one request to the next.

import {
  toCallId,
  type AssistantMessage,
  type Model,
  type ModelReply,
  type ModelRequest,
} from "espalier/extend";
import { z } from "zod";

import { FINISH, knowledgeOf, SPAWN_TOOL } from "./survey-knowledge.ts";
import { nextPlan, subagentsAllowed, type SurveyCall, type Position } from "./survey-plan.ts";
import { leadReport, surveyOf } from "./survey-report.ts";

const CHARACTERS_PER_TOKEN = 4;

/**
 * A model for the roles of this survey. Its tokens are counted as a fourth of the characters, and
 * cost nothing.
 */
export function offlinePlanner(): Model {
  return {
    provider: "offline",
    id: "offline-planner",
    price: { inputUsdPerMillion: 0, outputUsdPerMillion: 0 },
    countTokens: inputTokensOf,
    generate: async (request, { signal, onDelta }) => {
      signal.throwIfAborted();
      const reply = withinLimit(replyTo(request), request);
      const { text } = reply.message;
      if (text !== "") onDelta?.({ type: "text", text });
      return reply;
    },
  };
}

/** The whole of its thinking. */
function replyTo(request: ModelRequest): AssistantMessage {
  const position = positionIn(request);
  const plan = nextPlan(position);
  if (plan.calls.length > 0) return asking(request, plan.remark, plan.calls);
  if (position.isLead) return { role: "assistant", text: leadReport(position), toolCalls: [] };
  const { folder, purpose, files, findings } = surveyOf(position);
  const input = {
    folder,
    purpose,
    files: files.map((file) => ({ ...file })),
    findings: [...findings],
  };
  return asking(request, "I report.", [{ toolName: FINISH, input }]);
}

/** An agent that has to end with a typed result surveys a part; the other one leads. */
function positionIn({ messages, tools }: ModelRequest): Position {
  const isLead = !tools.some((tool) => tool.name === FINISH);
  const spawn = tools.find((tool) => tool.name === SPAWN_TOOL);
  const schema = spawnSchema.safeParse(spawn?.inputSchema);
  const role = schema.success ? schema.data.properties.role.enum[0] : undefined;
  const knowledge = knowledgeOf(messages);
  const mayDelegate = subagentsAllowed({ knowledge, isLead }) > 0;
  return { knowledge, isLead, subagentRole: mayDelegate ? role : undefined };
}

const spawnSchema = z.object({
  properties: z.object({ role: z.object({ enum: z.array(z.string()) }) }),
});

function asking(
  request: ModelRequest,
  text: string,
  calls: readonly SurveyCall[],
): AssistantMessage {
  const toolCalls = calls.map(({ toolName, input }, index) => ({
    callId: toCallId(`call_${request.messages.length}_${index + 1}`),
    toolName,
    argumentsText: JSON.stringify(input),
  }));
  return { role: "assistant", text, toolCalls };
}

/**
 * A reply of which the rest is cut off at the limit of output tokens, as a provider would; calls
 * that were cut off are none.
 */
function withinLimit(message: AssistantMessage, request: ModelRequest): ModelReply {
  const outputTokens = tokensOf(message.text + JSON.stringify(message.toolCalls));
  const usage = {
    inputTokens: inputTokensOf(request),
    cachedInputTokens: 0,
    outputTokens,
    reasoningTokens: 0,
  };
  const { maxOutputTokens } = request;
  if (outputTokens <= maxOutputTokens) {
    return { message, finishReason: message.toolCalls.length > 0 ? "tool_calls" : "stop", usage };
  }
  const text = message.text.slice(0, maxOutputTokens * CHARACTERS_PER_TOKEN);
  return {
    message: { role: "assistant", text, toolCalls: [] },
    finishReason: "length",
    usage: { ...usage, outputTokens: maxOutputTokens },
  };
}

function inputTokensOf({ messages, tools }: ModelRequest): number {
  const texts = messages.map((message) => {
    const calls = message.role === "assistant" ? JSON.stringify(message.toolCalls) : "";
    return message.role + message.text + calls;
  });
  return tokensOf(texts.join("") + JSON.stringify(tools));
}

function tokensOf(text: string): number {
  return Math.max(1, Math.ceil(text.length / CHARACTERS_PER_TOKEN));
}
