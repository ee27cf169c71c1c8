// Compaction: a history that outgrew its window is made shorter, in whole groups of calls and results. Neither an error nor a step (R14).

import { countInputTokens } from "../../model/count-tokens.ts";
import { truncateHistory } from "../../policies/truncate-history.ts";
import type { Message } from "../../protocol/message.ts";
import type { AgentContext } from "../agent-context.ts";
import type { AgentState } from "../agent-state.ts";
import { consultHooks } from "../consult-hooks.ts";
import { eventPlace, failWith } from "../life-cycle.ts";
import { transition } from "../transition.ts";

/** Messages that a compaction keeps if nobody says otherwise. */
const DEFAULT_KEPT_MESSAGES = 20;

/** True if the role has a window and the history is longer. */
export function isOverflowing(agent: AgentContext, state: AgentState): boolean {
  const maxInputTokens = agent.role.compaction?.maxInputTokens;
  return maxInputTokens !== undefined && countHistory(agent, state) > maxInputTokens;
}

/**
 * Leaves out the oldest messages, keeping the instructions, the task and the most recent ones: as many as the role says, and fewer if
 * that is still too long. The same state: there is nothing to leave out.
 */
export async function compact(agent: AgentContext, state: AgentState): Promise<AgentState> {
  const { keepMessages = DEFAULT_KEPT_MESSAGES, maxInputTokens } = agent.role.compaction ?? {};
  const { messages } = state.conversation;
  const tokensBefore = countHistory(agent, state);
  const hooked = await consultHooks(agent, {
    point: "beforeCompaction",
    stepNumber: state.log.steps.length + 1,
    place: eventPlace(state),
    input: { messages, inputTokens: tokensBefore, maxInputTokens: maxInputTokens ?? tokensBefore },
  });
  if (hooked?.type === "cancelled") return state;
  if (hooked?.type === "failed") return failWith(agent, state, hooked.error);
  if (truncateHistory(messages, { keepMessages: 0 }) === messages) return state;
  const compacted = shortened(agent, state, hooked?.patch.keepMessages ?? keepMessages);
  agent.record(
    {
      type: "conversation.compacted",
      messagesBefore: messages.length,
      messagesAfter: compacted.conversation.messages.length,
      tokensBefore,
      tokensAfter: countHistory(agent, compacted),
    },
    eventPlace(state),
  );
  return withSubagentList(agent, compacted);
}

/** How the list of subagents begins, by which an older one is known. */
export const SUBAGENT_LIST_OPENING =
  "Your subagents so far, by the names under which you reach them:";

/**
 * What the agent knew of its subagents may be gone with the messages: it is told anew by which names it reaches them (X10). What it was
 * told so before does not hold any more.
 */
function withSubagentList(agent: AgentContext, state: AgentState): AgentState {
  const text = agent.subagentList();
  if (text === undefined) return state;
  const messages = state.conversation.messages.filter((message) => !isSubagentList(message));
  return transition(state, {
    type: "compact",
    messages: [...messages, { role: "user", text, origin: "notice" }],
  });
}

function isSubagentList(message: Message): boolean {
  const isNotice = message.role === "user" && message.origin === "notice";
  return isNotice && message.text.startsWith(SUBAGENT_LIST_OPENING);
}

/** Keeps half as many messages, and half of that, until something was left out and the rest fits. */
function shortened(agent: AgentContext, state: AgentState, keepMessages: number): AgentState {
  const { messages } = state.conversation;
  const shorter = truncateHistory(messages, { keepMessages });
  if (shorter === messages) return shortened(agent, state, Math.floor(keepMessages / 2));
  const compacted = transition(state, { type: "compact", messages: shorter });
  return keepMessages > 0 && isOverflowing(agent, compacted)
    ? shortened(agent, state, Math.floor(keepMessages / 2))
    : compacted;
}

function countHistory({ role, tools }: AgentContext, { conversation }: AgentState): number {
  const { messages, prefix } = conversation;
  const request = { messages, tools: tools.specs, maxOutputTokens: role.maxOutputTokens };
  return countInputTokens(role.model, request, prefix);
}
