// Makes a list of messages valid again after it was changed, so that no provider refuses it (R97). Pure.

import { deepFreeze } from "../kernel/json.ts";
import type { CallId } from "../protocol/ids.ts";
import type {
  AssistantMessage,
  Message,
  ToolCall,
  ToolMessage,
  UserMessage,
} from "../protocol/message.ts";
import { headLength } from "./message-groups.ts";

/** What was done to make a list valid. */
export type MessageRepair =
  | {
      /**
       * `dropped_result`: no call asked for it before it, or it was the second. `added_result`: the call had none, and got one that
       * says so. `moved_result`: it stood apart from its reply, or out of call order. `dropped_call`: its reply had one of that id.
       */
      readonly type: "dropped_result" | "added_result" | "moved_result" | "dropped_call";
      readonly callId: CallId;
    }
  | {
      /** `moved_system_message`: it stood after others. `added_notice`: the list ended with nothing to answer. */
      readonly type: "moved_system_message" | "added_notice";
    };

/** A list to which `checkMessages` has no objection, and what it took to get there. */
export interface RepairedMessages {
  readonly messages: readonly Message[];
  readonly repairs: readonly MessageRepair[];
}

/**
 * The same messages, with the least change that makes them valid: instructions first; right after each reply one result for each
 * of its calls, in call order; something to answer at the end. A result belongs to the nearest reply before it that made
 * its call; of two the first counts. A valid list is returned as it is, the same reference; the given messages are never changed.
 */
export function repairMessages(messages: readonly Message[]): RepairedMessages {
  const repairs: MessageRepair[] = [];
  const turns = turnsOf(systemFirst(messages, repairs), repairs);
  const repaired = turns.flatMap((turn) => repairTurn(turn, repairs));
  const last = repaired.at(-1)?.role;
  if (last !== "user" && last !== "tool") {
    repaired.push(NOTHING_TO_ANSWER);
    repairs.push({ type: "added_notice" });
  }
  return { messages: repairs.length === 0 ? messages : repaired, repairs };
}

const NOTHING_TO_ANSWER: UserMessage = deepFreeze({
  role: "user",
  text: "Continue.",
  origin: "notice",
});

function systemFirst(messages: readonly Message[], repairs: MessageRepair[]): readonly Message[] {
  const head = headLength(messages);
  const late = messages.slice(head).filter((message) => message.role === "system");
  if (late.length === 0) return messages;
  for (const _message of late) repairs.push({ type: "moved_system_message" });
  const others = messages.slice(head).filter((message) => message.role !== "system");
  return [...messages.slice(0, head), ...late, ...others];
}

/** A message that is no result, with the results that belong to it, in the order in which they came. */
interface Turn {
  readonly message: Exclude<Message, ToolMessage>;
  readonly results: Map<CallId, FoundResult>;
}

interface FoundResult {
  readonly message: ToolMessage;
  /** Other messages than results stood between it and its reply. */
  readonly isApart: boolean;
}

function turnsOf(messages: readonly Message[], repairs: MessageRepair[]): readonly Turn[] {
  const turns: Turn[] = [];
  const askers = new Map<CallId, Turn>();
  for (const message of messages) {
    if (message.role === "tool") {
      const { callId } = message;
      const asker = askers.get(callId);
      if (asker === undefined || asker.results.has(callId))
        repairs.push({ type: "dropped_result", callId });
      else asker.results.set(callId, { message, isApart: asker !== turns.at(-1) });
      continue;
    }
    const turn: Turn = { message, results: new Map() };
    turns.push(turn);
    for (const { callId } of callsOf(message)) askers.set(callId, turn);
  }
  return turns;
}

function repairTurn({ message, results }: Turn, repairs: MessageRepair[]): readonly Message[] {
  if (message.role !== "assistant") return [message];
  const reply = dropTwinCalls(message, repairs);
  const arrived = [...results.keys()];
  const inCallOrder = reply.toolCalls.filter((call) => results.has(call.callId));
  for (const [index, { callId }] of inCallOrder.entries()) {
    if (arrived[index] !== callId || results.get(callId)?.isApart === true)
      repairs.push({ type: "moved_result", callId });
  }
  return [reply, ...reply.toolCalls.map((call) => findResult(call, results, repairs))];
}

function findResult(
  { callId, toolName }: ToolCall,
  results: Turn["results"],
  repairs: MessageRepair[],
): ToolMessage {
  const found = results.get(callId);
  if (found !== undefined) return found.message;
  repairs.push({ type: "added_result", callId });
  const text = "The result of this call is no longer available.";
  return Object.freeze({ role: "tool", callId, toolName, text });
}

/** The reply with the first call of each id only. */
function dropTwinCalls(reply: AssistantMessage, repairs: MessageRepair[]): AssistantMessage {
  const seen = new Set<CallId>();
  const toolCalls: ToolCall[] = [];
  for (const call of reply.toolCalls) {
    if (seen.has(call.callId)) repairs.push({ type: "dropped_call", callId: call.callId });
    else toolCalls.push(call);
    seen.add(call.callId);
  }
  return toolCalls.length === reply.toolCalls.length ? reply : { ...reply, toolCalls };
}

function callsOf(message: Message): readonly ToolCall[] {
  return message.role === "assistant" ? message.toolCalls : [];
}
