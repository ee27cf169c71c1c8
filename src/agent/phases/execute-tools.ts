// execute: rewrite, check, charge and run the calls of the reply, in parallel. A call that waits for somebody outside is put off.

import type { JsonValue } from "../../kernel/json.ts";
import type { ToolCall } from "../../protocol/message.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import { bindCall, deniedText, type BoundCall } from "../../tools/bind-call.ts";
import { stopCodeOf } from "../../policies/budget.ts";
import { NO_USAGE } from "../../protocol/usage.ts";
import type { AgentContext } from "../agent-context.ts";
import { openStepOf, pendingCallsOf, type AgentState, type OpenStep } from "../agent-state.ts";
import type { BudgetRefusal } from "../budget-gate.ts";
import type { PlannedCall } from "../effects.ts";
import { failWith } from "../life-cycle.ts";
import { transition } from "../transition.ts";
import { budgetSignal } from "./prepare.ts";
import { rewriteCalls, type Rewritten } from "./rewrite-calls.ts";

/** Calls are charged in call order before any of them starts, so that parallel children cannot take an admitted call's place. */
export async function executeTools(agent: AgentContext, state: AgentState): Promise<AgentState> {
  const { effects } = agent;
  const step = openStepOf(state);
  const asked = rewriteCalls(agent, step, pendingCallsOf(state));
  const rewritten = asked instanceof Promise ? await asked : asked;
  const failures = failuresOf(rewritten);
  const plan = planCalls(agent, state, rewritten);
  const ends = await effects.join(
    plan.calls.map((call) =>
      effects.callTool({ stepId: step.stepId, stepNumber: step.number }, call),
    ),
  );
  const executions = ends.flatMap((end) => (end.type === "executed" ? [end.execution] : []));
  const deferrals = ends.flatMap((end) => (end.type === "deferred" ? [end.deferral] : []));
  const usage = { ...NO_USAGE, toolCalls: plan.charged };
  let next = transition(state, { type: "addUsage", usage });
  const limit = plan.refusal === undefined ? undefined : budgetSignal(plan.refusal);
  next = transition(next, { type: "recordExecutions", executions, deferrals, limit });
  if (plan.output !== undefined)
    next = transition(next, { type: "recordOutput", output: plan.output });
  const broken = ends.flatMap((end) => (end.type === "executed" ? (end.failure ?? []) : []));
  return [...failures, ...broken].reduce<AgentState>(
    (failed, error) => failWith(agent, failed, error),
    next,
  );
}

interface Plan {
  readonly calls: readonly PlannedCall[];
  /** How many calls were charged. Giving a result is none; what was put off has been charged before. */
  readonly charged: number;
  /** The typed result, if the model gave it. */
  readonly output: JsonValue | undefined;
  /** Set when a limit refused a call. */
  readonly refusal: BudgetRefusal | undefined;
}

function planCalls(agent: AgentContext, state: AgentState, calls: readonly Rewritten[]): Plan {
  const step = openStepOf(state);
  const { messages } = state.conversation;
  const skip = agent.inbox.takeSkip();
  const isFailing = failuresOf(calls).length > 0;
  let charged = 0;
  let refusal: BudgetRefusal | undefined;
  let output: JsonValue | undefined;
  const planned = calls.map((rewritten): PlannedCall => {
    const { call } = rewritten;
    const deferral = step.deferrals.find(({ callId }) => callId === call.callId);
    const answer =
      deferral?.type === "question" ? agent.answerTo(deferral.question.questionId) : undefined;
    const index = indexOf(step, call);
    const { argumentsText } = rewritten;
    const plan = { call, argumentsText, index, messages, deferral, answer };
    const bound = isFailing ? unbegun() : boundCall(agent, rewritten, skip);
    if (deferral?.type === "subagent") return { ...plan, bound };
    if (deferral !== undefined && bound.type === "rejected") dropAnswer(agent, step, plan);
    if (bound.type === "finish") output = bound.use;
    const isFree = bound.type === "finish" || bound.type === "rejected" || deferral !== undefined;
    const refused = isFree ? undefined : agent.budget.chargeToolCall();
    if (refused !== undefined) {
      refusal ??= refused;
      return { ...plan, bound: overLimit(refused) };
    }
    if (!isFree) charged += 1;
    return { ...plan, bound };
  });
  return { calls: planned, charged, output, refusal };
}

/** A call is known by its place in the reply, also after a pause. */
function indexOf({ reply }: OpenStep, call: ToolCall): number {
  return reply?.message.toolCalls.findIndex(({ callId }) => callId === call.callId) ?? 0;
}

function boundCall(
  agent: AgentContext,
  { call, argumentsText, change }: Rewritten,
  skip: string | undefined,
): BoundCall {
  if (change?.type === "cancelled") return unbegun();
  if (skip !== undefined) return skipped(skip);
  if (change?.type === "denied") return denied(call, change);
  return bindCall(agent.tools, { ...call, argumentsText });
}

function failuresOf(calls: readonly Rewritten[]): readonly ErrorRecord[] {
  return calls.flatMap(({ change }) => (change?.type === "failed" ? [change.error] : []));
}

/** A question about a call was answered, but the call cannot run any more: what was said is kept for audit. */
function dropAnswer(
  agent: AgentContext,
  { stepId }: OpenStep,
  { call, deferral, answer }: Omit<PlannedCall, "bound">,
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

function denied(
  { toolName }: ToolCall,
  { reason, by }: Extract<Rewritten["change"], { readonly type: "denied" }>,
): BoundCall {
  const text = deniedText(toolName, reason);
  return { type: "rejected", outcome: "refused", code: "blocked", text, by };
}

/** The agent was told to end, or fails, before the call. */
function unbegun(): BoundCall {
  const text = "Not executed: the agent was told to end before this call could begin.";
  return { type: "rejected", outcome: "not_executed", code: "not_executed", text };
}

function skipped(reason: string): BoundCall {
  return {
    type: "rejected",
    outcome: "refused",
    code: "skipped",
    text: `Not executed: ${reason}`,
  };
}

function overLimit({ axis, accountPath, maximum }: BudgetRefusal): BoundCall {
  const text = `Not executed: the ${axis} budget of ${accountPath}, which is ${maximum}, is used up. Answer with what you have.`;
  return { type: "rejected", outcome: "refused", code: stopCodeOf(axis), text };
}
