// infer: makes the model call of a step, and settles its lease.

import { omitUndefined } from "../../kernel/json.ts";
import { measurePrefix } from "../../model/count-tokens.ts";
import type { ModelReply } from "../../model/model.ts";
import { computeTiming } from "../../protocol/step-timing.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { isUseless, type AgentState } from "../agent-state.ts";
import { failWith, addSignal, toBudgetSignal } from "../stop-requests.ts";
import { beginStep, type PreparedCall } from "../life-cycle.ts";
import { callModel, settleModelCall } from "../model-call.ts";
import { discardReply, recordOverflow, recordReply, recordUsage } from "../transition.ts";
import { findLeakedCall } from "../../policies/argument-leak.ts";
import { createCallId, type StepId } from "../../protocol/ids.ts";
import type { AssistantMessage } from "../../protocol/message.ts";
import { formatContent } from "../../protocol/message-content.ts";
import { fitParts, renamePartCalls } from "../../protocol/reply-message.ts";
import { addMail } from "./prepare.ts";

/**
 * Overflows of a step after which the history is still shortened. A further overflow is an error.
 */
const MAX_OVERFLOWS = 1;

/** Makes the call, and records its outcome in the state. */
export async function infer(
  agent: AgentRuntime,
  before: AgentState,
  call: PreparedCall,
): Promise<AgentState> {
  const shown = call.mail.length === 0 ? before : deliverMail(agent, before, call);
  const state = beginStep(agent, shown, call);
  const { effectPosition: position } = call;
  const outcome = await callModel(agent, call);
  const usage = settleModelCall(agent, position, call.lease, outcome);
  const { spans = [] } = outcome;
  const charged = recordUsage(state, usage, computeTiming(spans));
  if (outcome.type !== "replied") {
    const reason = outcome.type === "cancelled" ? "cancelled" : "discarded";
    agent.run.pieces?.reset(agent.toPartSource(position), reason);
  }
  switch (outcome.type) {
    case "cancelled":
      return charged;
    case "refused":
      return addSignal(agent, charged, toBudgetSignal(outcome.refusal));
    case "failed":
      return canCompact(agent, charged, outcome.error)
        ? recordOverflow(charged, outcome.error)
        : failWith(agent, charged, outcome.error);
    case "replied":
      return takeReply(agent, charged, call, outcome.reply);
  }
}

/**
 * Adds the messages that the call contains to the history and notifies their senders, because the
 * step begins.
 */
function deliverMail(
  agent: AgentRuntime,
  state: AgentState,
  { effectPosition, mail }: PreparedCall,
): AgentState {
  for (const { content, reportOf, sender } of mail) {
    const origin = reportOf === undefined ? "steering" : "report";
    const from = omitUndefined({ fromAgentId: sender });
    const characters = formatContent(content).length;
    agent.record({ type: "message.delivered", origin, characters, ...from }, effectPosition);
  }
  agent.mailbox?.confirmDelivery(mail, effectPosition.stepNumber);
  return addMail(state, mail);
}

function takeReply(
  agent: AgentRuntime,
  state: AgentState,
  call: PreparedCall,
  reply: ModelReply,
): AgentState {
  const { effectPosition: position } = call;
  const { stepId } = position;
  const { finishReason } = reply;
  const { text, toolCalls } = reply.message;
  const isPlain = toolCalls.length === 0 || (toolCalls.length === 1 && text === "");
  const message = isPlain
    ? reply.message
    : removeLeakedText(agent, assignCallIds(reply.message, stepId), stepId);
  const taken = { message, finishReason };
  const { pieces } = agent.run;
  if (isUseless(taken)) {
    pieces?.reset(agent.toPartSource(position), "discarded");
    return discardReply(state, taken);
  }
  const { isFaithful, historyLength: messages, ephemeralTokens } = call;
  const prefix = isFaithful
    ? measurePrefix(state.conversation.prefix, { messages, ephemeralTokens }, reply)
    : state.conversation.prefix;
  const answered = recordReply(state, taken, prefix);
  agent.noteState(answered);
  pieces?.end(agent.toPartSource(position), message, finishReason);
  return answered;
}

/**
 * True if the error is a context overflow and the history may be shortened: the role allows it, and
 * it has not been tried in this step.
 */
function canCompact({ role }: AgentRuntime, { log }: AgentState, error: ErrorRecord): boolean {
  const isOverflow = error.code === "model_context_overflow";
  const isAllowed = role.compaction !== undefined && role.compaction.strategy !== "error";
  return isOverflow && isAllowed && log.overflows < MAX_OVERFLOWS;
}

// Repairs of common mistakes of models and servers in replies with calls, before any other code
// reads the reply.

/** Removes a text that only repeats the arguments of a call, as some models write it. */
function removeLeakedText(
  agent: AgentRuntime,
  message: AssistantMessage,
  stepId: StepId,
): AssistantMessage {
  if (message.text === "" || message.toolCalls.length === 0) return message;
  const leaked = findLeakedCall(message);
  if (leaked === undefined) return message;
  const { toolName, callId } = leaked;
  agent.record(
    { type: "reply.filtered", toolName, characters: message.text.length },
    { stepId, callId },
  );
  return fitParts({ ...message, text: "" }, message);
}

/**
 * Gives calls with duplicate ids unique ones, so that results find their call (L3). Some servers
 * use one id for several calls of a reply.
 */
function assignCallIds(message: AssistantMessage, stepId: StepId): AssistantMessage {
  const { toolCalls } = message;
  const ids = toolCalls.map((call) => call.callId);
  if (new Set(ids).size === ids.length) return message;
  const renamed = toolCalls.map((call, index) =>
    ids.indexOf(call.callId) === index ? call : { ...call, callId: createCallId(stepId, index) },
  );
  const parts = message.parts && renamePartCalls(message.parts, renamed);
  return { ...message, toolCalls: renamed, ...omitUndefined({ parts }) };
}
