// Our request as the JSON text of a Responses request. Stateless: nothing is kept at the provider, and no item has an id, so that a
// history can be forked, compacted and sent from anywhere. Each message is written once for as long as it lives; what of it another
// model wrote has been taken out before, and so stands in another value, with a text of its own.

import type { AssistantMessage, Message } from "../../protocol/message.ts";
import { contentParts, type ContentMessage } from "../accepted-content.ts";
import type { ModelRequest } from "../model.ts";
import { RememberedEach } from "../remembered.ts";
import { RESPONSES_CALL_ID, sentCallId } from "../sent-call-id.ts";
import { wireText } from "../well-formed.ts";
import { replyPieces, type ReplyPiece } from "../../protocol/reply-message.ts";
import type { HeldTool } from "../held-tools.ts";
import { mendedArguments } from "./mended-arguments.ts";
import { responsesFields, textOfFields, toolsWriter } from "./request-fields.ts";
import type { WireSettings } from "./to-openai.ts";
import { responsesParts } from "./wire-content.ts";
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
  const input = writtenItems.of(request.messages, textOfItems).filter((text) => text !== "");
  const fields = {
    ...responsesFields(request, options),
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
function wireTool({ spec, strict }: HeldTool): object {
  const { name, description, inputSchema } = spec;
  const descriptor = { type: "function", name, description };
  return { ...descriptor, parameters: strict ?? inputSchema, strict: strict !== undefined };
}

const textOfTools = toolsWriter(wireTool);

/** The items of a message, without the brackets around them; a reply that said nothing has none. */
function textOfItems(message: Message): string {
  return wireText(itemsOf(message)).slice(1, -1);
}

function itemsOf(message: Message): readonly object[] {
  switch (message.role) {
    case "system":
      return [{ role: "developer", content: message.text }];
    case "user":
      return [{ role: "user", content: contentOf(message) }];
    case "tool":
      return [
        {
          type: "function_call_output",
          call_id: sentId(message.callId),
          output: contentOf(message),
        },
      ];
    case "assistant":
      return replyItems(message);
  }
}

function contentOf(message: ContentMessage): string | readonly object[] {
  return message.content === undefined ? message.text : responsesParts(contentParts(message));
}

function replyItems(message: AssistantMessage): readonly object[] {
  const items = replyPieces(message).flatMap(pieceItems);
  const { refusal } = message;
  return refusal === undefined ? items : [...items, { role: "assistant", content: refusal }];
}

function pieceItems(piece: ReplyPiece): readonly object[] {
  const own = ownData(piece.data, NAMESPACE);
  switch (piece.type) {
    case "reasoning": {
      const { encrypted_content, summary } = own;
      if (typeof encrypted_content !== "string") return [];
      return [{ type: "reasoning", summary: summaryOf(piece.text, summary), encrypted_content }];
    }
    case "text": {
      const { phase } = own;
      return [
        { role: "assistant", content: piece.text, ...(phase === undefined ? {} : { phase }) },
      ];
    }
    case "call": {
      const { callId, toolName, argumentsText } = piece;
      const args = mendedArguments(argumentsText) ?? argumentsText;
      return [{ type: "function_call", call_id: sentId(callId), name: toolName, arguments: args }];
    }
    case "opaque":
      return own["type"] === piece.kind ? [own] : [];
  }
}

function sentId(callId: string): string {
  return sentCallId(callId, RESPONSES_CALL_ID);
}

/** The parts of a summary; `lengths` are kept where it is not the text as one. */
function summaryOf(text: string, lengths: unknown): readonly object[] {
  const texts = Array.isArray(lengths) ? slices(text, lengths) : text === "" ? [] : [text];
  return texts.map((part) => ({ type: "summary_text", text: part }));
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
