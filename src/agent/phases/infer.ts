// infer: one model call through its effect, and the settlement of its lease.

import { countedPrefix } from "../../model/count-tokens.ts";
import type { AgentContext } from "../agent-context.ts";
import { openStepOf, type AgentState } from "../agent-state.ts";
import { failWith } from "../life-cycle.ts";
import { callIdOf, type StepId } from "../../protocol/ids.ts";
import type { AssistantMessage } from "../../protocol/message.ts";
import { transition } from "../transition.ts";
import type { PreparedCall } from "./prepare.ts";

/** Whatever came of the call, what it consumed is charged to the agent and every ancestor here, and once (B2, B3). */
export async function infer(
  agent: AgentContext,
  state: AgentState,
  call: PreparedCall,
): Promise<AgentState> {
  const { effects, budget } = agent;
  const { stepId, number: stepNumber } = openStepOf(state);
  const [outcome] = await effects.join([
    effects.infer({ stepId, stepNumber }, call.lease, call.request),
  ]);
  if (outcome === undefined) return state;
  budget.settle(call.lease, outcome.usage);
  agent.record(
    {
      type: "budget.settled",
      leaseId: call.lease.leaseId,
      usage: outcome.usage,
      remaining: budget.remaining(),
      runRemaining: budget.runRemaining(),
    },
    { stepId },
  );
  const charged = transition(state, { type: "addUsage", usage: outcome.usage });
  switch (outcome.type) {
    case "cancelled":
      return charged;
    case "failed":
      return failWith(agent, charged, outcome.error);
    case "replied": {
      const { finishReason, usage } = outcome.reply;
      const message = withOwnCallIds(outcome.reply.message, stepId);
      const reply = { message, finishReason };
      const isEmpty =
        message.text === "" && message.toolCalls.length === 0 && message.refusal === undefined;
      if (isEmpty) return transition(charged, { type: "discardReply", reply });
      const prefix = countedPrefix(state.conversation.prefix, call.request.messages.length, usage);
      return transition(charged, { type: "recordReply", reply, prefix });
    }
  }
}

/** Some servers give several calls of a reply one id: each later one gets an id by its place, so that results find their call (L3). */
function withOwnCallIds(message: AssistantMessage, stepId: StepId): AssistantMessage {
  const { toolCalls } = message;
  const ids = toolCalls.map((call) => call.callId);
  if (new Set(ids).size === ids.length) return message;
  const renamed = toolCalls.map((call, index) =>
    ids.indexOf(call.callId) === index ? call : { ...call, callId: callIdOf(stepId, index) },
  );
  return { ...message, toolCalls: renamed };
}
