// What the model is to be shown: the sections of a request in their order. The stored history stays as it is (C17).

import type { ModelRequest } from "../../model/model.ts";
import { forModel } from "../../model/written-by.ts";
import type { Message } from "../../protocol/message.ts";
import type { HiddenTool } from "../../tools/tool-filter.ts";
import type { AgentRole } from "../agent-role.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { AgentState } from "../agent-state.ts";
import type { SectionMessages } from "./make-sections.ts";
import { filteredTools, toolChoiceNow } from "./offered-tools.ts";

export interface Assembled {
  readonly type: "assembled";
  readonly request: ModelRequest;
  /** True if the request shows the history as it is, sections or not. */
  readonly isFaithful: boolean;
  /** Messages of the history that it shows, if it shows it as it is. */
  readonly historyLength: number;
  /** What else is in it, and which of that stands behind the history. */
  readonly ephemeral: ReadonlySet<Message>;
  readonly tail: readonly Message[];
  /** Tools that are not in it, and the filters that took them away. */
  readonly hiddenTools: readonly HiddenTool[];
}

/** There is no request: the agent fails, or was asked to end. */
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
  const { role, tools: all } = agent;
  const { tools, hiddenTools } =
    role.toolFilters.length === 0
      ? { tools: all.specs, hiddenTools: NONE_HIDDEN }
      : filteredTools(agent, state);
  const toolChoice =
    role.toolChoice === undefined ? undefined : toolChoiceNow(role.toolChoice, state, tools);
  const request: ModelRequest = {
    messages: requestMessages(role, state.conversation.messages, sections),
    tools,
    maxOutputTokens: role.maxOutputTokens,
    ...(role.temperature === undefined ? {} : { temperature: role.temperature }),
    ...(role.modelSettings === undefined ? {} : { settings: role.modelSettings }),
    ...(toolChoice === undefined ? {} : { toolChoice }),
  };
  const hasSections = sections.size > 0;
  return {
    type: "assembled",
    request,
    isFaithful: true,
    historyLength: state.conversation.messages.length,
    ephemeral: hasSections ? new Set(sections.values()) : NOTHING,
    tail: hasSections ? behindHistory(role, sections) : [],
    hiddenTools,
  };
}

const NONE_HIDDEN: readonly HiddenTool[] = Object.freeze([]);
const NOTHING: ReadonlySet<Message> = new Set();

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
  const at = declared.findIndex(({ name }) => name === "history");
  return declared.slice(at).flatMap(({ name }) => sections.get(name) ?? []);
}
