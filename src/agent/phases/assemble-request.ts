// What the model is to be shown: the sections of a request in their order, and what hooks make of a copy of it. The stored history stays
// as it is (C17).

import { deepFreeze } from "../../kernel/json.ts";
import { estimateMessageTokens } from "../../model/count-tokens.ts";
import type { ModelRequest, ToolSpec } from "../../model/model.ts";
import { forModel } from "../../model/written-by.ts";
import { budgetLine } from "../../policies/budget-line.ts";
import { repairMessages } from "../../policies/message-repair.ts";
import type { Message } from "../../protocol/message.ts";
import type { ToolChoice } from "../../protocol/model-settings.ts";
import { hiddenTools, type HiddenTool } from "../../tools/tool-filter.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { AgentState } from "../agent-state.ts";
import type { Remaining } from "../budget-gate.ts";
import type { AgentRole } from "../agent-role.ts";
import { consultHooks } from "../consult-hooks.ts";
import { FINISH_TOOL_NAME } from "../finish-tool.ts";
import { failWith, stepPlace } from "../life-cycle.ts";
import { BUILT_IN_SECTIONS, type BuiltInSection } from "../request-sections.ts";
import type { SectionMessages } from "./make-sections.ts";

export interface Assembled {
  readonly type: "assembled";
  readonly request: ModelRequest;
  /** True if the request shows the history as it is, sections or not. */
  readonly isFaithful: boolean;
  /** Messages of the history that it shows, if it shows it as it is. */
  readonly historyLength: number;
  /** What else is in it, and which of that stands behind the history. */
  readonly asides: ReadonlySet<Message>;
  readonly tail: readonly Message[];
  /** Tools that are not in it, and the filters that took them away. */
  readonly hiddenTools: readonly HiddenTool[];
}

/** There is no request: the agent fails, or was told to end. */
export interface Held {
  readonly type: "held";
  readonly state: AgentState;
}

/** The request that shows the history as it is, among the sections. Throws the coded error of a filter that broke. */
export function plainRequest(
  agent: AgentRuntime,
  state: AgentState,
  sections: SectionMessages,
): Assembled {
  const { role, tools } = agent;
  const hiddenTools = role.toolFilters.length === 0 ? [] : hiddenNow(agent, state);
  const hidden = new Set(hiddenTools.map(({ toolName }) => toolName));
  const offered =
    hidden.size === 0 ? tools.specs : tools.specs.filter(({ name }) => !hidden.has(name));
  const toolChoice = toolChoiceNow(role, state, offered);
  const request: ModelRequest = {
    messages: requestMessages(role, state.conversation.messages, sections),
    tools: offered,
    maxOutputTokens: role.maxOutputTokens,
    ...(role.temperature === undefined ? {} : { temperature: role.temperature }),
    ...(role.modelSettings === undefined ? {} : { settings: role.modelSettings }),
    ...(toolChoice === undefined ? {} : { toolChoice }),
  };
  return {
    type: "assembled",
    request,
    isFaithful: true,
    historyLength: state.conversation.messages.length,
    asides: sections.size === 0 ? NOTHING : new Set(sections.values()),
    tail: behindHistory(role, sections),
    hiddenTools,
  };
}

const NOTHING: ReadonlySet<Message> = new Set();

/** The role's choice of tools, as far as they are offered. What forces a call holds for one step: an agent must be able to end. */
function toolChoiceNow(
  { toolChoice }: AgentRole,
  { log }: AgentState,
  offered: readonly ToolSpec[],
): ToolChoice | undefined {
  if (toolChoice === undefined || offered.length === 0) return undefined;
  if (toolChoice === "auto" || toolChoice === "none") return toolChoice;
  if (log.steps.length > 0) return undefined;
  if (toolChoice === "required") return toolChoice;
  const isOffered = (name: string): boolean => offered.some((tool) => tool.name === name);
  if ("tool" in toolChoice) return isOffered(toolChoice.tool) ? toolChoice : undefined;
  const oneOf = toolChoice.oneOf.filter(isOffered);
  return oneOf.length === 0 ? undefined : { oneOf };
}

/**
 * The history, as far as the role's model may see it, with sections before and behind it, in the order that the role declares. Without any,
 * and with nothing to hide: the same list.
 */
export function requestMessages(
  { sections: declared, model }: AgentRole,
  messages: readonly Message[],
  sections: SectionMessages,
): readonly Message[] {
  const history = forModel(messages, model);
  if (sections.size === 0) return history;
  const begin = history[0]?.role === "system" ? 1 : 0;
  return declared.flatMap(({ name }) => {
    if (name === "instructions") return history.slice(0, begin);
    if (name === "history") return history.slice(begin);
    return sections.get(name) ?? [];
  });
}

function behindHistory(
  { sections: declared }: AgentRole,
  sections: SectionMessages,
): readonly Message[] {
  if (sections.size === 0) return [];
  const at = declared.findIndex(({ name }) => name === "history");
  return declared.slice(at).flatMap(({ name }) => sections.get(name) ?? []);
}

/** What filters take away in this step; `Finish` is none of their business. */
function hiddenNow(agent: AgentRuntime, state: AgentState): readonly HiddenTool[] {
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
      remaining: { ...agent.account.remaining() },
      metadata,
    }),
  );
  if (removed.length > 0) agent.record({ type: "tools.filtered", removed }, place);
  return removed;
}

/** The request as hooks change a copy of it. A list that they leave invalid is mended, so that no model sees one (R97). */
export async function hookedRequest(
  agent: AgentRuntime,
  state: AgentState,
  plain: Assembled,
): Promise<Assembled | Held> {
  const { messages } = plain.request;
  const place = stepPlace(agent, state);
  const firstOther = messages.findIndex(({ role }) => role !== "system");
  const begin = firstOther === -1 ? messages.length : firstOther;
  const [first, ...further] = messages.slice(0, begin);
  const instructions = first?.text ?? "";
  const others = deepFreeze(begin === 0 ? messages : messages.slice(begin));
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
  const lead = [...system(patch.instructions ?? instructions), ...further];
  const { messages: changed, repairs } = repairMessages([...lead, ...(patch.messages ?? others)]);
  if (repairs.length > 0) {
    const types = [...new Set(repairs.map(({ type }) => type))];
    agent.record({ type: "request.repaired", repairs: repairs.length, types }, place);
  }
  return { ...plain, request: { ...request, messages: changed }, isFaithful: false };
}

function system(text: string): readonly Message[] {
  return text === "" ? [] : [{ role: "system", text, origin: "instructions" }];
}

/** What the model is told at the end of one request, by section. It is not kept in the history. */
export type Notices = { readonly [Name in BuiltInSection]?: string | undefined };

/** The request with the notices behind everything else, in the order of their sections. */
export function withNotices(request: ModelRequest, notices: Notices): ModelRequest {
  const told = BUILT_IN_SECTIONS.flatMap(({ name }): readonly Message[] => {
    const text = notices[name];
    return text === undefined ? [] : [{ role: "user", text, origin: "notice" }];
  });
  if (told.length === 0) return request;
  return deepFreeze({ ...request, messages: [...request.messages, ...told] });
}

/** The request of the last step that the budget allows: the model can do nothing but finish (R64, C6). */
export function closingRequest(request: ModelRequest): ModelRequest {
  const { toolChoice: _choice, ...rest } = request;
  const tools = request.tools.filter(({ name }) => name === FINISH_TOOL_NAME);
  return Object.freeze({ ...rest, tools });
}

/** The line that says what is left of the budget, for roles that show it; undefined: nothing is limited (X6). */
export function budgetNotice(
  { showBudget }: AgentRole,
  remaining: () => Remaining,
): string | undefined {
  return showBudget ? budgetLine(remaining()) : undefined;
}

/** A line may grow a little while its request waits for its lease: $0.01 becomes $0.0099. */
const LINE_SLACK_TOKENS = 2;

/** Tokens that the notices may add to a request. */
export function noticeTokens({ wrapUp, budget }: Notices): number {
  const line = budget === undefined ? 0 : estimateMessageTokens(budget) + LINE_SLACK_TOKENS;
  return line + (wrapUp === undefined ? 0 : estimateMessageTokens(wrapUp));
}
