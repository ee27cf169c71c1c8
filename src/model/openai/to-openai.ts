// Our request as the JSON text of a Chat Completions request. A history grows by a few messages a step and never changes
// otherwise, so each message and each list of tools is written once and the text is kept for as long as the value lives.

import type { AssistantMessage, Message } from "../../protocol/message.ts";
import type { ModelRequest, ToolSpec } from "../model.ts";
import { replyPieces } from "../../protocol/reply-pieces.ts";
import { type ReplyPiece } from "../../protocol/reply-message.ts";
import { repliesWithParts, sendable } from "../written-by.ts";
import {
  fieldOf,
  sentExtraContent,
  sentReasoning,
  type ReasoningOption,
} from "./chat-reasoning.ts";
import { heldTools, type HeldTool } from "../held-tools.ts";
import { mendedArguments } from "./mended-arguments.ts";
import { chatFields, textOfFields, type RequestOptions } from "./request-fields.ts";
import { cachedText } from "./wire-json.ts";

/** How a server calls the cap on output tokens. */
export type MaxTokensField = "max_completion_tokens" | "max_tokens";

export interface WireSettings {
  readonly modelId: string;
  readonly maxTokensField: MaxTokensField;
  /** Of the model: its own reasoning stands in the texts that are kept for it. */
  readonly replayKey: string;
  readonly reasoningField: ReasoningOption;
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
  const head = `{"model":${JSON.stringify(settings.modelId)}${textOfTools(request.tools, settings.options)},"messages":[`;
  const shown = sendable(request.messages, settings.replayKey);
  const form = formOf(shown, settings);
  const write = (message: Message): string => JSON.stringify(wireMessage(message, form));
  const messages = shown.map((message) => cachedText(form.written, message, write)).join(",");
  const cap = `],"${settings.maxTokensField}":${request.maxOutputTokens}`;
  const fields = {
    ...chatFields(request, settings.options),
    ...(isStreaming ? { stream: true, stream_options: { include_usage: true } } : {}),
    ...settings.options.extraBody,
  };
  return `${head}${messages}${cap}${textOfFields(fields)}}`;
}

const writtenTools = new WeakMap<ReadonlyMap<string, HeldTool>, string>();

/** How messages are written: what differs from one model to another, or within a history, has texts of its own. */
interface MessageForm {
  readonly reasoningField: ReasoningOption;
  /** What a reply without reasoning says in its place. */
  readonly filler: Readonly<Record<string, string>>;
  readonly written: WeakMap<Message, string>;
}

const forms = new Map<string, MessageForm>();

/** DeepSeek, Kimi and GLM refuse a reply without the field once another one has it, also if that is of another model. */
function formOf(
  messages: readonly Message[],
  { replayKey, reasoningField }: WireSettings,
): MessageForm {
  const isFilled = repliesWithParts(messages).some((reply) => isThought(reply, reasoningField));
  const key = JSON.stringify([replayKey, reasoningField ?? null, isFilled]);
  const known = forms.get(key);
  if (known !== undefined) return known;
  const filler = isFilled ? { reasoning_content: "" } : {};
  const form: MessageForm = { reasoningField, filler, written: new WeakMap() };
  forms.set(key, form);
  return form;
}

function isThought({ parts = [] }: AssistantMessage, option: ReasoningOption): boolean {
  return parts.some((part) => fieldOf(part, option) === "reasoning_content");
}

function textOfTools(tools: readonly ToolSpec[], { strictTools }: RequestOptions): string {
  if (tools.length === 0) return "";
  return cachedText(writtenTools, heldTools(tools, strictTools), wireTools);
}

function wireTools(held: ReadonlyMap<string, HeldTool>): string {
  return `,"tools":${JSON.stringify([...held.values()].map(wireTool))}`;
}

function wireTool({ spec, strict }: HeldTool): object {
  const { name, description, inputSchema } = spec;
  const face =
    strict === undefined ? { parameters: inputSchema } : { parameters: strict, strict: true };
  return { type: "function", function: { name, description, ...face } };
}

function wireMessage(message: Message, form: MessageForm): object {
  switch (message.role) {
    case "system":
    case "user":
      return { role: message.role, content: message.text };
    case "tool":
      return { role: "tool", tool_call_id: message.callId, content: message.text };
    case "assistant":
      return wireReply(message, form);
  }
}

function wireReply(message: AssistantMessage, { reasoningField, filler }: MessageForm): object {
  const pieces = replyPieces(message);
  const calls = pieces.flatMap((piece) => (piece.type === "call" ? [wireCall(piece)] : []));
  const saysOtherwise = calls.length > 0 || message.refusal !== undefined;
  return {
    role: "assistant",
    content: message.text === "" && saysOtherwise ? null : message.text,
    ...(message.refusal === undefined ? {} : { refusal: message.refusal }),
    ...filler,
    ...sentReasoning(pieces, reasoningField),
    ...pieces.reduce(
      (extra, piece) => (piece.type === "text" ? { ...extra, ...sentExtraContent(piece) } : extra),
      {},
    ),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function wireCall(call: CallPiece): object {
  const { callId, toolName, argumentsText } = call;
  const args = mendedArguments(argumentsText) ?? argumentsText;
  return {
    id: callId,
    type: "function",
    function: { name: toolName, arguments: args },
    ...sentExtraContent(call),
  };
}

type CallPiece = Extract<ReplyPiece, { readonly type: "call" }>;
