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
import type { Attachment } from "../../protocol/attachment.ts";
import { isHttps, type ContentPart } from "../../protocol/message-content.ts";
import type { Message, ProviderData, ToolMessage, UserMessage } from "../../protocol/message.ts";
import { replyPieces, type ReplyPiece } from "../../protocol/reply-message.ts";
import { sentCallId, type CallIdForm } from "../sent-call-id.ts";
import { parseWireJson } from "../wire-json.ts";
import { asText, contentParts, followingHeading } from "../accepted-content.ts";
import { hasContent, sendable, type Recipient } from "../written-by.ts";

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
export interface PromptReader extends Recipient {
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
  let following: UserParts = [];
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
        prompt.push({ role: "user", content: toUserParts(message, reader) });
        break;
      case "tool":
        // The results of one reply are one message: Gemini wants as many of them as there were calls.
        if (last?.role === "tool") last.content.push(toResult(message, reader));
        else prompt.push({ role: "tool", content: [toResult(message, reader)] });
        if (!reader.seesResults && hasContent(message))
          following = [...following, ...toFollowing(message, reader)];
        break;
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

type UserPart = LanguageModelV4TextPart | LanguageModelV4FilePart;
type UserParts = UserPart[];

function toUserParts(message: UserMessage, reader: PromptReader): UserParts {
  if (message.content === undefined) return [{ type: "text", text: message.text }];
  return contentParts(message).map((part) => toUserPart(part, reader));
}

function toFollowing(message: ToolMessage, reader: PromptReader): UserParts {
  const { toolName, callId, content = [] } = message;
  const heading = followingHeading(toolName, sentCallId(callId, reader.callIdForm));
  const parts = [heading, ...content];
  return parts.map((part) => toUserPart(part, reader));
}

/** A file that cannot be had by its provider goes as the line that names it: nothing is fetched here. */
function toUserPart(part: ContentPart, { fetches }: PromptReader): UserPart {
  const data = part.type === "text" ? undefined : dataOf(part, fetches);
  if (part.type === "text" || data === undefined) return asText(part);
  const { mediaType, name: filename } = part;
  return { type: "file", data, mediaType, ...defined({ filename }) };
}

function dataOf(
  { data, mediaType, uri }: Attachment,
  fetches: PromptReader["fetches"],
): LanguageModelV4FilePart["data"] | undefined {
  if (data !== undefined) return { type: "data", data };
  return uri !== undefined && isHttps(uri) && fetches(mediaType, uri)
    ? { type: "url", url: new URL(uri) }
    : undefined;
}

/** The value of arguments: providers want one, and most of them an object. */
export function argumentsValue(text: string): unknown {
  if (text.trim() === "") return {};
  const value = parseWireJson(text);
  if (isRecord(value)) return value;
  const meant = mendedJson(text);
  return isRecord(meant) ? meant : { invalid: text };
}

function toParts(piece: ReplyPiece, reader: PromptReader): readonly AssistantPart[] {
  switch (piece.type) {
    case "text":
      if (!reader.takesBlanks && piece.text.trim() === "") return [];
      return [toTextPart(piece)];
    case "reasoning":
      return [toTextPart(piece)];
    case "call":
      return [
        {
          type: "tool-call",
          toolCallId: sentCallId(piece.callId, reader.callIdForm),
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

function toTextPart({ type, text, data }: TextualPiece): AssistantPart {
  return { type, text, ...providerOptions(data) };
}

type TextualPiece = Extract<ReplyPiece, { readonly type: "text" | "reasoning" }>;

function toResult(message: ToolMessage, reader: PromptReader): LanguageModelV4ToolResultPart {
  const { callId, toolName, text } = message;
  const output: LanguageModelV4ToolResultPart["output"] =
    reader.seesResults && hasContent(message)
      ? { type: "content", value: contentParts(message).map((part) => toUserPart(part, reader)) }
      : { type: "text", value: text };
  const toolCallId = sentCallId(callId, reader.callIdForm);
  return { type: "tool-result", toolCallId, toolName, output };
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
