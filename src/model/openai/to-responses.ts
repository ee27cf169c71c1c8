// Our request as the JSON text of a Responses request. Stateless: nothing is kept at the provider, and no item has an id, so that a
// history can be forked, compacted and sent from anywhere. Each message is written once for as long as it lives; what of it another
// model wrote has been taken out before, and so stands in another value, with a text of its own.

import type { Message } from "../../protocol/message.ts";
import { contentParts } from "../written-by.ts";
import type { ModelRequest } from "../model.ts";
import { RememberedEach } from "../remembered.ts";
import { RESPONSES_CALL_ID, sentCallId, wireText } from "../well-formed.ts";
import { replyPieces, type ReplyPiece } from "../../protocol/reply-message.ts";
import {
  mendedArguments,
  requestFields,
  textOfFields,
  toolsWriter,
  wireParts,
} from "./request-fields.ts";
import type { WireSettings } from "./to-openai.ts";
import { ownData } from "../wire-json.ts";

/** Under this name our data stands in `ReplyPart.data`. */
export const NAMESPACE = "openai";

/**
 * The body of a request. What stays the same from step to step comes first: the text of one request, up to the end of its
 * input, is a prefix of the next one, so that prompt caches hit. Nothing of `request.messages` may be what the model is not to see.
 * `isSealed`: whether reasoning is asked for in the form in which it can be sent back; models without reasoning refuse to be asked.
 */
export function toResponses(
  request: ModelRequest,
  { modelId, options }: Pick<WireSettings, "modelId" | "options">,
  isStreaming: boolean,
  isSealed: boolean,
): string {
  const head = `{"model":${wireText(modelId)}${textOfTools(request.tools, options)},"input":[`;
  const input = writtenItems.of(request.messages, writeItems).filter((text) => text !== "");
  const fields = {
    ...requestFields("responses", request, options),
    store: false,
    ...(isSealed ? { include: ["reasoning.encrypted_content"] } : {}),
    ...(isStreaming ? { stream: true, stream_options: { include_obfuscation: false } } : {}),
    ...options.extraBody,
  };
  const cap = `],"max_output_tokens":${request.maxOutputTokens}`;
  return `${head}${input.join(",")}${cap}${textOfFields(fields)}}`;
}

const writtenItems = new RememberedEach<Message, string>();

/** A tool of which nothing is said is strict here, unlike in Chat Completions. */
const textOfTools = toolsWriter(({ spec, strict }) => {
  const { name, description, inputSchema } = spec;
  const parameters = strict ?? inputSchema;
  return { type: "function", name, description, parameters, strict: strict !== undefined };
});

/** Returns the items of a message without the brackets around them; a reply that said nothing has none. */
function writeItems(message: Message): string {
  return wireText(toItems(message)).slice(1, -1);
}

function toItems(message: Message): readonly object[] {
  const { role, text } = message;
  if (role === "system") return [{ role: "developer", content: text }];
  if (role === "assistant") {
    const items = replyPieces(message).flatMap(toItem);
    const { refusal } = message;
    return refusal === undefined ? items : [...items, { role, content: refusal }];
  }
  const hasParts = message.content !== undefined;
  const content = hasParts ? wireParts("responses", contentParts(message)) : text;
  if (role === "user") return [{ role, content }];
  const call_id = sentCallId(message.callId, RESPONSES_CALL_ID);
  return [{ type: "function_call_output", call_id, output: content }];
}

function toItem(piece: ReplyPiece): readonly object[] {
  const own = ownData(piece.data, NAMESPACE);
  switch (piece.type) {
    case "reasoning": {
      const { encrypted_content, summary } = own;
      if (typeof encrypted_content !== "string") return [];
      // Lengths are kept where the summary is not the text as one part.
      const whole = piece.text === "" ? [] : [piece.text];
      const texts = Array.isArray(summary) ? slices(piece.text, summary) : whole;
      const parts = texts.map((text) => ({ type: "summary_text", text }));
      return [{ type: "reasoning", summary: parts, encrypted_content }];
    }
    case "text": {
      const phase = own["phase"] === undefined ? {} : { phase: own["phase"] };
      return [{ role: "assistant", content: piece.text, ...phase }];
    }
    case "call": {
      const { callId, toolName: name, argumentsText } = piece;
      const args = mendedArguments(argumentsText) ?? argumentsText;
      const call_id = sentCallId(callId, RESPONSES_CALL_ID);
      return [{ type: "function_call", call_id, name, arguments: args }];
    }
    case "opaque":
      return own["type"] === piece.kind ? [own] : [];
  }
}

/** What stands between the parts of a summary in the text of their piece. */
export const BETWEEN_SUMMARIES = "\n\n";

function slices(text: string, lengths: readonly unknown[]): readonly string[] {
  let from = 0;
  return lengths.map((length) => {
    const part = text.slice(from, from + Number(length));
    from += part.length + BETWEEN_SUMMARIES.length;
    return part;
  });
}
