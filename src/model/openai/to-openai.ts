// Our request as the JSON text of a Chat Completions request. A history grows by a few messages a step and never changes
// otherwise, so each message and each list of tools is written once and the text is kept for as long as the value lives.

import type { AttachmentKind } from "../../protocol/attachment.ts";
import type { Message } from "../../protocol/message.ts";
import {
  getContentParts,
  createAttachmentHeading,
  sumAttachedBytes,
  hasContent,
  isPlain,
  filterForRecipient,
} from "../written-by.ts";
import type { ModelRequest } from "../model.ts";
import { RememberedEach } from "../remembered.ts";
import { adaptCallId, type CallIdForm, stringifyForWire } from "../well-formed.ts";
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

/** How a server calls the cap on output tokens. */
export type MaxTokensField = "max_completion_tokens" | "max_tokens";

export interface WireSettings {
  readonly modelId: string;
  readonly maxTokensField: MaxTokensField;
  /** Of the model: its own reasoning stands in the texts that are kept for it. */
  readonly replayKey: string;
  readonly reasoningField: ReasoningOption;
  /** What its server demands of the ids of calls. Left out: nothing that is known. */
  readonly callIdForm?: CallIdForm | undefined;
  /** What the model takes besides text. */
  readonly inputModalities?: readonly AttachmentKind[] | undefined;
  readonly options: RequestOptions;
}

/**
 * The body of a request. What stays the same from step to step comes first: the text of one request, up to the end of its
 * messages, is a prefix of the next one, so that prompt caches hit.
 */
export function toOpenAi(
  request: ModelRequest,
  settings: WireSettings,
  isStreaming: boolean,
): string {
  const head = `{"model":${stringifyForWire(settings.modelId)}${textOfTools(request.tools, settings.options)},"messages":[`;
  const { replayKey, reasoningField } = settings;
  const shown = filterForRecipient(request.messages, settings);
  // DeepSeek, Kimi and GLM refuse a reply without the field once another one has it, also if that is of another model.
  const isThought = (message: Message): boolean =>
    message.role === "assistant" &&
    message.parts?.some(
      (part) => findReasoningField(part, reasoningField) === "reasoning_content",
    ) === true;
  const isFilled = !isPlain(shown) && shown.some(isThought);
  const written = getTextCache(`${isFilled} ${reasoningField} ${replayKey}`);
  const write = (message: Message): string =>
    stringifyForWire(convertToWireMessage(message, settings, isFilled));
  const messages = addAttachmentMessages(written.of(shown, write), shown, settings).join(",");
  const cap = `],"${settings.maxTokensField}":${request.maxOutputTokens}`;
  const fields = {
    ...buildRequestFields("chat_completions", request, settings.options),
    ...(isStreaming ? { stream: true, stream_options: { include_usage: true } } : {}),
    ...settings.options.extraBody,
  };
  return `${head}${messages}${cap}${stringifyFields(fields)}}`;
}

/** Results of tools are texts: what else belongs to them follows the last result of their reply, as one message of the user's. */
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
      following.push(...attached.of([message], write));
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
 * The texts of messages, and of what follows them, by the model, and by whether replies without reasoning have a field for it: they are
 * written otherwise then.
 */
const texts = new Map<string, RememberedEach<Message, string>>();

function getTextCache(form: string): RememberedEach<Message, string> {
  const written = texts.get(form) ?? new RememberedEach<Message, string>();
  texts.set(form, written);
  return written;
}

/** `isFilled`: a reply without reasoning has the field for it, too. */
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
