// Which of the calls may begin, and which have their result already: left out, denied, not there, not fitting, over a limit.

import { isRecord, type JsonValue } from "../../kernel/json.ts";
import { retriesOf } from "../../policies/failure-counts.ts";
import { removalReason } from "../../policies/context-notes.ts";
import { identicalCallsBefore } from "../../policies/identical-calls.ts";
import type { CallId } from "../../protocol/ids.ts";
import type { ToolCall } from "../../protocol/message.ts";
import type { ToolFailureCode } from "../../protocol/tool-failure.ts";
import type { RemovedTool } from "../../protocol/tool-rule.ts";
import { argumentsOf, bindCall, type BoundCall } from "../../tools/bind-call.ts";
import { deniedCall, UNBEGUN_TEXT, type RejectedCall } from "../../tools/rejected-call.ts";
import type { Tool } from "../../tools/tool.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import {
  openStepOf,
  pendingCallsOf,
  type AgentState,
  type Deferral,
  type OpenStep,
} from "../agent-state.ts";
import type { BudgetRefusal } from "../budget-gate.ts";
import type { PlannedCall } from "../effects.ts";
import type { Rewritten } from "./rewrite-calls.ts";

/** A call that was checked and admitted, or not. */
type CheckedCall = Omit<PlannedCall, "onEnd">;

/** What is to become of the calls. */
export interface Plan {
  readonly calls: readonly CheckedCall[];
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
  agent: AgentRuntime,
  state: AgentState,
  calls: readonly Rewritten[],
  { isFailing, skip }: Hold,
): Plan {
  const step = openStepOf(state);
  const places = placesIn(step);
  let charged = 0;
  let refusal: BudgetRefusal | undefined;
  let output: JsonValue | undefined;
  let before: Draft | undefined;
  const planned = calls.map((rewritten): CheckedCall => {
    const plan = drafted(agent, state, rewritten, { places, before });
    before = plan;
    const { deferral } = plan;
    const bound = isFailing
      ? unbegun(agent.tools.find(plan.call.toolName))
      : boundCall(agent, step, rewritten, skip);
    if (deferral?.type === "subagent") return { ...plan, bound };
    if (deferral !== undefined && bound.type === "rejected") dropAnswer(agent, step, plan);
    if (bound.type === "finish") output = bound.use;
    const isDenied = plan.denial !== undefined;
    const isFree =
      bound.type === "finish" || bound.type === "rejected" || isDenied || deferral !== undefined;
    const refused = isFree ? undefined : agent.chargeToolCall();
    if (refused !== undefined) {
      refusal ??= refused;
      return { ...plan, bound: overLimit(refused, bound.tool) };
    }
    if (!isFree) charged += 1;
    return { ...plan, bound };
  });
  return { calls: withGroup(agent, state, planned), charged, output, refusal };
}

/** Delegations know of each other: they share what is left of the budget, and perhaps one's failure is the end of the others. */
function withGroup(
  { tools }: AgentRuntime,
  state: AgentState,
  calls: readonly CheckedCall[],
): readonly CheckedCall[] {
  if (!calls.some(({ bound }) => bound.type === "delegation")) return calls;
  const planned = new Map(calls.map((one) => [one.call.callId, one]));
  const group = pendingCallsOf(state).flatMap((call) => {
    const { bound } = planned.get(call.callId) ?? {};
    if (bound !== undefined) return bound.type === "delegation" ? rolesAskedFor(bound.input) : [];
    const isLater = tools.find(call.toolName)?.kind === "delegation";
    return isLater ? rolesAskedFor(inputOf(call.argumentsText)) : [];
  });
  return calls.map((call) => (call.bound.type === "delegation" ? { ...call, group } : call));
}

/** The role that a delegation names, as `SpawnSubagent` does, or that of the subagent that goes on; none: it is of another kind. */
function rolesAskedFor(input: unknown): readonly string[] {
  const { role, continue: childName } = isRecord(input) ? input : {};
  if (typeof role === "string") return [role];
  const [name = ""] = typeof childName === "string" ? childName.split("#") : [];
  return name === "" ? [] : [name];
}

/** The arguments of a call that has not been looked at yet; undefined: they cannot be read. */
function inputOf(argumentsText: string): unknown {
  try {
    return argumentsOf(argumentsText);
  } catch {
    return undefined;
  }
}

type Draft = Omit<CheckedCall, "bound">;

/** Where the calls of a step stand: each is found at once, however many there are. */
interface Places {
  /** In the reply, from 0: a call is known by its place, also after a pause. */
  readonly indexes: ReadonlyMap<CallId, number>;
  readonly deferrals: ReadonlyMap<CallId, Deferral>;
}

function placesIn({ reply, deferrals }: OpenStep): Places {
  const calls = reply?.message.toolCalls ?? [];
  return {
    indexes: new Map(calls.map(({ callId }, index) => [callId, index])),
    deferrals: new Map(deferrals.map((deferral) => [deferral.callId, deferral])),
  };
}

/** Everything about a call but whether it may begin. `before`: the one that was drafted last. */
function drafted(
  agent: AgentRuntime,
  state: AgentState,
  { call, argumentsText, change }: Rewritten,
  { places, before }: { readonly places: Places; readonly before: Draft | undefined },
): Draft {
  const calls = openStepOf(state).reply?.message.toolCalls ?? [];
  const index = places.indexes.get(call.callId) ?? 0;
  const deferral = places.deferrals.get(call.callId);
  const countBefore = before?.index === index - 1 ? before.identicalCalls : undefined;
  const answer =
    deferral?.type === "question" ? agent.answerTo(deferral.question.questionId) : undefined;
  const settings = agent.tools.settingsOf(call.toolName);
  const isWatched = settings.maxIdenticalCalls !== "unlimited";
  const { steps } = state.log;
  return {
    call,
    argumentsText,
    denial: change?.type === "denied" ? change : undefined,
    index,
    settings,
    retryCount: retriesOf(state.log.failures, call.toolName),
    identicalCalls: isWatched ? identicalCallsBefore(steps, { calls, index, countBefore }) : 0,
    history: { messages: state.conversation.messages, steps },
    group: [],
    deferral,
    answer,
  };
}

function boundCall(
  agent: AgentRuntime,
  step: OpenStep,
  { call, argumentsText, change }: Rewritten,
  skip: string | undefined,
): BoundCall {
  const { hiddenTools } = step;
  const tool = agent.tools.find(call.toolName);
  if (change?.type === "cancelled") return unbegun(tool);
  if (skip !== undefined) return rejected("skipped", `Not executed: ${skip}`, { tool });
  const offered = offeredNames(agent, hiddenTools);
  const removals = agent.removedTools.filter(({ toolName }) => toolName === call.toolName);
  if (tool === undefined && removals.length > 0)
    return removedTool(call.toolName, removals, offered);
  const filters = hiddenTools.filter(({ toolName }) => toolName === call.toolName);
  if (filters.length === 0) {
    const bound = bindCall(agent.tools, { ...call, argumentsText }, offered);
    // No guard is asked about the typed result: a hook may deny it alone.
    if (bound.type === "finish" && change?.type === "denied") return deniedCall(bound.tool, change);
    return bound.type === "rejected" && isCutOff(step, call) ? cutCall(step, bound) : bound;
  }
  const text = `Not executed: ${call.toolName} is not available in this step. ${choiceOf(offered)}`;
  const by = filters.map(({ filter }) => filter).join(", ");
  return rejected("tool_not_available", text, { tool, by });
}

/** The last call of a reply that its cap ended may be a part of one. */
function isCutOff({ reply }: OpenStep, { callId }: ToolCall): boolean {
  return reply?.finishReason === "length" && reply.message.toolCalls.at(-1)?.callId === callId;
}

/** Why the arguments do not fit, which the model would not know. */
function cutCall({ context }: OpenStep, call: RejectedCall): RejectedCall {
  if (call.tool === undefined) return call;
  const { maxOutputTokens } = context.parameters;
  const cause = `Your reply was cut off at its limit of ${maxOutputTokens} output tokens, in the middle of this call. Write less.`;
  return { ...call, text: `${cause}\n${call.text}` };
}

function choiceOf(offered: readonly string[]): string {
  return offered.length === 0
    ? "You have no tools in this step; answer in text."
    : `Your tools are: ${offered.join(", ")}.`;
}

/** A tool of its role that the agent does not have, since somebody above it said so (T4). */
function removedTool(
  toolName: string,
  removals: readonly RemovedTool[],
  offered: readonly string[],
): RejectedCall {
  const reasons = removals.map(removalReason).join("; ");
  const text = `Not executed: you cannot use ${toolName} (${reasons}). ${choiceOf(offered)}`;
  const by = [...new Set(removals.map(({ source }) => source))].join(", ");
  return rejected("tool_not_available", text, { tool: undefined, by });
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
      waitedMs: agent.nowMs() - askedAtMs,
    },
    { stepId, callId: call.callId },
  );
}

/** The agent was told to end, or fails, before the call. */
function unbegun(tool: Tool | undefined): RejectedCall {
  return rejected("not_executed", UNBEGUN_TEXT, { tool });
}

function overLimit(
  { axis, accountPath, maximum, kept }: BudgetRefusal,
  tool: Tool | undefined,
): RejectedCall {
  const rest = kept === undefined ? "" : `, but for ${kept} that it keeps for itself`;
  const text = `Not executed: the ${axis} budget of ${accountPath}, which is ${maximum}, is used up${rest}. Answer with what you have.`;
  return rejected(axis === "wallTimeMs" ? "time_limit" : "tool_calls_limit", text, { tool });
}

function rejected(
  code: ToolFailureCode,
  text: string,
  { tool, by }: { readonly tool: Tool | undefined; readonly by?: string },
): RejectedCall {
  return { type: "rejected", tool, code, text, ...(by === undefined ? {} : { by }) };
}
