// Our request as the JSON text of a Chat Completions request. A history grows by a few messages a step and never changes
// otherwise, so each message and each list of tools is written once and the text is kept for as long as the value lives.

import type { AttachmentKind } from "../../protocol/attachment.ts";
import type { AssistantMessage, Message, ToolMessage } from "../../protocol/message.ts";
import { contentParts, followingHeading } from "../accepted-content.ts";
import type { ModelRequest } from "../model.ts";
import { RememberedEach } from "../remembered.ts";
import { sentCallId, type CallIdForm } from "../sent-call-id.ts";
import { wireText } from "../well-formed.ts";
import { replyPieces, type ReplyPiece } from "../../protocol/reply-message.ts";
import { attachedBytesOf, hasContent, isPlain, sendable } from "../written-by.ts";
import {
  fieldOf,
  sentExtraContent,
  sentReasoning,
  sentThinking,
  type ReasoningOption,
} from "./chat-reasoning.ts";
import type { HeldTool } from "../held-tools.ts";
import { mendedArguments } from "./mended-arguments.ts";
import { chatParts } from "./wire-content.ts";
import { chatFields, textOfFields, toolsWriter, type RequestOptions } from "./request-fields.ts";

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
  readonly accepts?: readonly AttachmentKind[] | undefined;
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
  const head = `{"model":${wireText(settings.modelId)}${textOfTools(request.tools, settings.options)},"messages":[`;
  const { replayKey, reasoningField, callIdForm } = settings;
  const shown = sendable(request.messages, settings);
  // DeepSeek, Kimi and GLM refuse a reply without the field once another one has it, also if that is of another model.
  const isFilled = !isPlain(shown) && shown.some((message) => isThought(message, reasoningField));
  const written = textsUnder(`${isFilled} ${reasoningField} ${replayKey}`);
  const write = (message: Message): string =>
    wireText(wireMessage(message, { reasoningField, isFilled, callIdForm }));
  const messages = withFollowing(written.of(shown, write), shown, settings).join(",");
  const cap = `],"${settings.maxTokensField}":${request.maxOutputTokens}`;
  const fields = {
    ...chatFields(request, settings.options),
    ...(isStreaming ? { stream: true, stream_options: { include_usage: true } } : {}),
    ...settings.options.extraBody,
  };
  return `${head}${messages}${cap}${textOfFields(fields)}}`;
}

/** Results of tools are texts: what else belongs to them follows the last result of their reply, as one message of the user's. */
function withFollowing(
  written: readonly string[],
  messages: readonly Message[],
  { replayKey, callIdForm }: WireSettings,
): readonly string[] {
  if (attachedBytesOf(messages) === 0) return written;
  const attached = textsUnder(`attached ${replayKey}`);
  const texts: string[] = [];
  let following: string[] = [];
  for (const [index, text] of written.entries()) {
    const message = messages[index];
    texts.push(text);
    if (message?.role !== "tool") continue;
    if (hasContent(message))
      following.push(...attached.of([message], () => textOfAttached(message, callIdForm)));
    if (following.length === 0 || messages[index + 1]?.role === "tool") continue;
    texts.push(`{"role":"user","content":[${following.join(",")}]}`);
    following = [];
  }
  return texts;
}

function textOfAttached(
  { toolName, callId, content = [] }: ToolMessage,
  form: CallIdForm | undefined,
): string {
  const heading = followingHeading(toolName, sentCallId(callId, form));
  return wireText(chatParts([heading, ...content])).slice(1, -1);
}

/**
 * The texts of messages, and of what follows them, by the model, and by whether replies without reasoning have a field for it: they are
 * written otherwise then.
 */
const texts = new Map<string, RememberedEach<Message, string>>();

function textsUnder(form: string): RememberedEach<Message, string> {
  const written = texts.get(form) ?? new RememberedEach<Message, string>();
  texts.set(form, written);
  return written;
}

function isThought(message: Message, option: ReasoningOption): boolean {
  if (message.role !== "assistant" || message.parts === undefined) return false;
  return message.parts.some((part) => fieldOf(part, option) === "reasoning_content");
}

function wireTool({ spec, strict }: HeldTool): object {
  const { name, description, inputSchema } = spec;
  const parameters =
    strict === undefined ? { parameters: inputSchema } : { parameters: strict, strict: true };
  return { type: "function", function: { name, description, ...parameters } };
}

const textOfTools = toolsWriter(wireTool);

/** How messages are written. `isFilled`: a reply without reasoning has the field, too. */
interface WireForm extends Pick<WireSettings, "reasoningField" | "callIdForm"> {
  readonly isFilled: boolean;
}

function wireMessage(message: Message, form: WireForm): object {
  switch (message.role) {
    case "system":
      return { role: message.role, content: message.text };
    case "user":
      return {
        role: message.role,
        content: message.content === undefined ? message.text : chatParts(contentParts(message)),
      };
    case "tool":
      return {
        role: "tool",
        tool_call_id: sentCallId(message.callId, form.callIdForm),
        content: message.text,
      };
    case "assistant":
      return wireReply(message, form);
  }
}

function wireReply(
  message: AssistantMessage,
  { reasoningField, isFilled, callIdForm }: WireForm,
): object {
  const pieces = replyPieces(message);
  const calls: object[] = [];
  let extra = {};
  for (const piece of pieces) {
    if (piece.type === "call") calls.push(wireCall(piece, callIdForm));
    if (piece.type === "text") extra = { ...extra, ...sentExtraContent(piece) };
  }
  const saysOtherwise = calls.length > 0 || message.refusal !== undefined;
  const text = message.text === "" && saysOtherwise ? null : message.text;
  return {
    role: "assistant",
    content: sentThinking(pieces, reasoningField) ?? text,
    refusal: message.refusal,
    ...(isFilled ? { reasoning_content: "" } : {}),
    ...sentReasoning(pieces, reasoningField),
    ...extra,
    tool_calls: calls.length === 0 ? undefined : calls,
  };
}

function wireCall(call: CallPiece, form: CallIdForm | undefined): object {
  const { callId, toolName, argumentsText } = call;
  const args = mendedArguments(argumentsText) ?? argumentsText;
  return {
    id: sentCallId(callId, form),
    type: "function",
    function: { name: toolName, arguments: args },
    ...sentExtraContent(call),
  };
}

type CallPiece = Extract<ReplyPiece, { readonly type: "call" }>;
