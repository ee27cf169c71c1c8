// What some models and servers get wrong in a reply with calls, set right before anything looks at it.

import { partsFitted, partsRenamed } from "../../protocol/reply-pieces.ts";
import { leakedCall } from "../../policies/argument-leak.ts";
import { callIdOf, type StepId } from "../../protocol/ids.ts";
import type { AssistantMessage } from "../../protocol/message.ts";
import type { AgentRuntime } from "../agent-runtime.ts";

export function repairedReply(
  agent: AgentRuntime,
  message: AssistantMessage,
  stepId: StepId,
): AssistantMessage {
  return withoutLeak(agent, withOwnCallIds(message, stepId), stepId);
}

/** Some models repeat the arguments of a call as their text: that is no text for a reader (R113). */
function withoutLeak(
  agent: AgentRuntime,
  message: AssistantMessage,
  stepId: StepId,
): AssistantMessage {
  if (message.text === "" || message.toolCalls.length === 0) return message;
  const leaked = leakedCall(message);
  if (leaked === undefined) return message;
  const { toolName, callId } = leaked;
  agent.effects.record(
    { type: "reply.filtered", toolName, characters: message.text.length },
    { stepId, callId },
  );
  return partsFitted({ ...message, text: "" }, message);
}

/** Some servers give several calls of a reply one id: each later one gets an id by its place, so that results find their call (L3). */
function withOwnCallIds(message: AssistantMessage, stepId: StepId): AssistantMessage {
  const { toolCalls } = message;
  const ids = toolCalls.map((call) => call.callId);
  if (new Set(ids).size === ids.length) return message;
  const renamed = toolCalls.map((call, index) =>
    ids.indexOf(call.callId) === index ? call : { ...call, callId: callIdOf(stepId, index) },
  );
  const { parts } = message;
  return {
    ...message,
    toolCalls: renamed,
    ...(parts === undefined ? {} : { parts: partsRenamed(parts, renamed) }),
  };
}
