// infer: one model call through its effect, and the settlement of its lease.

import { countedPrefix } from "../../model/count-tokens.ts";
import type { ModelReply } from "../../model/model.ts";
import { timingOf } from "../../protocol/step-timing.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { openStepOf, type AgentState, type StepReply, stepPosition } from "../agent-state.ts";
import { failWith, addSignal } from "../stop-requests.ts";
import { openStep, type PreparedCall } from "../life-cycle.ts";
import { callModel } from "../model-call.ts";
import { transition } from "../transition.ts";
import { budgetSignal } from "../budget-signal.ts";
import { repairedReply } from "./repaired-reply.ts";

/** Requests of a step that may be too long for the model before that is an error. */
const MAX_OVERFLOWS = 1;

/** Whatever came of the call, what it consumed is charged to the agent and every ancestor here, and once (B2, B3). */
export async function infer(
  agent: AgentRuntime,
  before: AgentState,
  call: PreparedCall,
): Promise<AgentState> {
  const { account } = agent;
  const state = openStep(agent, before, call);
  const place = stepPosition(agent, state);
  const { stepId } = place;
  const outcome = await callModel(agent, { place, ...call });
  const usage = place.isCounted === true ? { ...outcome.usage, steps: 0 } : outcome.usage;
  agent.effects.settle(call.lease, usage);
  agent.effects.note(
    "budget.settled",
    () => ({
      type: "budget.settled",
      leaseId: call.lease.leaseId,
      usage,
      remaining: account.remaining(),
      runRemaining: account.runRemaining(),
    }),
    { stepId },
  );
  const { spans = [] } = outcome;
  const charged = transition(state, { type: "addUsage", usage, timing: timingOf(spans) });
  switch (outcome.type) {
    case "cancelled":
      return charged;
    case "refused":
      agent.effects.record({ type: "budget.denied", ...outcome.refusal }, { stepId });
      return addSignal(agent, charged, budgetSignal(outcome.refusal));
    case "failed":
      return mayCompact(agent, charged, outcome.error)
        ? transition(charged, { type: "recordOverflow", error: outcome.error })
        : failWith(agent, charged, outcome.error);
    case "replied":
      return replied(agent, charged, call, outcome.reply);
  }
}

function replied(
  agent: AgentRuntime,
  state: AgentState,
  call: PreparedCall,
  reply: ModelReply,
): AgentState {
  const { stepId } = openStepOf(state);
  const { finishReason } = reply;
  const { text, toolCalls } = reply.message;
  const isPlain = toolCalls.length === 0 || (toolCalls.length === 1 && text === "");
  const message = isPlain ? reply.message : repairedReply(agent, reply.message, stepId);
  const taken = { message, finishReason };
  if (isUseless(taken)) return transition(state, { type: "discardReply", reply: taken });
  const { isFaithful, historyLength: messages, ephemeralTokens } = call;
  const prefix = isFaithful
    ? countedPrefix(state.conversation.prefix, { messages, ephemeralTokens }, reply)
    : state.conversation.prefix;
  return transition(state, { type: "recordReply", reply: taken, prefix });
}

/** A reply that says nothing; a text is an answer, also if its ending is of an unknown type (R11, C48). */
function isUseless({ message: { text, toolCalls, refusal } }: StepReply): boolean {
  return toolCalls.length === 0 && refusal === undefined && text.trim() === "";
}

/** A history that is too long for the model can be made shorter, if the role allows it and that has not been tried in vain. */
function mayCompact({ role }: AgentRuntime, { log }: AgentState, error: ErrorRecord): boolean {
  const isOverflow = error.code === "model_context_overflow";
  const isAllowed = role.compaction !== undefined && role.compaction.strategy !== "error";
  return isOverflow && isAllowed && log.overflows < MAX_OVERFLOWS;
}
