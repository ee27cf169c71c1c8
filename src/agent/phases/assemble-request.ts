// What the model is to be shown: the history, and what hooks make of a copy of it. The stored history stays as it is (C17).

import { deepFreeze } from "../../kernel/json.ts";
import { estimateMessageTokens } from "../../model/count-tokens.ts";
import type { ModelRequest } from "../../model/model.ts";
import { repairMessages } from "../../policies/message-repair.ts";
import type { Message } from "../../protocol/message.ts";
import type { AgentContext } from "../agent-context.ts";
import type { AgentState } from "../agent-state.ts";
import type { AgentRole } from "../agent-role.ts";
import { consultHooks } from "../consult-hooks.ts";
import { FINISH_TOOL_NAME } from "../finish-tool.ts";
import { failWith, stepPlace } from "../life-cycle.ts";

export interface Assembled {
  readonly type: "assembled";
  readonly request: ModelRequest;
  /** True if the request shows the history as it is. */
  readonly isFaithful: boolean;
}

/** Builds the request. Hooks may change a copy of the messages; a list that they leave invalid is mended, so that no model sees one. */
export async function assembleRequest(
  agent: AgentContext,
  state: AgentState,
): Promise<Assembled | { readonly type: "held"; readonly state: AgentState }> {
  const { role, tools } = agent;
  const { messages } = state.conversation;
  const request: ModelRequest = {
    messages,
    tools: tools.specs,
    maxOutputTokens: role.maxOutputTokens,
    ...(role.temperature === undefined ? {} : { temperature: role.temperature }),
  };
  const place = stepPlace(agent, state);
  const [first, ...rest] = messages;
  const others = deepFreeze(rest);
  const instructions = first?.role === "system" ? first.text : "";
  const hooked = await consultHooks(agent, {
    point: "beforeModel",
    stepNumber: place.stepNumber,
    place,
    input: {
      instructions,
      messages: first?.role === "system" ? others : messages,
      steps: state.log.steps,
    },
  });
  if (hooked === undefined) return { type: "assembled", request, isFaithful: true };
  if (hooked.type === "cancelled") return { type: "held", state };
  if (hooked.type === "failed")
    return { type: "held", state: failWith(agent, state, hooked.error) };
  const { patch } = hooked;
  const { temperature } = patch;
  const warmed = temperature === undefined ? request : { ...request, temperature };
  if (patch.instructions === undefined && patch.messages === undefined)
    return { type: "assembled", request: warmed, isFaithful: true };
  const changed = [
    ...system(patch.instructions ?? instructions),
    ...(patch.messages ?? (first?.role === "system" ? others : messages)),
  ];
  const { messages: shown, repairs } = repairMessages(changed);
  if (repairs.length > 0)
    agent.record({ type: "request.repaired", repairs: repairs.length }, place);
  return { type: "assembled", request: { ...warmed, messages: shown }, isFaithful: false };
}

function system(text: string): readonly Message[] {
  return text === "" ? [] : [{ role: "system", text, origin: "instructions" }];
}

/** The request of the last step that the budget allows: the model is told to finish, and can do nothing else (R64, C6). */
export function closingRequest({ wrapUp = "" }: AgentRole, request: ModelRequest): ModelRequest {
  const notice: Message = { role: "user", text: wrapUp, origin: "notice" };
  const tools = request.tools.filter(({ name }) => name === FINISH_TOOL_NAME);
  return { ...request, messages: [...request.messages, notice], tools };
}

/** Tokens that the notice may add to a request. */
export function noticeTokens({ wrapUp }: AgentRole): number {
  return wrapUp === undefined ? 0 : estimateMessageTokens(wrapUp);
}
