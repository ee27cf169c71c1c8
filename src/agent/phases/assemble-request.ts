// What the model is to be shown: the history, and what hooks make of a copy of it. The stored history stays as it is (C17).

import { deepFreeze } from "../../kernel/json.ts";
import { estimateMessageTokens } from "../../model/count-tokens.ts";
import type { ModelRequest } from "../../model/model.ts";
import { budgetLine } from "../../policies/budget-line.ts";
import { repairMessages } from "../../policies/message-repair.ts";
import type { Message } from "../../protocol/message.ts";
import { hiddenTools, type HiddenTool } from "../../tools/tool-filter.ts";
import type { AgentContext } from "../agent-context.ts";
import type { AgentState } from "../agent-state.ts";
import type { Remaining } from "../budget-gate.ts";
import type { AgentRole } from "../agent-role.ts";
import { consultHooks } from "../consult-hooks.ts";
import { FINISH_TOOL_NAME } from "../finish-tool.ts";
import { failWith, stepPlace } from "../life-cycle.ts";

export interface Assembled {
  readonly type: "assembled";
  readonly request: ModelRequest;
  /** True if the request shows the history as it is. */
  readonly isFaithful: boolean;
  /** Tools that are not in it, and the filters that took them away. */
  readonly hiddenTools: readonly HiddenTool[];
}

/** There is no request: the agent fails, or was told to end. */
export interface Held {
  readonly type: "held";
  readonly state: AgentState;
}

/** The request that shows the history as it is. Throws the coded error of a filter that broke. */
export function plainRequest(agent: AgentContext, state: AgentState): Assembled {
  const { role, tools } = agent;
  const hiddenTools = role.toolFilters.length === 0 ? [] : hiddenNow(agent, state);
  const hidden = new Set(hiddenTools.map(({ toolName }) => toolName));
  const request: ModelRequest = {
    messages: state.conversation.messages,
    tools: hidden.size === 0 ? tools.specs : tools.specs.filter(({ name }) => !hidden.has(name)),
    maxOutputTokens: role.maxOutputTokens,
    ...(role.temperature === undefined ? {} : { temperature: role.temperature }),
  };
  return { type: "assembled", request, isFaithful: true, hiddenTools };
}

/** What filters take away in this step; `Finish` is none of their business. */
function hiddenNow(agent: AgentContext, state: AgentState): readonly HiddenTool[] {
  const { identity, role, tools, metadata } = agent;
  const place = stepPlace(agent, state);
  const names = tools.names.filter((name) => name !== FINISH_TOOL_NAME);
  const removed = hiddenTools(
    role.toolFilters,
    names,
    deepFreeze({
      agentPath: identity.agentPath,
      depth: identity.depth,
      stepNumber: place.stepNumber,
      steps: state.log.steps,
      usage: state.telemetry.usage,
      remaining: { ...agent.budget.remaining() },
      metadata,
    }),
  );
  if (removed.length > 0) agent.record({ type: "tools.filtered", removed }, place);
  return removed;
}

/** The request as hooks change a copy of it. A list that they leave invalid is mended, so that no model sees one. */
export async function hookedRequest(
  agent: AgentContext,
  state: AgentState,
  plain: Assembled,
): Promise<Assembled | Held> {
  const { messages } = state.conversation;
  const place = stepPlace(agent, state);
  const [first] = messages;
  const instructions = first?.role === "system" ? first.text : "";
  const others = deepFreeze(first?.role === "system" ? messages.slice(1) : messages);
  const hooked = await consultHooks(agent, {
    point: "beforeModel",
    stepNumber: place.stepNumber,
    place,
    input: { instructions, messages: others, steps: state.log.steps },
  });
  if (hooked === undefined) return plain;
  if (hooked.type === "cancelled") return { type: "held", state };
  if (hooked.type === "failed")
    return { type: "held", state: failWith(agent, state, hooked.error) };
  const { patch } = hooked;
  const { temperature } = patch;
  const request = temperature === undefined ? plain.request : { ...plain.request, temperature };
  if (patch.instructions === undefined && patch.messages === undefined)
    return { ...plain, request };
  const changed = [...system(patch.instructions ?? instructions), ...(patch.messages ?? others)];
  const { messages: shown, repairs } = repairMessages(changed);
  if (repairs.length > 0)
    agent.record({ type: "request.repaired", repairs: repairs.length }, place);
  return { ...plain, request: { ...request, messages: shown }, isFaithful: false };
}

function system(text: string): readonly Message[] {
  return text === "" ? [] : [{ role: "system", text, origin: "instructions" }];
}

/** The request of the last step that the budget allows: the model is told to finish, and can do nothing else (R64, C6). */
export function closingRequest({ wrapUp = "" }: AgentRole, request: ModelRequest): ModelRequest {
  const notice: Message = { role: "user", text: wrapUp, origin: "notice" };
  const tools = request.tools.filter(({ name }) => name === FINISH_TOOL_NAME);
  return deepFreeze({ ...request, messages: [...request.messages, notice], tools });
}

/** The line that says what is left of the budget, for roles that show it; undefined: nothing is limited (X6). */
export function budgetNotice(
  { showBudget }: AgentRole,
  remaining: () => Remaining,
): string | undefined {
  return showBudget ? budgetLine(remaining()) : undefined;
}

/** The request with the line at its end. It is not kept in the history. */
export function withBudgetNotice(request: ModelRequest, line: string | undefined): ModelRequest {
  if (line === undefined) return request;
  const notice: Message = { role: "user", text: line, origin: "notice" };
  return deepFreeze({ ...request, messages: [...request.messages, notice] });
}

/** A line may grow a little while its request waits for its lease: $0.01 becomes $0.0099. */
const LINE_SLACK_TOKENS = 2;

/** Tokens that the line may add to a request. */
export function budgetNoticeTokens(line: string | undefined): number {
  return line === undefined ? 0 : estimateMessageTokens(line) + LINE_SLACK_TOKENS;
}

/** Tokens that the notice may add to a request. */
export function noticeTokens({ wrapUp }: AgentRole): number {
  return wrapUp === undefined ? 0 : estimateMessageTokens(wrapUp);
}
