// Our messages as a prompt of the AI SDK. A reply goes back in its pieces, each with the data that the provider gave to it.

import type {
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4TextPart,
  LanguageModelV4ToolResultPart,
  SharedV4ProviderOptions,
} from "@ai-sdk/provider";

import { defined, isRecord } from "../../kernel/json.ts";
import { mendedJson } from "../../kernel/mend-json.ts";
import { isHttps, type ContentPart } from "../../protocol/message-content.ts";
import type { Message } from "../../protocol/message.ts";
import { replyPieces, type ReplyPiece } from "../../protocol/reply-message.ts";
import { sentCallId, type CallIdForm } from "../well-formed.ts";
import { parseWireJson } from "../wire-json.ts";
import { asText, contentParts, followingHeading, sendable, type Recipient } from "../written-by.ts";

type AssistantPart = Extract<LanguageModelV4Message, { role: "assistant" }>["content"][number];

/** The kinds of opaque parts that a prompt has; others, such as sources, are kept for readers of the history. */
const SENT_BACK: ReadonlySet<unknown> = new Set<AssistantPart["type"]>([
  "tool-call",
  "tool-result",
  "custom",
  "file",
  "reasoning-file",
  // A compaction of Anthropic, which is not a text of the reply.
  "text",
]);

/** The model that reads the prompt. */
interface PromptReader extends Recipient {
  /** It sees what stands in the result of a tool; of others the provider would make text. */
  readonly seesResults: boolean;
  /** Whether it takes texts without a word. Claude refuses them, as some models write them before a call. */
  readonly takesBlanks: boolean;
  /** What its provider demands of the ids of calls; undefined: nothing that is known. */
  readonly callIdForm: CallIdForm | undefined;
  /** Whether the provider fetches a file of this type from this address. */
  readonly fetches: (mediaType: string, address: string) => boolean;
}

/** The prompt for this model. */
export function toPrompt(
  messages: readonly Message[],
  reader: PromptReader,
): LanguageModelV4Prompt {
  const prompt: LanguageModelV4Prompt = [];
  /** What belongs to the results of a reply and does not stand in them: it follows the last of them. */
  let following: UserPart[] = [];
  const toUserParts = (parts: readonly ContentPart[]): UserPart[] =>
    parts.map((part) => toUserPart(part, reader));
  for (const message of sendable(messages, reader)) {
    if (message.role !== "tool" && following.length > 0) {
      prompt.push({ role: "user", content: following });
      following = [];
    }
    const last = prompt.at(-1);
    switch (message.role) {
      case "system":
        prompt.push({ role: "system", content: message.text });
        break;
      case "user":
        prompt.push({ role: "user", content: toUserParts(contentParts(message)) });
        break;
      case "tool": {
        const { toolName, text, content } = message;
        const toolCallId = sentCallId(message.callId, reader.callIdForm);
        const isSeen = reader.seesResults && content !== undefined;
        const output: LanguageModelV4ToolResultPart["output"] = isSeen
          ? { type: "content", value: toUserParts(contentParts(message)) }
          : { type: "text", value: text };
        const result = { type: "tool-result", toolCallId, toolName, output } as const;
        // The results of one reply are one message: Gemini wants as many of them as there were calls.
        if (last?.role === "tool") last.content.push(result);
        else prompt.push({ role: "tool", content: [result] });
        const heading = followingHeading(toolName, toolCallId);
        if (!isSeen && content !== undefined)
          following = [...following, ...toUserParts([heading, ...content])];
        break;
      }
      case "assistant": {
        const content = replyPieces(message).flatMap((piece) => toParts(piece, reader));
        if (content.length > 0) prompt.push({ role: "assistant", content });
        break;
      }
    }
  }
  if (following.length > 0) prompt.push({ role: "user", content: following });
  return prompt;
}

/** A file that cannot be had by its provider goes as the line that names it: nothing is fetched here. */
function toUserPart(part: ContentPart, { fetches }: PromptReader): UserPart {
  if (part.type === "text") return asText(part);
  const { data, mediaType, uri, name } = part;
  const file = { type: "file", mediaType, ...defined({ filename: name }) } as const;
  if (data !== undefined) return { ...file, data: { type: "data", data } };
  return uri !== undefined && isHttps(uri) && fetches(mediaType, uri)
    ? { ...file, data: { type: "url", url: new URL(uri) } }
    : asText(part);
}

type UserPart = LanguageModelV4TextPart | LanguageModelV4FilePart;

/** The value of arguments: providers want one, and most of them an object. */
export function argumentsValue(text: string): unknown {
  if (text.trim() === "") return {};
  const value = parseWireJson(text);
  if (isRecord(value)) return value;
  const meant = mendedJson(text);
  return isRecord(meant) ? meant : { invalid: text };
}

function toParts(piece: ReplyPiece, reader: PromptReader): readonly AssistantPart[] {
  const own = isByProvider(piece.data) ? { providerOptions: piece.data } : {};
  switch (piece.type) {
    case "text":
    case "reasoning": {
      const { type, text } = piece;
      const isLeftOut = type === "text" && !reader.takesBlanks && text.trim() === "";
      return isLeftOut ? [] : [{ type, text, ...own }];
    }
    case "call": {
      const { toolName, argumentsText } = piece;
      const toolCallId = sentCallId(piece.callId, reader.callIdForm);
      const input = argumentsValue(argumentsText);
      return [{ type: "tool-call", toolCallId, toolName, input, ...own }];
    }
    case "opaque": {
      const part = { type: piece.kind, ...piece.data };
      return isSentBack(part) ? [part] : [];
    }
  }
}

/** As streamed-reply.ts has kept it: what the provider gave, by its name. */
function isByProvider(data: unknown): data is SharedV4ProviderOptions {
  return data !== undefined;
}

/** Opaque parts are kept in the form in which a prompt has them. */
function isSentBack(part: { readonly type: string }): part is AssistantPart {
  return SENT_BACK.has(part.type);
}
