// What the model is to be shown: the sections of a request in their order. The stored history stays as it is (C17).

import type { ModelRequest, ToolSpec } from "../../model/model.ts";
import { sumAttachedBytes, toHistory } from "../../model/written-by.ts";
import { MOST_REQUEST_BYTES } from "../../protocol/message-content.ts";
import type { Message } from "../../protocol/message.ts";
import { type HiddenTool, findHiddenTools } from "../../tools/tool-filter.ts";
import type { AgentRole } from "../agent-role.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { getStepPosition, NO_PREFIX, type AgentState } from "../agent-state.ts";
import type { SectionMessages } from "./make-sections.ts";
import { deepFreeze, omitUndefined } from "../../kernel/json.ts";
import type { ToolChoice } from "../../protocol/model-settings.ts";
import { FINISH_TOOL_NAME } from "../../protocol/tool-rule.ts";
import { countHeadMessages } from "../../policies/message-groups.ts";
import { repairMessages } from "../../policies/message-repair.ts";
import { consultHooks } from "../consult.ts";
import { failWith } from "../stop-requests.ts";
import { countInputTokens } from "../../model/count-tokens.ts";

export interface Assembled {
  readonly request: ModelRequest;
  /** Bytes of attachments in the request. */
  readonly attachedBytes: number;
  /** True if the request shows the history as it is, sections or not. */
  readonly isFaithful: boolean;
  /** Messages of the history that it shows, if it shows it as it is. */
  readonly historyLength: number;
  /** The messages of sections, and those behind the history. `undefined` if no section says anything. */
  readonly ephemeral: ReadonlySet<Message> | undefined;
  readonly tail: readonly Message[] | undefined;
  /** Tools that are not in it, and the filters that took them away. */
  readonly hiddenTools: readonly HiddenTool[];
}

/** Returns the request that shows the history as it is, among the sections. Throws the coded error of a filter that broke. */
export function buildPlainRequest(
  agent: AgentRuntime,
  state: AgentState,
  made: SectionMessages | undefined,
): Assembled {
  const { role, tools: all, nativeOutputSchema: output } = agent;
  const { tools, hiddenTools } =
    role.toolFilters.length === 0
      ? { tools: all.specs, hiddenTools: NONE_HIDDEN }
      : filterStepTools(agent, state);
  const toolChoice =
    role.toolChoice === undefined ? undefined : resolveToolChoice(role.toolChoice, state, tools);
  const { temperature, modelSettings: settings } = role;
  const history = toHistory(state.conversation.messages, agent.model);
  const sections = made?.size === 0 ? undefined : made;
  const request: ModelRequest = {
    messages: sections === undefined ? history : buildRequestMessages(role, history, sections),
    tools,
    maxOutputTokens: role.maxOutputTokens,
    ...omitUndefined({ temperature, settings, toolChoice, output }),
  };
  return {
    request,
    attachedBytes: sumAttachedBytes(history),
    isFaithful: true,
    historyLength: state.conversation.messages.length,
    ephemeral: sections && new Set(sections.values()),
    tail: sections && collectTrailingMessages(role, sections),
    hiddenTools,
  };
}

const NONE_HIDDEN: readonly HiddenTool[] = Object.freeze([]);

/** The history, as far as the role's model may see it, with sections before and behind it, in the order that the role declares. */
function buildRequestMessages(
  { sections: declared }: Pick<AgentRole, "sections">,
  history: readonly Message[],
  sections: SectionMessages,
): readonly Message[] {
  const begin = history[0]?.role === "system" ? 1 : 0;
  return declared.flatMap(({ name }) => {
    if (name === "instructions") return history.slice(0, begin);
    if (name === "history") return history.slice(begin);
    return sections.get(name) ?? [];
  });
}

function collectTrailingMessages(
  { sections: declared }: AgentRole,
  sections: SectionMessages,
): readonly Message[] {
  const at = declared.findIndex(({ name }) => name === "history");
  return declared.slice(at).flatMap(({ name }) => sections.get(name) ?? []);
}

// Which tools a request offers, and how the model may choose, for roles that say so.

/** The tools that filters leave in this step; `Finish` is none of their business. */
function filterStepTools(agent: AgentRuntime, state: AgentState) {
  const { identity, role, tools } = agent;
  const { metadata } = agent.facts;
  const position = getStepPosition(agent, state);
  const names = tools.names.filter((name) => name !== FINISH_TOOL_NAME);
  const facts = deepFreeze({
    agentPath: identity.agentPath,
    depth: identity.depth,
    stepNumber: position.stepNumber,
    steps: state.log.steps,
    usage: state.telemetry.usage,
    remaining: { ...agent.account.remaining() },
    metadata,
  });
  const { context } = agent.run; // The user's own: never frozen.
  const removed = findHiddenTools(role.toolFilters, names, Object.freeze({ ...facts, context }));
  if (removed.length > 0) agent.record({ type: "tools.filtered", removed }, position);
  const hidden = new Set(removed.map(({ toolName }) => toolName));
  return { tools: tools.specs.filter(({ name }) => !hidden.has(name)), hiddenTools: removed };
}

/** The role's choice of tools, as far as they are offered. What forces a call holds for one step: an agent must be able to end. */
function resolveToolChoice(
  toolChoice: ToolChoice,
  { log }: AgentState,
  offered: readonly ToolSpec[],
): ToolChoice | undefined {
  if (offered.length === 0) return undefined;
  if (toolChoice === "auto" || toolChoice === "none") return toolChoice;
  if (log.steps.length > 0) return undefined;
  if (toolChoice === "required") return toolChoice;
  const isOffered = (name: string): boolean => offered.some((tool) => tool.name === name);
  if ("toolName" in toolChoice) return isOffered(toolChoice.toolName) ? toolChoice : undefined;
  const toolNames = toolChoice.toolNames.filter(isOffered);
  return toolNames.length === 0 ? undefined : { toolNames };
}

// A request as hooks change a copy of it. A list that they leave invalid is mended, so that no model sees one (R97).

/** Returns a state if there is no request: the agent fails, or was asked to end. */
export async function applyRequestHooks(
  agent: AgentRuntime,
  state: AgentState,
  plain: Assembled,
): Promise<Assembled | AgentState> {
  const position = getStepPosition(agent, state);
  const begin = countHeadMessages(plain.request.messages);
  const [first, ...further] = plain.request.messages.slice(0, begin);
  const instructions = first?.text ?? "";
  const others = deepFreeze(plain.request.messages.slice(begin));
  const hooked = await consultHooks(agent, {
    point: "beforeModel",
    stepNumber: position.stepNumber,
    position,
    input: { instructions, messages: others, steps: state.log.steps },
  });
  if (hooked?.type === "cancelled") return state;
  if (hooked?.type === "failed") return failWith(agent, state, hooked.error);
  const { patch = {} } = hooked?.value ?? {};
  const { temperature } = patch;
  const isChanged = patch.instructions !== undefined || patch.messages !== undefined;
  let { messages } = plain.request;
  if (isChanged) {
    const lead = [...createSystemMessages(patch.instructions ?? instructions), ...further];
    const repaired = repairMessages([...lead, ...(patch.messages ?? others)]);
    if (repaired.repairs.length > 0) {
      const types = [...new Set(repaired.repairs.map(({ type }) => type))];
      const repairCount = repaired.repairs.length;
      agent.record({ type: "request.repaired", repairCount, types }, position);
    }
    ({ messages } = repaired);
  }
  // Hooks may have put in what the model does not take, or taken out what was too much.
  messages = toHistory(messages, agent.model);
  const attachedBytes = sumAttachedBytes(messages);
  const request = { ...plain.request, messages, ...omitUndefined({ temperature }) };
  return { ...plain, request, attachedBytes, isFaithful: plain.isFaithful && !isChanged };
}

function createSystemMessages(text: string): readonly Message[] {
  return text === "" ? [] : [{ role: "system", text, origin: "instructions" }];
}

/** Returns how many input tokens a list of messages takes. */
export type MeasureTokens = (messages: readonly Message[], prefix?: typeof NO_PREFIX) => number;

/** Returns true if the role has a window and the request does not fit, or carries too much. */
export function isOverflowing(
  agent: AgentRuntime,
  { conversation }: AgentState,
  sections: SectionMessages | undefined,
): boolean {
  const { compaction } = agent.role;
  if (compaction === undefined || compaction.strategy === "error") return false;
  const { maxInputTokens = Infinity } = compaction;
  const seen = toHistory(conversation.messages, agent.model);
  if (sumAttachedBytes(seen) > MOST_REQUEST_BYTES) return true;
  if (maxInputTokens === Infinity) return false;
  return measureSeen(agent, sections)(seen, conversation.prefix) > maxInputTokens;
}

/** Returns the measure for a history among these sections. */
export function measure(agent: AgentRuntime, sections?: SectionMessages): MeasureTokens {
  const tokensOf = measureSeen(agent, sections);
  return (history, prefix) => tokensOf(toHistory(history, agent.model), prefix);
}

/** Returns the measure for what the model may see of a history. */
function measureSeen(
  { role, model, tools, nativeOutputSchema: output }: AgentRuntime,
  sections: SectionMessages | undefined,
): MeasureTokens {
  const ephemeral = sections && new Set(sections.values());
  const { maxOutputTokens } = role;
  return (history, prefix = NO_PREFIX) => {
    const messages =
      sections === undefined ? history : buildRequestMessages(role, history, sections);
    const request = { messages, tools: tools.specs, maxOutputTokens, ...omitUndefined({ output }) };
    return countInputTokens(model, request, prefix, ephemeral).tokens;
  };
}
