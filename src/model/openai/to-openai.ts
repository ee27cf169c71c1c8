// Writes requests as JSON text of Chat Completions. A history grows by a few messages per step and
// does not change otherwise. The text of each message and each list of tools is memoised by its
// object.

import type { AttachmentKind } from "../../protocol/attachment.ts";
import type { Message } from "../../protocol/message.ts";
import {
  getContentParts,
  createAttachmentHeading,
  sumAttachedBytes,
  hasContent,
  isPlain,
  filterForRecipient,
} from "../recipient-messages.ts";
import type { ModelRequest } from "../model.ts";
import { MemoizedList } from "../memoized-values.ts";
import { adaptCallId, type CallIdForm, stringifyForWire } from "../wire-text.ts";
import { getReplyPieces } from "../../protocol/reply-message.ts";
import {
  findReasoningField,
  writeExtraContent,
  writeReasoning,
  writeThinking,
  type ReasoningOption,
} from "./from-openai.ts";
import {
  repairArguments,
  buildRequestFields,
  stringifyFields,
  createToolsWriter,
  convertToWireParts,
} from "./request-fields.ts";
import type { RequestOptions } from "./answer-options.ts";

/** Names of the cap on output tokens. */
export type MaxTokensField = "max_completion_tokens" | "max_tokens";

export interface WireSettings {
  readonly modelId: string;
  readonly maxTokensField: MaxTokensField;
  /** Key of the model. The memoised texts contain the reasoning that this model may read. */
  readonly replayKey: string;
  readonly reasoningField: ReasoningOption;
  /** The server's rules for call ids, or `undefined` if none are known. */
  readonly callIdForm?: CallIdForm | undefined;
  /** Attachments that the model accepts besides text. */
  readonly inputModalities?: readonly AttachmentKind[] | undefined;
  readonly options: RequestOptions;
}

/**
 * Returns the body of a request. Fields that stay the same from step to step come first: a request
 * up to the end of its messages is a prefix of the next request, so that prompt caches hit.
 */
export function toOpenAi(
  request: ModelRequest,
  settings: WireSettings,
  isStreaming: boolean,
): string {
  const head = `{"model":${stringifyForWire(settings.modelId)}${textOfTools(request.tools, settings.options)},"messages":[`;
  const { replayKey, reasoningField } = settings;
  const shown = filterForRecipient(request.messages, settings);
  // If one reply has the field, DeepSeek, Kimi and GLM refuse other replies without it, also
  // replies of other models.
  const isThought = (message: Message): boolean =>
    message.role === "assistant" &&
    message.parts?.some(
      (part) => findReasoningField(part, reasoningField) === "reasoning_content",
    ) === true;
  const isFilled = !isPlain(shown) && shown.some(isThought);
  const written = getTextCache(`${isFilled} ${reasoningField} ${replayKey}`);
  const write = (message: Message): string =>
    stringifyForWire(convertToWireMessage(message, settings, isFilled));
  const messages = addAttachmentMessages(written.getAll(shown, write), shown, settings).join(",");
  const cap = `],"${settings.maxTokensField}":${request.maxOutputTokens}`;
  const fields = {
    ...buildRequestFields("chat_completions", request, settings.options),
    ...(isStreaming ? { stream: true, stream_options: { include_usage: true } } : {}),
    ...settings.options.extraBody,
  };
  return `${head}${messages}${cap}${stringifyFields(fields)}}`;
}

/**
 * Adds attachments of tool results, which can only be texts: they follow the last result of their
 * reply, as one user message.
 */
function addAttachmentMessages(
  written: readonly string[],
  messages: readonly Message[],
  { replayKey, callIdForm }: WireSettings,
): readonly string[] {
  if (sumAttachedBytes(messages) === 0) return written;
  const attached = getTextCache(`attached ${replayKey}`);
  const texts: string[] = [];
  let following: string[] = [];
  for (const [index, text] of written.entries()) {
    const message = messages[index];
    texts.push(text);
    if (message?.role !== "tool") continue;
    if (hasContent(message)) {
      const heading = createAttachmentHeading(
        message.toolName,
        adaptCallId(message.callId, callIdForm),
      );
      const write = (): string =>
        stringifyForWire(
          convertToWireParts("chat_completions", [heading, ...message.content]),
        ).slice(1, -1);
      following.push(...attached.getAll([message], write));
    }
    if (following.length === 0 || messages[index + 1]?.role === "tool") continue;
    texts.push(`{"role":"user","content":[${following.join(",")}]}`);
    following = [];
  }
  return texts;
}

const textOfTools = createToolsWriter(({ spec, strict }) => {
  const { name, description, inputSchema } = spec;
  const parameters =
    strict === undefined ? { parameters: inputSchema } : { parameters: strict, strict: true };
  return { type: "function", function: { name, description, ...parameters } };
});

/**
 * Memoised texts of messages and their attachments, by model and by whether replies without
 * reasoning have an empty field for it.
 */
const texts = new Map<string, MemoizedList<Message, string>>();

function getTextCache(form: string): MemoizedList<Message, string> {
  const written = texts.get(form) ?? new MemoizedList<Message, string>();
  texts.set(form, written);
  return written;
}

/** `isFilled`: replies without reasoning have the field too. */
function convertToWireMessage(message: Message, settings: WireSettings, isFilled: boolean): object {
  const { reasoningField, callIdForm } = settings;
  const { role, text } = message;
  if (role === "system") return { role, content: text };
  if (role === "tool")
    return { role, tool_call_id: adaptCallId(message.callId, callIdForm), content: text };
  if (role === "user") {
    const hasParts = message.content !== undefined;
    return {
      role,
      content: hasParts ? convertToWireParts("chat_completions", getContentParts(message)) : text,
    };
  }
  const pieces = getReplyPieces(message);
  let extra = {};
  const calls = pieces.flatMap((piece) => {
    if (piece.type === "text") extra = { ...extra, ...writeExtraContent(piece) };
    if (piece.type !== "call") return [];
    const { callId, toolName: name, argumentsText } = piece;
    const call = { name, arguments: repairArguments(argumentsText) ?? argumentsText };
    const id = adaptCallId(callId, callIdForm);
    return [{ id, type: "function", function: call, ...writeExtraContent(piece) }];
  });
  const saysOtherwise = calls.length > 0 || message.refusal !== undefined;
  return {
    role,
    content: writeThinking(pieces, reasoningField) ?? (text === "" && saysOtherwise ? null : text),
    refusal: message.refusal,
    ...(isFilled ? { reasoning_content: "" } : {}),
    ...writeReasoning(pieces, reasoningField),
    ...extra,
    tool_calls: calls.length === 0 ? undefined : calls,
  };
}
