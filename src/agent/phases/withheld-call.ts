// Calls that may not begin: left out, removed, hidden in the step, over a limit, or not there at all.

import { defined } from "../../kernel/json.ts";
import { removalReason } from "../../policies/context-notes.ts";
import type { ToolCall } from "../../protocol/message.ts";
import type { ToolFailureCode } from "../../protocol/tool-failure.ts";
import type { RemovedTool } from "../../protocol/tool-rule.ts";
import { UNBEGUN_TEXT, unknownTool, type RejectedCall } from "../../tools/rejected-call.ts";
import type { Tool } from "../../tools/tool.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { OpenStep } from "../agent-state.ts";
import type { BudgetRefusal } from "../account-view.ts";
import type { PlannedCall } from "../effects.ts";

/** The caller has skipped the call, and says why. */
export function skippedCall(tool: Tool | undefined, skip: string): RejectedCall {
  return rejected(tool, "skipped", `Not executed: ${skip}`);
}

/** A call of a tool that the agent does not have. */
export function missingCall(agent: AgentRuntime, step: OpenStep, toolName: string): RejectedCall {
  const removals = agent.toolLimits.removed.filter((removed) => removed.toolName === toolName);
  const offered = offeredNames(agent, step.hiddenTools);
  return removals.length > 0
    ? removedTool(toolName, removals, offered)
    : (hiddenCall(agent, step, toolName) ?? unknownTool(offered, toolName));
}

/** A call of a tool that a filter hides in the step; undefined: none does. */
export function hiddenCall(
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
export function cutShort(
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
export function dropAnswer(
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
export function unbegunCall(tool: Tool | undefined): RejectedCall {
  return rejected(tool, "not_executed", UNBEGUN_TEXT);
}

export function overLimit(
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
