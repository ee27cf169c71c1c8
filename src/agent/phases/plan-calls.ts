// Which of the calls may begin, and which have their result already: left out, denied, not there, not fitting, over a limit.

import type { JsonValue } from "../../kernel/json.ts";
import { retriesOf } from "../../policies/error-budget.ts";
import { identicalCallsBefore } from "../../policies/identical-calls.ts";
import type { ToolFailureCode } from "../../protocol/tool-failure.ts";
import {
  bindCall,
  deniedText,
  UNBEGUN_TEXT,
  type BoundCall,
  type RejectedCall,
} from "../../tools/bind-call.ts";
import type { Tool } from "../../tools/tool.ts";
import type { AgentContext } from "../agent-context.ts";
import { openStepOf, type AgentState, type OpenStep } from "../agent-state.ts";
import type { BudgetRefusal } from "../budget-gate.ts";
import type { PlannedCall } from "../effects.ts";
import type { Rewritten } from "./rewrite-calls.ts";

/** What is to become of the calls. */
export interface Plan {
  readonly calls: readonly PlannedCall[];
  /** How many calls were charged. Giving a result is none; what was put off has been charged before. */
  readonly charged: number;
  /** The typed result, if the model gave it. */
  readonly output: JsonValue | undefined;
  /** Set when a limit refused a call. */
  readonly refusal: BudgetRefusal | undefined;
}

/** Why none of the calls begins: the execution fails, or whoever holds the run wants them left out. */
export interface Hold {
  readonly isFailing: boolean;
  readonly skip: string | undefined;
}

/** Checks and charges calls, in their order. */
export function planCalls(
  agent: AgentContext,
  state: AgentState,
  calls: readonly Rewritten[],
  { isFailing, skip }: Hold,
): Plan {
  const step = openStepOf(state);
  let charged = 0;
  let refusal: BudgetRefusal | undefined;
  let output: JsonValue | undefined;
  const planned = calls.map((rewritten): PlannedCall => {
    const plan = drafted(agent, state, rewritten);
    const { deferral } = plan;
    const bound = isFailing
      ? unbegun(agent.tools.find(plan.call.toolName))
      : boundCall(agent, step, rewritten, skip);
    if (deferral?.type === "subagent") return { ...plan, bound };
    if (deferral !== undefined && bound.type === "rejected") dropAnswer(agent, step, plan);
    if (bound.type === "finish") output = bound.use;
    const isFree = bound.type === "finish" || bound.type === "rejected" || deferral !== undefined;
    const refused = isFree ? undefined : agent.budget.chargeToolCall();
    if (refused !== undefined) {
      refusal ??= refused;
      return { ...plan, bound: overLimit(refused, bound.tool) };
    }
    if (!isFree) charged += 1;
    return { ...plan, bound };
  });
  return { calls: planned, charged, output, refusal };
}

type Draft = Omit<PlannedCall, "bound">;

/** Everything about a call but whether it may begin. */
function drafted(agent: AgentContext, state: AgentState, rewritten: Rewritten): Draft {
  const { call, argumentsText } = rewritten;
  const step = openStepOf(state);
  const reply = step.reply?.message.toolCalls ?? [];
  // A call is known by its place in the reply, also after a pause.
  const index = Math.max(
    0,
    reply.findIndex(({ callId }) => callId === call.callId),
  );
  const deferral = step.deferrals.find(({ callId }) => callId === call.callId);
  const answer =
    deferral?.type === "question" ? agent.answerTo(deferral.question.questionId) : undefined;
  const settings = agent.tools.settingsOf(call.toolName);
  const isWatched = settings.maxIdenticalCalls !== "unlimited";
  const { steps } = state.log;
  return {
    call,
    argumentsText,
    index,
    settings,
    retryCount: retriesOf(state.log.failures, call.toolName),
    identicalCalls: isWatched ? identicalCallsBefore(steps, reply.slice(0, index), call) : 0,
    messages: state.conversation.messages,
    deferral,
    answer,
  };
}

function boundCall(
  agent: AgentContext,
  { hiddenTools }: OpenStep,
  { call, argumentsText, change }: Rewritten,
  skip: string | undefined,
): BoundCall {
  const tool = agent.tools.find(call.toolName);
  if (change?.type === "cancelled") return unbegun(tool);
  if (skip !== undefined) return rejected("skipped", `Not executed: ${skip}`, { tool });
  if (change?.type === "denied") {
    const text = deniedText(call.toolName, change.reason);
    return rejected("blocked", text, { tool, by: change.by });
  }
  const offered = offeredNames(agent, hiddenTools);
  const filters = hiddenTools.filter(({ toolName }) => toolName === call.toolName);
  if (filters.length === 0) return bindCall(agent.tools, { ...call, argumentsText }, offered);
  const choice =
    offered.length === 0
      ? "You have no tools in this step; answer in text."
      : `Your tools are: ${offered.join(", ")}.`;
  const text = `Not executed: ${call.toolName} is not available in this step. ${choice}`;
  const by = filters.map(({ filter }) => filter).join(", ");
  return rejected("tool_not_available", text, { tool, by });
}

/** The tools that the model was shown in this step. */
function offeredNames(
  { tools }: AgentContext,
  hiddenTools: OpenStep["hiddenTools"],
): readonly string[] {
  if (hiddenTools.length === 0) return tools.names;
  const hidden = new Set(hiddenTools.map(({ toolName }) => toolName));
  return tools.names.filter((name) => !hidden.has(name));
}

/** A question about a call was answered, but the call cannot run any more: what was said is kept for audit. */
function dropAnswer(
  agent: AgentContext,
  { stepId }: OpenStep,
  { call, deferral, answer }: Draft,
): void {
  if (deferral?.type !== "question") return;
  const { questionId, kind, askedAtMs } = deferral.question;
  const given = answer?.type ?? (kind === "approval" ? "denied" : "failure");
  agent.record(
    {
      type: "question.answered",
      questionId,
      toolName: call.toolName,
      answer: given,
      by: answer === undefined ? "end" : "caller",
      reason: "The call could not run any more.",
      waitedMs: agent.effects.nowMs() - askedAtMs,
    },
    { stepId, callId: call.callId },
  );
}

/** The agent was told to end, or fails, before the call. */
function unbegun(tool: Tool | undefined): RejectedCall {
  return rejected("not_executed", UNBEGUN_TEXT, { tool });
}

function overLimit(
  { axis, accountPath, maximum }: BudgetRefusal,
  tool: Tool | undefined,
): RejectedCall {
  const text = `Not executed: the ${axis} budget of ${accountPath}, which is ${maximum}, is used up. Answer with what you have.`;
  return rejected(axis === "wallTimeMs" ? "time_limit" : "tool_calls_limit", text, { tool });
}

function rejected(
  code: ToolFailureCode,
  text: string,
  { tool, by }: { readonly tool: Tool | undefined; readonly by?: string },
): RejectedCall {
  return { type: "rejected", tool, code, text, ...(by === undefined ? {} : { by }) };
}
