// Our request as the JSON text of a Chat Completions request. A history grows by a few messages a step and never changes
// otherwise, so each message and each list of tools is written once and the text is kept for as long as the value lives.

import { isRecord } from "../../kernel/json.ts";
import type { Message, ToolCall } from "../../protocol/message.ts";
import type { ModelRequest, ToolSpec } from "../model.ts";
import { parseJson } from "./from-openai.ts";

/** How a server calls the cap on output tokens. */
export type MaxTokensField = "max_completion_tokens" | "max_tokens";

export interface WireSettings {
  readonly modelId: string;
  readonly maxTokensField: MaxTokensField;
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
  const head = `{"model":${JSON.stringify(settings.modelId)}${textOfTools(request.tools)},"messages":[`;
  const messages = request.messages.map(textOfMessage).join(",");
  const cap = `],"${settings.maxTokensField}":${request.maxOutputTokens}`;
  const temperature =
    request.temperature === undefined ? "" : `,"temperature":${request.temperature}`;
  const stream = isStreaming ? ',"stream":true,"stream_options":{"include_usage":true}' : "";
  return `${head}${messages}${cap}${temperature}${stream}}`;
}

const writtenTools = new WeakMap<readonly ToolSpec[], string>();
const writtenMessages = new WeakMap<Message, string>();

function textOfTools(tools: readonly ToolSpec[]): string {
  if (tools.length === 0) return "";
  const known = writtenTools.get(tools);
  if (known !== undefined) return known;
  const text = `,"tools":${JSON.stringify(tools.map(wireTool))}`;
  writtenTools.set(tools, text);
  return text;
}

function wireTool({ name, description, inputSchema }: ToolSpec): object {
  return { type: "function", function: { name, description, parameters: inputSchema } };
}

function textOfMessage(message: Message): string {
  const known = writtenMessages.get(message);
  if (known !== undefined) return known;
  const text = JSON.stringify(wireMessage(message));
  writtenMessages.set(message, text);
  return text;
}

function wireMessage(message: Message): object {
  switch (message.role) {
    case "system":
    case "user":
      return { role: message.role, content: message.text };
    case "tool":
      return { role: "tool", tool_call_id: message.callId, content: message.text };
    case "assistant":
      return {
        role: "assistant",
        content: message.text === "" && saysOtherwise(message) ? null : message.text,
        ...(message.refusal === undefined ? {} : { refusal: message.refusal }),
        ...(message.toolCalls.length === 0 ? {} : { tool_calls: message.toolCalls.map(wireCall) }),
      };
  }
}

function saysOtherwise(message: Message & { readonly role: "assistant" }): boolean {
  return message.toolCalls.length > 0 || message.refusal !== undefined;
}

function wireCall({ callId, toolName, argumentsText }: ToolCall): object {
  const args = mendedArguments(argumentsText) ?? argumentsText;
  return { id: callId, type: "function", function: { name: toolName, arguments: args } };
}

/**
 * Arguments that are no JSON object, as one that holds what the model wrote: many servers parse them, and some fail on anything else.
 * Nothing at all is an empty object. Undefined: they go back as they are.
 */
function mendedArguments(text: string): string | undefined {
  if (text.trim() === "") return "{}";
  return isRecord(parseJson(text)) ? undefined : JSON.stringify({ not_a_json_object: text });
}

/** True if the last reply in a list of messages goes back with arguments that we had to mend. */
export function isLastReplyMended(messages: readonly Message[]): boolean {
  const last = messages.findLast((message) => message.role === "assistant");
  return (
    last?.toolCalls.some(({ argumentsText }) => {
      const mended = mendedArguments(argumentsText);
      return mended !== undefined && mended !== "{}";
    }) === true
  );
}
