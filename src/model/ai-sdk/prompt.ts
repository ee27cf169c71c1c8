// Our messages as a prompt of the AI SDK. A reply goes back in its pieces, each with the data that the provider gave to it.

import type {
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ToolResultPart,
  SharedV4ProviderOptions,
} from "@ai-sdk/provider";

import { isRecord } from "../../kernel/json.ts";
import { mendedJson } from "../../kernel/mend-json.ts";
import type { Message, ProviderData, ToolMessage } from "../../protocol/message.ts";
import { replyPieces } from "../../protocol/reply-pieces.ts";
import { type ReplyPiece } from "../../protocol/reply-message.ts";
import { parseWireJson } from "../wire-json.ts";
import { sendable } from "../written-by.ts";

type AssistantPart = Extract<LanguageModelV4Message, { role: "assistant" }>["content"][number];

/** The kinds of opaque parts that a prompt has; others, such as sources, are kept for readers of the history. */
const SENT_BACK: ReadonlySet<unknown> = new Set<AssistantPart["type"]>([
  "tool-call",
  "tool-result",
  "custom",
  "file",
  "reasoning-file",
]);

/** The prompt for the model with this key. */
export function toPrompt(messages: readonly Message[], replayKey: string): LanguageModelV4Prompt {
  const prompt: LanguageModelV4Prompt = [];
  for (const message of sendable(messages, replayKey)) {
    const last = prompt.at(-1);
    switch (message.role) {
      case "system":
        prompt.push({ role: "system", content: message.text });
        break;
      case "user":
        prompt.push({ role: "user", content: [{ type: "text", text: message.text }] });
        break;
      case "tool":
        // The results of one reply are one message: Gemini wants as many of them as there were calls.
        if (last?.role === "tool") last.content.push(toResult(message));
        else prompt.push({ role: "tool", content: [toResult(message)] });
        break;
      case "assistant": {
        const content = replyPieces(message).flatMap(toParts);
        if (content.length > 0) prompt.push({ role: "assistant", content });
        break;
      }
    }
  }
  return prompt;
}

/** The value of arguments: providers want one, and most of them an object. */
export function argumentsValue(text: string): unknown {
  if (text.trim() === "") return {};
  const value = parseWireJson(text);
  if (isRecord(value)) return value;
  const meant = mendedJson(text);
  return isRecord(meant) ? meant : { invalid: text };
}

function toParts(piece: ReplyPiece): readonly AssistantPart[] {
  switch (piece.type) {
    case "text":
    case "reasoning":
      return [{ type: piece.type, text: piece.text, ...providerOptions(piece.data) }];
    case "call":
      return [
        {
          type: "tool-call",
          toolCallId: piece.callId,
          toolName: piece.toolName,
          input: argumentsValue(piece.argumentsText),
          ...providerOptions(piece.data),
        },
      ];
    case "opaque": {
      const part = { type: piece.kind, ...piece.data };
      return isSentBack(part) ? [part] : [];
    }
  }
}

function toResult({ callId, toolName, text }: ToolMessage): LanguageModelV4ToolResultPart {
  return {
    type: "tool-result",
    toolCallId: callId,
    toolName,
    output: { type: "text", value: text },
  };
}

function providerOptions(data: ProviderData | undefined): {
  readonly providerOptions?: SharedV4ProviderOptions;
} {
  return isByProvider(data) ? { providerOptions: data } : {};
}

/** As streamed-reply.ts has kept it: what the provider gave, by its name. */
function isByProvider(data: unknown): data is SharedV4ProviderOptions {
  return data !== undefined;
}

/** Opaque parts are kept in the form in which a prompt has them. */
function isSentBack(part: { readonly type: string }): part is AssistantPart {
  return SENT_BACK.has(part.type);
}
