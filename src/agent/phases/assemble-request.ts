// Assembles a request from its sections in their order. The stored history does not change.

import type { ModelRequest, ToolSpec } from "../../model/model.ts";
import { sumAttachedBytes, toHistory } from "../../model/recipient-messages.ts";
import { MOST_REQUEST_BYTES } from "../../protocol/message-content.ts";
import type { Message } from "../../protocol/message.ts";
import { type HiddenTool, findHiddenTools } from "../../tools/tool-filter.ts";
import type { AgentRole } from "../agent-role.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { getStepPosition, NO_PREFIX, type AgentState } from "../agent-state.ts";
import type { SectionMessages } from "./create-sections.ts";
import { deepFreeze, omitUndefined } from "../../kernel/json.ts";
import type { ToolChoice } from "../../protocol/model-settings.ts";
import { FINISH_TOOL_NAME } from "../../protocol/tool-rule.ts";
import { countHeadMessages } from "../../policies/message-groups.ts";
import { repairMessages } from "../../policies/message-repair.ts";
import { consultHooks } from "../run-user-code.ts";
import { failWith } from "../stop-requests.ts";
import { countInputTokens } from "../../model/count-tokens.ts";

export interface Assembled {
  readonly request: ModelRequest;
  /** True if the request contains the history unchanged, with or without sections. */
  readonly isFaithful: boolean;
  /** Number of history messages in the request, if it contains the history unchanged. */
  readonly historyLength: number;
  /**
   * `ephemeral` are the messages of sections, and `tail` those that follow the history. `undefined`
   * if no section has a text.
   */
  readonly ephemeral: ReadonlySet<Message> | undefined;
  readonly tail: readonly Message[] | undefined;
  /** Hidden tools, and the filters that hide them. */
  readonly hiddenTools: readonly HiddenTool[];
}

/**
 * Returns the request with the unchanged history among the sections. Throws the coded error of a
 * filter that broke.
 */
export function buildPlainRequest(
  agent: AgentRuntime,
  state: AgentState,
  sectionMessages: SectionMessages | undefined,
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
  const sections = sectionMessages?.size === 0 ? undefined : sectionMessages;
  const request: ModelRequest = {
    messages: sections === undefined ? history : buildRequestMessages(role, history, sections),
    tools,
    maxOutputTokens: role.maxOutputTokens,
    ...omitUndefined({ temperature, settings, toolChoice, output }),
  };
  return {
    request,
    isFaithful: true,
    historyLength: state.conversation.messages.length,
    ephemeral: sections && new Set(sections.values()),
    tail: sections && collectTrailingMessages(role, sections),
    hiddenTools,
  };
}

const NONE_HIDDEN: readonly HiddenTool[] = Object.freeze([]);

/**
 * Returns the messages that the role's model may see, with the sections in their declared order.
 */
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

// Tools of a request, and tool choice.

/** Returns the tools that filters leave in this step. `Finish` is never filtered. */
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
  // The context belongs to the user and is never frozen.
  const { context } = agent.run;
  const removed = findHiddenTools(role.toolFilters, names, Object.freeze({ ...facts, context }));
  if (removed.length > 0) agent.record({ type: "tools.filtered", removed }, position);
  const hidden = new Set(removed.map(({ toolName }) => toolName));
  return { tools: tools.specs.filter(({ name }) => !hidden.has(name)), hiddenTools: removed };
}

/**
 * Returns the role's tool choice, limited to the offered tools. A forced call applies only to the
 * first step, because an agent must be able to end.
 */
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

// Requests that hooks changed. An invalid message list is repaired before it is sent.

/** Returns the request as changed by hooks, or a state if the agent fails or has to end. */
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
  // Hooks may have added content that the model does not accept, or removed content that exceeded a
  // limit.
  messages = toHistory(messages, agent.model);
  const request = { ...plain.request, messages, ...omitUndefined({ temperature }) };
  return { ...plain, request, isFaithful: plain.isFaithful && !isChanged };
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

/** Returns the token measure for a history among these sections. */
export function measure(agent: AgentRuntime, sections?: SectionMessages): MeasureTokens {
  const tokensOf = measureSeen(agent, sections);
  return (history, prefix) => tokensOf(toHistory(history, agent.model), prefix);
}

/** Returns the token measure for messages that are already in the form for the model. */
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
