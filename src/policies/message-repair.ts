// Makes a changed list of messages valid again, so that no provider refuses the list. Pure.

import { deepFreeze } from "../kernel/json.ts";
import type { CallId } from "../protocol/ids.ts";
import type {
  AssistantMessage,
  Message,
  ToolCall,
  ToolMessage,
  UserMessage,
} from "../protocol/message.ts";
import { countHeadMessages } from "./message-groups.ts";

/** A change that made a list valid. */
export type MessageRepair =
  | {
      /**
       * `dropped_result`: no earlier reply made the call, or the call already had a result.
       * `added_result`: the call had no result and got a placeholder.
       * `moved_result`: the result did not follow its reply directly, or was out of call order.
       * `dropped_call`: the reply had two calls with this id.
       */
      readonly type: "dropped_result" | "added_result" | "moved_result" | "dropped_call";
      readonly callId: CallId;
    }
  | {
      /**
       * `moved_system_message`: the message followed other messages.
       * `added_notice`: the list did not end with a message that the model can answer.
       */
      readonly type: "moved_system_message" | "added_notice";
    };

/** A valid list by `findMessageProblems`, and the repairs that it took. */
export interface RepairedMessages {
  readonly messages: readonly Message[];
  readonly repairs: readonly MessageRepair[];
}

/**
 * Returns the messages with the smallest change that makes them valid. Instructions come first,
 * each reply is followed by one result per call in call order, and the list ends with a user
 * message or a result.
 *
 * A result belongs to the nearest earlier reply that made its call. The first of several results
 * counts. Returns the same list if it is valid, and never changes the given messages.
 */
export function repairMessages(messages: readonly Message[]): RepairedMessages {
  const repairs: MessageRepair[] = [];
  const turns = collectTurns(moveSystem(messages, repairs), repairs);
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

function moveSystem(messages: readonly Message[], repairs: MessageRepair[]): readonly Message[] {
  const head = countHeadMessages(messages);
  const late = messages.slice(head).filter((message) => message.role === "system");
  if (late.length === 0) return messages;
  for (const _message of late) repairs.push({ type: "moved_system_message" });
  const others = messages.slice(head).filter((message) => message.role !== "system");
  return [...messages.slice(0, head), ...late, ...others];
}

/** A message other than a result, with the results that belong to it in order of arrival. */
interface Turn {
  readonly message: Exclude<Message, ToolMessage>;
  readonly results: Map<CallId, FoundResult>;
}

interface FoundResult {
  readonly message: ToolMessage;
  /** True if other messages were between the result and its reply. */
  readonly isApart: boolean;
}

function collectTurns(messages: readonly Message[], repairs: MessageRepair[]): readonly Turn[] {
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
    for (const { callId } of getCalls(message)) askers.set(callId, turn);
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
  const result = results.get(callId);
  if (result !== undefined) return result.message;
  repairs.push({ type: "added_result", callId });
  const text = "The result of this call is no longer available.";
  return Object.freeze({ role: "tool", callId, toolName, text });
}

/** Returns the reply with only the first call of each id. */
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

function getCalls(message: Message): readonly ToolCall[] {
  return message.role === "assistant" ? message.toolCalls : [];
}
