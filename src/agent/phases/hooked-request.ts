// A request as hooks change a copy of it. A list that they leave invalid is mended, so that no model sees one (R97).

import { deepFreeze } from "../../kernel/json.ts";
import { repairMessages } from "../../policies/message-repair.ts";
import type { Message } from "../../protocol/message.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { stepPosition, type AgentState } from "../agent-state.ts";
import { consultHooks } from "../consult-hooks.ts";
import { failWith } from "../stop-requests.ts";
import type { Assembled, Held } from "./assemble-request.ts";

export async function hookedRequest(
  agent: AgentRuntime,
  state: AgentState,
  plain: Assembled,
): Promise<Assembled | Held> {
  const { messages } = plain.request;
  const place = stepPosition(agent, state);
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
    agent.effects.record({ type: "request.repaired", repairs: repairs.length, types }, place);
  }
  return { ...plain, request: { ...request, messages: changed }, isFaithful: false };
}

function system(text: string): readonly Message[] {
  return text === "" ? [] : [{ role: "system", text, origin: "instructions" }];
}
