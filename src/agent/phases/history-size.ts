// How many input tokens a history takes among the sections of a request.

import { countInputTokens } from "../../model/count-tokens.ts";
import { attachedBytesOf, forModel } from "../../model/written-by.ts";
import { defined } from "../../kernel/json.ts";
import { MOST_REQUEST_BYTES } from "../../protocol/message-content.ts";
import type { Message } from "../../protocol/message.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { NO_PREFIX, type AgentState } from "../agent-state.ts";
import { requestMessages } from "./assemble-request.ts";
import type { SectionMessages } from "./make-sections.ts";

/** Returns how many input tokens a list of messages takes. */
export type Measure = (messages: readonly Message[], prefix?: typeof NO_PREFIX) => number;

/** Returns true if the role has a window and the request does not fit, or carries too much. */
export function isOverflowing(
  agent: AgentRuntime,
  { conversation }: AgentState,
  sections: SectionMessages | undefined,
): boolean {
  const { compaction } = agent.role;
  if (compaction === undefined || compaction.strategy === "error") return false;
  const { maxInputTokens = Infinity } = compaction;
  const seen = forModel(conversation.messages, agent.model);
  if (attachedBytesOf(seen) > MOST_REQUEST_BYTES) return true;
  if (maxInputTokens === Infinity) return false;
  return measureSeen(agent, sections)(seen, conversation.prefix) > maxInputTokens;
}

/** Returns the measure for a history among these sections. */
export function measure(agent: AgentRuntime, sections?: SectionMessages): Measure {
  const tokensOf = measureSeen(agent, sections);
  return (history, prefix) => tokensOf(forModel(history, agent.model), prefix);
}

/** Returns the measure for what the model may see of a history. */
function measureSeen(
  { role, model, tools, output }: AgentRuntime,
  sections: SectionMessages | undefined,
): Measure {
  const ephemeral = sections && new Set(sections.values());
  const { maxOutputTokens } = role;
  return (history, prefix = NO_PREFIX) => {
    const messages = sections === undefined ? history : requestMessages(role, history, sections);
    const request = { messages, tools: tools.specs, maxOutputTokens, ...defined({ output }) };
    return countInputTokens(model, request, prefix, ephemeral).tokens;
  };
}
