// How much of the history of a session an execution begins with (R153, R154). Done once, right after the task was taken in. What goes is
// simply gone, or summed up by a model call of its own, which is paid for like any other and is no step (R155).

import { countInputTokens } from "../../model/count-tokens.ts";
import { stepIdOf } from "../../protocol/ids.ts";
import type { Message } from "../../protocol/message.ts";
import type { Usage } from "../../protocol/usage.ts";
import { hasRoomForSummary, retainMessages } from "../../policies/retention-policy.ts";
import { summaryMessage, summaryRequest, type SummaryRoom } from "./summary-request.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { NO_PREFIX, type AgentState } from "../agent-state.ts";
import { storedMessages } from "../message-tags.ts";
import { transition } from "../transition.ts";
import { makeSideCall } from "./side-call.ts";
import { requestMessages } from "./assemble-request.ts";
import { NO_SECTIONS } from "./make-sections.ts";

/** Leaves out what the retention of the session does not keep. */
export async function retain(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  if (agent.retention === undefined) return state;
  const { messages } = state.conversation;
  const split = splitHistory(agent, state);
  if (split.dropped.length === 0) return state;
  const summed = hasRoomForSummary(agent.retention) ? await summary(agent, split.dropped) : NOTHING;
  const waited =
    summed.waitedMs === 0
      ? state
      : transition(state, { type: "addTime", waitedMs: summed.waitedMs });
  const { usage, message } = summed;
  const kept = message === undefined ? split.kept : afterInstructions(split.kept, message);
  agent.effects.record({
    type: "conversation.compacted",
    messagesBefore: messages.length,
    messagesAfter: kept.length,
    tokensBefore: tokensOf(agent, messages),
    tokensAfter: tokensOf(agent, kept),
    ...(message === undefined ? {} : { summaryCharacters: message.text.length }),
    ...(usage === undefined ? {} : { usage }),
  });
  const charge = usage === undefined ? {} : { usage };
  return transition(waited, { type: "compact", messages: kept, ...charge });
}

interface Split {
  readonly kept: readonly Message[];
  readonly dropped: readonly Message[];
}

function splitHistory({ retention, identity }: AgentRuntime, { conversation }: AgentState): Split {
  const stored = storedMessages(conversation, identity.agentId);
  const dropped = new Set(retention === undefined ? [] : retainMessages(stored, retention).dropped);
  const isDropped = (_message: Message, index: number): boolean => {
    const one = stored[index];
    return one !== undefined && dropped.has(one);
  };
  const { messages } = conversation;
  return {
    kept: messages.filter((message, index) => !isDropped(message, index)),
    dropped: messages.filter(isDropped),
  };
}

interface Summed {
  /** Undefined: there is no budget for it, or nothing came of it. */
  readonly message: Message | undefined;
  readonly usage: Usage | undefined;
  readonly waitedMs: number;
}

const NOTHING: Summed = { message: undefined, usage: undefined, waitedMs: 0 };
const MOST_SUMMARY_TOKENS = 1024;

async function summary(agent: AgentRuntime, dropped: readonly Message[]): Promise<Summed> {
  const { role, identity } = agent;
  const room: SummaryRoom = {
    maxOutputTokens: Math.min(MOST_SUMMARY_TOKENS, role.maxOutputTokens),
    maxInputTokens: role.compaction?.maxInputTokens,
  };
  const stepNumber = 1;
  const { text, usage, waitedMs } = await makeSideCall(agent, {
    place: {
      stepId: stepIdOf(identity.executionId, stepNumber),
      stepNumber,
      sideCall: { name: "retention" },
    },
    at: {},
    request: summaryRequest(dropped, room),
  });
  return { message: text === undefined ? undefined : summaryMessage(text, room), usage, waitedMs };
}

function afterInstructions(messages: readonly Message[], message: Message): readonly Message[] {
  const end = messages.findIndex(({ role }) => role !== "system");
  return [...messages.slice(0, end), message, ...messages.slice(end)];
}

function tokensOf({ role, tools }: AgentRuntime, messages: readonly Message[]): number {
  const { maxOutputTokens } = role;
  const shown = requestMessages(role, messages, NO_SECTIONS);
  const request = { messages: shown, tools: tools.specs, maxOutputTokens };
  return countInputTokens(role.model, request, NO_PREFIX).tokens;
}
