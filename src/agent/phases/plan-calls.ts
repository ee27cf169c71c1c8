// Which of the calls may begin, and which have their result already: left out, denied, not there, not fitting, over a limit.

import { isRecord, defined } from "../../kernel/json.ts";
import { retriesOf } from "../../policies/failure-counts.ts";
import { identicalCallsBefore } from "../../policies/identical-calls.ts";
import type { Answer } from "../../protocol/question.ts";
import type { CallId } from "../../protocol/ids.ts";
import type { ToolCall } from "../../protocol/message.ts";
import { argumentsOf, bindCall, rebindCall, type BoundCall } from "../../tools/bind-call.ts";
import {
  deniedCall,
  UNBEGUN_TEXT,
  unknownTool,
  type RejectedCall,
} from "../../tools/rejected-call.ts";
import type { Tool } from "../../tools/tool.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import {
  isWholeReply,
  openStepOf,
  pendingCallsOf,
  type AgentState,
  type Deferral,
  type OpenStep,
} from "../agent-state.ts";
import type { BudgetRefusal } from "../account-view.ts";
import type { ParentHistory, PlannedCall } from "../effects.ts";
import { parsedOutput, type ParsedOutput } from "../finish-tool.ts";
import { restoreCall, storedCallOf, readArguments } from "../tool-calls/parsed-call.ts";
import type { HookedCall } from "./rewrite-calls.ts";
import { removalReason } from "../../policies/context-notes.ts";
import type { ToolFailureCode } from "../../protocol/tool-failure.ts";
import type { RemovedTool } from "../../protocol/tool-rule.ts";

/** What is to become of the calls. */
export interface Plan {
  readonly calls: readonly PlannedCall[];
  /** How many calls were charged. Giving a result is none; what was put off has been charged before. */
  readonly charged: number;
  /** The typed result, if the model gave it. */
  readonly output: ParsedOutput | undefined;
  /** Set when a limit refused a call. */
  readonly refusal: BudgetRefusal | undefined;
}

/** What holds for all calls of a batch. */
export interface BatchTerms {
  /** The calls that hooks were asked about. `undefined` if there are no hooks before tool calls. */
  readonly hooked: ReadonlyMap<CallId, HookedCall> | undefined;
  /** The execution fails: none of the calls begins. */
  readonly isFailing: boolean;
  /** Why none of them begins: the caller has skipped them. */
  readonly skip: string | undefined;
  readonly onEnd: PlannedCall["onEnd"];
}

/** Checks and charges calls in their order: the first ones of the open step that have no result. */
export function planCalls(
  agent: AgentRuntime,
  state: AgentState,
  calls: readonly ToolCall[],
  terms: BatchTerms,
): Plan {
  const { tools } = agent;
  const { output: schema } = agent.role;
  const step = openStepOf(state);
  const { steps, failures } = state.log;
  const history: ParentHistory = { messages: state.conversation.messages, steps };
  const ofReply = step.reply?.message.toolCalls ?? [];
  const deferrals =
    step.deferrals.length === 0
      ? undefined
      : new Map(step.deferrals.map((one) => [one.callId, one]));
  const planned: PlannedCall[] = [];
  let charged = 0;
  let refusal: BudgetRefusal | undefined;
  let output: ParsedOutput | undefined;
  for (const call of calls) {
    const { callId, toolName } = call;
    const before = planned.at(-1);
    const tool = tools.find(toolName);
    const index = ofReply.indexOf(call, before === undefined ? 0 : before.index + 1);
    const deferral = deferrals?.get(callId);
    const answer = answerTo(agent, deferral);
    // One that was put off keeps the arguments that it had then.
    const hooked = terms.hooked?.get(callId);
    const { argumentsText } = hooked ?? deferral ?? call;
    const denial = hooked?.change?.type === "denied" ? hooked.change : undefined;
    let bound = terms.isFailing
      ? unbegunCall(tool)
      : boundCall(agent, step, { call, tool, argumentsText, hooked, deferral, skip: terms.skip });
    if (deferral !== undefined) {
      if (bound.type === "rejected") dropAnswer(agent, step, { call, deferral, answer });
    } else if (bound.type !== "finish" && bound.type !== "rejected" && denial === undefined) {
      const wasCharged = agent.persistence?.inFlight?.takeCharge() === true;
      const refused = wasCharged ? undefined : agent.account.chargeToolCall();
      if (refused === undefined) charged += 1;
      else bound = overLimit(refused, bound.tool);
      refusal ??= refused;
    }
    if (bound.type === "finish" && schema !== undefined) output = parsedOutput(schema, bound);
    const settings = tools.settingsOf(toolName);
    const isWatched = tool?.kind === "function" && settings.maxIdenticalCalls !== "unlimited";
    const countBefore = before?.index === index - 1 ? before.identicalCalls : undefined;
    planned.push({
      call,
      index,
      bound,
      denial,
      argumentsText,
      settings,
      retryCount: retriesOf(failures, toolName),
      identicalCalls: isWatched
        ? identicalCallsBefore(steps, { calls: ofReply, index, countBefore })
        : 0,
      delegatedRoles: NONE,
      history,
      deferral,
      answer,
      onEnd: terms.onEnd,
    });
  }
  return { calls: withDelegatedRoles(agent, state, planned), charged, output, refusal };
}

/** The delegations of the reply know of each other: they share what is left of the budget, and perhaps one's failure is the end of the others. */
function withDelegatedRoles(
  agent: AgentRuntime,
  state: AgentState,
  planned: readonly PlannedCall[],
): readonly PlannedCall[] {
  if (planned.every(({ bound }) => bound.type !== "delegation")) return planned;
  const ofBatch = planned.flatMap(({ bound }) =>
    bound.type === "delegation" ? rolesAskedFor(bound.input) : NONE,
  );
  const delegatedRoles = [...ofBatch, ...rolesOfOthers(agent, state, planned.length)];
  return planned.map((one) => (one.bound.type === "delegation" ? { ...one, delegatedRoles } : one));
}

/**
 * The roles that delegations of the reply name besides those of the batch, which has so many calls: of those that have started a subagent,
 * and of those to come.
 */
function rolesOfOthers(agent: AgentRuntime, state: AgentState, size: number): readonly string[] {
  const others = [...startedBefore(agent, openStepOf(state)), ...pendingCallsOf(state).slice(size)];
  return others
    .filter(({ toolName }) => agent.tools.find(toolName)?.kind === "delegation")
    .flatMap(({ argumentsText }) => rolesAskedFor(readArguments(argumentsText)));
}

/** The calls of the reply that have their result and had started a subagent: in an earlier batch, or before a pause. */
function startedBefore(
  { subagents }: AgentRuntime,
  { stepId, reply, executions }: OpenStep,
): readonly ToolCall[] {
  if (executions.length === 0) return NONE;
  const over = new Set(executions.map(({ call }) => call.callId));
  const starters = subagents.filter(({ spawnStepId }) => spawnStepId === stepId);
  const started = new Set(starters.map(({ spawnCallId }) => spawnCallId));
  const calls = reply?.message.toolCalls ?? [];
  return calls.filter(({ callId }) => over.has(callId) && started.has(callId));
}

const NONE: readonly never[] = Object.freeze([]);

/** The role that a delegation names, as `SpawnSubagent` does, or that of the subagent that continues; none: it is of another kind. */
function rolesAskedFor(input: unknown): readonly string[] {
  const { role, continue: childName } = isRecord(input) ? input : {};
  if (typeof role === "string") return [role];
  const [name = ""] = typeof childName === "string" ? childName.split("#") : [];
  return name === "" ? NONE : [name];
}

function answerTo({ run }: AgentRuntime, deferral: Deferral | undefined): Answer | undefined {
  return deferral?.type === "question" ? run.answers?.get(deferral.question.questionId) : undefined;
}

interface FoundCall {
  readonly call: ToolCall;
  readonly tool: Tool | undefined;
  readonly argumentsText: string;
  readonly hooked: HookedCall | undefined;
  readonly deferral: Deferral | undefined;
  readonly skip: string | undefined;
}

/** The call as its tool takes it, unless it may not begin. */
function boundCall(agent: AgentRuntime, step: OpenStep, found: FoundCall): BoundCall {
  const bound = boundOrWithheld(agent, step, found);
  const { call, hooked } = found;
  // No guard is asked about the typed result: a hook may deny it alone.
  if (bound.type === "finish" && hooked?.change?.type === "denied")
    return deniedCall(bound.tool, hooked.change);
  return bound.type === "rejected" ? cutShort(step, call, bound) : bound;
}

function boundOrWithheld(
  agent: AgentRuntime,
  step: OpenStep,
  { call: { toolName }, tool, argumentsText, hooked, deferral, skip }: FoundCall,
): BoundCall {
  if (hooked?.change?.type === "cancelled") return unbegunCall(tool);
  if (skip !== undefined) return skippedCall(tool, skip);
  if (tool === undefined) return missingCall(agent, step, toolName);
  const hidden = step.hiddenTools.length === 0 ? undefined : hiddenCall(agent, step, toolName);
  if (hidden === undefined && deferral !== undefined) return deferredCall(tool, deferral);
  const bound = hidden ?? bindCall(tool, argumentsText, isWholeReply(step));
  const unmended = hooked?.unmended;
  return unmended === undefined || bound.type === "rejected" ? bound : { ...bound, unmended };
}

/** Returns a call that waited, with the arguments that were parsed before. */
function deferredCall(tool: Tool, deferral: Deferral): BoundCall {
  if (deferral.type === "question") return restoreCall(tool, storedCallOf(deferral));
  // Its subagent has begun to work: the arguments are only recorded.
  const input = argumentsOf(deferral.argumentsText);
  return rebindCall(tool, input, deferral.parsedArguments ?? input);
}

/** The caller has skipped the call, and says why. */
function skippedCall(tool: Tool | undefined, skip: string): RejectedCall {
  return rejected(tool, "skipped", `Not executed: ${skip}`);
}

/** A call of a tool that the agent does not have. */
function missingCall(agent: AgentRuntime, step: OpenStep, toolName: string): RejectedCall {
  const removals = agent.toolLimits.removed.filter((removed) => removed.toolName === toolName);
  const offered = offeredNames(agent, step.hiddenTools);
  return removals.length > 0
    ? removedTool(toolName, removals, offered)
    : (hiddenCall(agent, step, toolName) ?? unknownTool(offered, toolName));
}

/** A call of a tool that a filter hides in the step; undefined: none does. */
function hiddenCall(
  agent: AgentRuntime,
  { hiddenTools }: OpenStep,
  toolName: string,
): RejectedCall | undefined {
  const filters = hiddenTools.filter((hidden) => hidden.toolName === toolName);
  if (filters.length === 0) return undefined;
  const text = `Not executed: ${toolName} is not available in this step. ${choiceOf(offeredNames(agent, hiddenTools))}`;
  const by = filters.map(({ filter }) => filter).join(", ");
  return rejected(agent.tools.find(toolName), "tool_not_available", text, by);
}

/** A rejected call with what the model would not know: the last call of a reply that its cap ended may be a part of one. */
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

function choiceOf(offered: readonly string[]): string {
  return offered.length === 0
    ? "You have no tools in this step; answer in text."
    : `Your tools are: ${offered.join(", ")}.`;
}

/** A tool of its role that the agent does not have, since a role above it forbids it (T4). */
function removedTool(
  toolName: string,
  removals: readonly RemovedTool[],
  offered: readonly string[],
): RejectedCall {
  const reasons = removals.map(removalReason).join("; ");
  const text = `Not executed: you cannot use ${toolName} (${reasons}). ${choiceOf(offered)}`;
  const by = [...new Set(removals.map(({ source }) => source))].join(", ");
  return rejected(undefined, "tool_not_available", text, by);
}

/** The tools that the model was shown in this step. */
function offeredNames(
  { tools }: AgentRuntime,
  hiddenTools: OpenStep["hiddenTools"],
): readonly string[] {
  if (hiddenTools.length === 0) return tools.names;
  const hidden = new Set(hiddenTools.map(({ toolName }) => toolName));
  return tools.names.filter((name) => !hidden.has(name));
}

/** A question about a call was answered, but the call cannot run any more: what was said is kept for audit. */
function dropAnswer(
  agent: AgentRuntime,
  { stepId }: OpenStep,
  { call, deferral, answer }: Pick<PlannedCall, "call" | "deferral" | "answer">,
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
      waitedMs: agent.run.clock.nowMs() - askedAtMs,
    },
    { stepId, callId: call.callId },
  );
}

/** The agent had to end, or fails, before the call. */
function unbegunCall(tool: Tool | undefined): RejectedCall {
  return rejected(tool, "not_executed", UNBEGUN_TEXT);
}

function overLimit(
  { axis, accountPath, maximum, kept }: BudgetRefusal,
  tool: Tool | undefined,
): RejectedCall {
  const rest = kept === undefined ? "" : `, but for ${kept} that it keeps for itself`;
  const text = `Not executed: the ${axis} budget of ${accountPath}, which is ${maximum}, is used up${rest}. Answer with what you have.`;
  return rejected(tool, axis === "wallTimeMs" ? "time_limit" : "tool_calls_limit", text);
}

function rejected(
  tool: Tool | undefined,
  code: ToolFailureCode,
  text: string,
  by?: string,
): RejectedCall {
  return { type: "rejected", tool, code, text, ...defined({ by }) };
}
