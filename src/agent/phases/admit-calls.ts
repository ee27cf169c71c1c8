// Decides which calls of a batch may begin. The others get their result here: skipped, denied,
// unknown tool, invalid arguments, or over a limit. Charges the calls against the limit of tool
// calls.

import type { CancelSignal } from "../../kernel/cancel-signal.ts";
import { omitUndefined } from "../../kernel/json.ts";
import { getRetryCount } from "../../policies/failure-counts.ts";
import { countIdenticalCalls } from "../../policies/identical-calls.ts";
import type { CallId } from "../../protocol/ids.ts";
import type { ToolCall } from "../../protocol/message.ts";
import { parseRawArguments, bindCall, rebindCall, type BoundCall } from "../../tools/bind-call.ts";
import {
  rejectDeniedCall,
  rejectUnknownTool,
  type RejectedCall,
} from "../../tools/rejected-call.ts";
import type { Tool } from "../../tools/tool.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import {
  isWholeReply,
  getOpenStep,
  getPendingCalls,
  type AgentState,
  type Deferral,
  type OpenStep,
} from "../agent-state.ts";
import type { BudgetRefusal } from "../../budget/lease.ts";
import type { ParentHistory } from "../effect-outcomes.ts";
import { createParsedOutput, type ParsedOutput } from "../typed-result.ts";
import { describeUnstartedCall } from "../tool-calls/cancelled-calls.ts";
import { readRequestedRoles, readRolesOfCall } from "../tool-calls/requested-roles.ts";
import { restoreCall, getStoredCall, readArguments } from "../tool-calls/parsed-call.ts";
import { createAnsweredEvent } from "../tool-calls/ask-approver.ts";
import type { CallInProgress } from "../tool-calls/open-call.ts";
import type { HookedCall } from "./rewrite-calls.ts";
import { describeRemoval } from "../../policies/context-notes.ts";
import type { ToolFailureCode } from "../../protocol/tool-failure.ts";

/** The outcome of admitting a batch of calls. */
export interface Admission {
  readonly calls: readonly CallInProgress[];
  /**
   * Number of charged calls. A typed result is not charged, and a deferred call was charged before.
   */
  readonly charged: number;
  /** The typed result, if a call gave it. */
  readonly output: ParsedOutput | undefined;
  /** Set if a limit refused a call. */
  readonly refusal: BudgetRefusal | undefined;
}

/** The calls of a batch: the next calls of the open step without a result. */
export interface CallBatch {
  readonly calls: readonly ToolCall[];
  /** The calls after their hooks. `undefined` without hooks before tool calls. */
  readonly hooked: ReadonlyMap<CallId, HookedCall> | undefined;
  /** True if the execution fails, so that none of the calls begins. */
  readonly isFailing: boolean;
  /** The reason for which the caller skipped the calls. `undefined` if it did not. */
  readonly skip: string | undefined;
  /** The signal shared by all calls of the reply. */
  readonly signal: CancelSignal;
  readonly onEnd: CallInProgress["onEnd"];
}

/**
 * Checks and charges calls in their order, and returns the calls with those that may not begin
 * already rejected.
 */
export function admitCalls(agent: AgentRuntime, state: AgentState, batch: CallBatch): Admission {
  const { tools } = agent;
  const { output: schema } = agent.role;
  const step = getOpenStep(state);
  const { steps, failures } = state.log;
  const history: ParentHistory = { messages: state.conversation.messages, steps };
  const ofReply = step.reply?.message.toolCalls ?? NONE;
  const deferrals = new Map(step.deferrals.map((waiting) => [waiting.callId, waiting]));
  const planned: CallInProgress[] = [];
  let charged = 0;
  let refusal: BudgetRefusal | undefined;
  let output: ParsedOutput | undefined;
  for (const call of batch.calls) {
    const { callId, toolName } = call;
    const before = planned.at(-1);
    const tool = tools.find(toolName);
    const index = ofReply.indexOf(call, before === undefined ? 0 : before.index + 1);
    const deferral = deferrals.get(callId) ?? agent.persistence?.inFlight?.takeDeferral(callId);
    const questionId = deferral?.type === "question" ? deferral.question.questionId : undefined;
    // A deferred call keeps its arguments.
    const hooked = batch.hooked?.get(callId);
    const { argumentsText } = hooked ?? deferral ?? call;
    const denial = hooked?.change?.type === "denied" ? hooked.change : undefined;
    let bound = bindOrReject(agent, step, batch, { call, tool, argumentsText, hooked, deferral });
    if (bound.type === "rejected") noteRejectedCall(agent, step, { call, bound, deferral });
    else if (bound.type !== "finish" && denial === undefined && !deferrals.has(callId)) {
      const wasCharged = agent.persistence?.inFlight?.takeCharge() === true;
      const refused = wasCharged ? undefined : agent.account.chargeToolCall();
      if (refused === undefined) charged += 1;
      else bound = rejectOverLimit(refused, bound.tool);
      refusal ??= refused;
    }
    if (bound.type === "finish" && schema !== undefined) output = createParsedOutput(schema, bound);
    const settings = tools.getSettings(toolName);
    const isWatched = tool?.kind === "function" && settings.maxIdenticalCalls !== "unlimited";
    const countBefore = before?.index === index - 1 ? before.identicalCalls : undefined;
    const rank = { calls: ofReply, index, countBefore };
    const position = { stepId: step.stepId, callId };
    planned.push({
      agent,
      stepId: step.stepId,
      stepNumber: step.number,
      position,
      scope: agent.getScope(position),
      signal: batch.signal,
      call,
      toolName,
      index,
      bound,
      isRepaired: (bound.type !== "rejected" && bound.unrepaired !== undefined) || undefined,
      denial,
      argumentsText,
      settings,
      retryCount: getRetryCount(failures, toolName),
      identicalCalls: isWatched ? countIdenticalCalls(steps, rank) : 0,
      delegatedRoles: NONE,
      history,
      deferral,
      answer: questionId && agent.run.answers?.get(questionId),
      onEnd: batch.onEnd,
      isClosed: false,
      spawned: [],
      reports: 0,
      questions: 0,
    });
  }
  if (planned.some(({ bound }) => bound.type === "delegation"))
    noteDelegatedRoles(agent, state, planned);
  return { calls: planned, charged, output, refusal };
}

/**
 * Gives each delegation the roles requested in the reply, because the delegations share the
 * remaining budget, and one failure may end the others.
 */
function noteDelegatedRoles(
  agent: AgentRuntime,
  state: AgentState,
  planned: readonly CallInProgress[],
): void {
  const delegations = planned.filter(({ bound }) => bound.type === "delegation");
  const ofBatch = delegations.flatMap(({ bound }) =>
    "input" in bound ? readRequestedRoles(bound.input) : NONE,
  );
  const calls = getOpenStep(state).reply?.message.toolCalls ?? NONE;
  const isWhole = planned.length === calls.length;
  const roles = isWhole ? ofBatch : [...ofBatch, ...findOtherRoles(agent, state, planned.length)];
  for (const call of delegations) call.delegatedRoles = roles;
}

/**
 * Returns the roles requested by delegations of the reply outside the batch: calls that have
 * started a subagent, and calls to come. `size` is the number of calls in the batch.
 */
function findOtherRoles(agent: AgentRuntime, state: AgentState, size: number): readonly string[] {
  const others = [
    ...collectStartedCalls(agent, getOpenStep(state)),
    ...getPendingCalls(state).slice(size),
  ];
  return others.flatMap((call) => readRolesOfCall(agent, call));
}

/**
 * Drops the answer of a rejected call, and counts a delegation in the group of its reply. Only an
 * earlier batch has created a group by then, and it has counted the call as a possible member.
 */
function noteRejectedCall(
  agent: AgentRuntime,
  step: OpenStep,
  {
    call,
    bound,
    deferral,
  }: Pick<CallInProgress, "call" | "deferral"> & { readonly bound: RejectedCall },
): void {
  if (deferral !== undefined) dropAnswer(agent, step, deferral);
  // If the reply is over, its end reaches the members.
  if (bound.code === "not_executed" || readRolesOfCall(agent, call).length === 0) return;
  agent.findGroup(step.stepId)?.countMissing();
}

/**
 * Returns the calls of the reply that have a result and had started a subagent, in an earlier batch
 * or before a pause.
 */
function collectStartedCalls(
  { children }: AgentRuntime,
  { stepId, reply, executions }: OpenStep,
): readonly ToolCall[] {
  if (executions.length === 0) return NONE;
  const over = new Set(executions.map(({ call }) => call.callId));
  const starters = children.filter(({ facts }) => facts.spawnStepId === stepId);
  const started = new Set(starters.map(({ facts }) => facts.spawnCallId));
  const calls = reply?.message.toolCalls ?? [];
  return calls.filter(({ callId }) => over.has(callId) && started.has(callId));
}

const NONE: readonly never[] = Object.freeze([]);

/** Returns the call bound to its tool, or a rejected call. */
function bindOrReject(
  agent: AgentRuntime,
  step: OpenStep,
  { isFailing, skip }: CallBatch,
  planned: Pick<CallInProgress, "call" | "argumentsText" | "deferral"> & {
    readonly tool: Tool | undefined;
    readonly hooked: HookedCall | undefined;
  },
): BoundCall {
  const { call, tool, argumentsText, hooked, deferral } = planned;
  const { toolName } = call;
  if (isFailing || hooked?.change?.type === "cancelled")
    return rejectCall(tool, "not_executed", describeUnstartedCall(agent));
  if (skip !== undefined)
    return refuseUnread(step, call, rejectCall(tool, "skipped", `Not executed: ${skip}`));
  const isHidden = step.hiddenTools.some((hidden) => hidden.toolName === toolName);
  if (tool === undefined || isHidden)
    return refuseUnread(step, call, findMissing(agent, step, call));
  if (deferral?.type === "question") return restoreCall(tool, getStoredCall(deferral));
  if (deferral !== undefined) {
    // Its subagent has begun to work, so the arguments are only recorded.
    const input = parseRawArguments(deferral.argumentsText);
    return rebindCall(tool, input, deferral.parsedArguments ?? input);
  }
  const bound = bindCall(tool, argumentsText, isWholeReply(step));
  if (bound.type === "rejected") return cutShort(step, call, bound);
  // Guards do not check the typed result. Only hooks may deny it.
  if (bound.type === "finish" && hooked?.change?.type === "denied")
    return rejectDeniedCall(bound.tool, hooked.change);
  return hooked?.unrepaired === undefined ? bound : { ...bound, unrepaired: hooked.unrepaired };
}

/**
 * Returns the refusal of a call whose tool the agent does not have, or that a filter hides in this
 * step.
 */
function findMissing(
  { tools, toolLimits }: AgentRuntime,
  { hiddenTools }: OpenStep,
  { toolName }: ToolCall,
): RejectedCall {
  const isOffered = (name: string): boolean =>
    hiddenTools.every((hidden) => hidden.toolName !== name);
  const offered = tools.names.filter(isOffered);
  const choice =
    offered.length === 0
      ? "You have no tools in this step; answer in text."
      : `Your tools are: ${offered.join(", ")}.`;
  const tool = tools.find(toolName);
  // A role above may forbid one of the agent's own tools (T4).
  const removals = toolLimits.removed.filter((removed) => removed.toolName === toolName);
  if (tool === undefined && removals.length > 0) {
    const reasons = removals.map(describeRemoval).join("; ");
    const text = `Not executed: you cannot use ${toolName} (${reasons}). ${choice}`;
    const by = [...new Set(removals.map(({ source }) => source))].join(", ");
    return rejectCall(undefined, "tool_not_available", text, by);
  }
  const filters = hiddenTools.filter((hidden) => hidden.toolName === toolName);
  if (filters.length === 0) return rejectUnknownTool(offered, toolName);
  const text = `Not executed: ${toolName} is not available in this step. ${choice}`;
  const by = filters.map(({ filter }) => filter).join(", ");
  return rejectCall(tool, "tool_not_available", text, by);
}

/**
 * Returns the refusal of a call that was not parsed. Its arguments may be complete even if the
 * reply was cut off.
 */
function refuseUnread(step: OpenStep, call: ToolCall, refusal: RejectedCall): RejectedCall {
  return readArguments(call.argumentsText) === undefined ? cutShort(step, call, refusal) : refusal;
}

/**
 * Returns a rejected call with an explanation if the reply was cut off at its cap: its last call
 * may then be incomplete.
 */
function cutShort(
  { reply, context }: OpenStep,
  { callId }: ToolCall,
  call: RejectedCall,
): RejectedCall {
  const isCutOff =
    reply?.finishReason === "length" && reply.message.toolCalls.at(-1)?.callId === callId;
  if (!isCutOff || call.tool === undefined) return call;
  const { maxOutputTokens } = context.parameters;
  const cause = `Your reply was cut off at its limit of ${maxOutputTokens} output tokens, in the middle of this call. Write less.`;
  return { ...call, text: `${cause}\n${call.text}` };
}

/** Records the answer to a question about a call that can no longer run, for audit. */
function dropAnswer(agent: AgentRuntime, { stepId }: OpenStep, deferral: Deferral): void {
  if (deferral.type !== "question") return;
  const { question, callId } = deferral;
  const given = agent.run.answers?.get(question.questionId);
  const dropped = createAnsweredEvent(agent, question, {
    answer: given?.type ?? (question.kind === "approval" ? "denied" : "failure"),
    source: given === undefined ? "end" : "caller",
    ...omitUndefined({ by: given?.by }),
    reason: "The call could no longer run.",
  });
  agent.record(dropped, { stepId, callId });
}

function rejectOverLimit(
  { axis, accountPath, maximum, reserve }: BudgetRefusal,
  tool: Tool | undefined,
): RejectedCall {
  const rest = reserve === undefined ? "" : `, except for ${reserve} reserved for its own answer`;
  const text = `Not executed: the ${axis} budget of ${accountPath}, which is ${maximum}, is used up${rest}. Answer with what you have.`;
  return rejectCall(tool, axis === "timeMs" ? "time_limit" : "tool_call_limit", text);
}

function rejectCall(
  tool: Tool | undefined,
  code: ToolFailureCode,
  text: string,
  by?: string,
): RejectedCall {
  return { type: "rejected", tool, code, text, ...omitUndefined({ by }) };
}
