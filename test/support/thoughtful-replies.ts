// Replies with every kind of part, and the parts of them that a later request contains, byte for
// byte as adapters receive them.

import { expect } from "vitest";

import type { ModelRequest } from "../../src/model/model.ts";
import {
  buildReplyMessage,
  getReplyPieces,
  type ReplyPiece,
} from "../../src/protocol/reply-message.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import type { AssistantMessage, Message, ProviderData } from "../../src/protocol/message.ts";
import type { ScriptedReply } from "../../src/testing/scripted-model.ts";

/**
 * Data whose order, empty parts, odd keys and length matter. It is as long as texts that journals
 * store separately.
 */
export function sealed(seal: string): ProviderData {
  return {
    zeta: {
      seal: `${seal}+/==`,
      long: seal.repeat(300),
      none: null,
      list: [3, "", { b: 1, a: 0 }],
    },
    alpha: { "10": 1e21, "2": -0.5, 'é\u2028\u0000"\\': "\u{1F600}", empty: {} },
  };
}

/**
 * Creates a reply with reasoning, text, a server-side search and tool calls with these ids. Every
 * encrypted value begins with the first id.
 */
export function thoughtPieces(...callIds: readonly [string, ...string[]]): readonly ReplyPiece[] {
  const [first] = callIds;
  return [
    { type: "reasoning", text: `Thought of ${first}.`, data: sealed(`${first}-r`) },
    { type: "text", text: "Looking. ", data: sealed(`${first}-t`) },
    { type: "opaque", kind: "zeta.search", data: sealed(`${first}-o`) },
    { type: "text", text: "Here." },
    { type: "reasoning", text: "", data: sealed(`${first}-e`) },
    ...callIds.map((id): ReplyPiece => {
      const callId = CallIdSchema().parse(id);
      const data = sealed(`${id}-c`);
      return { type: "call", callId, toolName: "look", argumentsText: '{ "at": 1 }', data };
    }),
  ];
}

export function thinks(...callIds: readonly [string, ...string[]]): ScriptedReply {
  return { pieces: thoughtPieces(...callIds) };
}

/** The message that it is kept as. */
export function thought(writtenBy: string, ...callIds: readonly [string, ...string[]]): Message {
  return { ...buildReplyMessage(thoughtPieces(...callIds)), writtenBy };
}

/** The same reply for any other model. */
export function seenByOthers(...callIds: readonly [string, ...string[]]): Message {
  const { role, text, toolCalls } = buildReplyMessage(thoughtPieces(...callIds));
  return { role, text, toolCalls };
}

export function result(callId: string, text = "look done"): Message {
  return { role: "tool", callId: CallIdSchema().parse(callId), toolName: "look", text };
}

/** Pieces in order, their data as text. */
function bytesOf(pieces: readonly ReplyPiece[]): readonly object[] {
  return pieces.map(({ data, ...piece }) => ({ ...piece, data: JSON.stringify(data) }));
}

function repliesOf(messages: readonly Message[]): readonly AssistantMessage[] {
  return messages.filter((message) => message.role === "assistant");
}

/** The request shows these messages, and replies with these pieces, byte for byte. */
export function expectSent(
  request: ModelRequest | undefined,
  messages: readonly Message[],
  pieces: readonly (readonly ReplyPiece[])[],
): void {
  expect(request?.messages).toEqual(messages);
  const sent = repliesOf(request?.messages ?? []).map((reply) => bytesOf(getReplyPieces(reply)));
  expect(sent).toEqual(pieces.map(bytesOf));
}
