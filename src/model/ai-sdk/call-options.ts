// Converts a request to call options of the AI SDK, chooses its cap, and converts its messages.

import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4FunctionTool,
  LanguageModelV4ToolChoice,
  SharedV4ProviderOptions,
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4TextPart,
  LanguageModelV4ToolResultPart,
} from "@ai-sdk/provider";

import type { Clock } from "../../kernel/clock.ts";
import { omitUndefined, isRecord, tryParseJson } from "../../kernel/json.ts";
import type { AttachmentKind } from "../../protocol/attachment.ts";
import type { CacheKey, ModelRequest } from "../model.ts";
import { collectStrictTools } from "../strict-tools.ts";
import {
  findProviderIdForm,
  createWellFormed,
  adaptCallId,
  type CallIdForm,
} from "../wire-text.ts";
import {
  isFetched,
  supportsResultAttachments,
  supportsBlankTexts,
  type FetchedAddresses,
  addProviderOptions,
} from "./ai-sdk-providers.ts";
import { readFields, type Fields } from "../wire-json.ts";
import { repairJson } from "../../kernel/repair-json.ts";
import { isHttps, type ContentPart } from "../../protocol/message-content.ts";
import type { Message } from "../../protocol/message.ts";
import { getReplyPieces, type ReplyPiece } from "../../protocol/reply-message.ts";
import {
  convertToText,
  getContentParts,
  createAttachmentHeading,
  filterForRecipient,
  type Recipient,
} from "../recipient-messages.ts";

/** Settings shared by all calls of a model. */
export interface CallSettings {
  readonly model: LanguageModelV4;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly replayKey: string;
  /** Attachments that the model accepts besides text. */
  readonly inputModalities?: readonly AttachmentKind[];
  readonly reasoning?: LanguageModelV4CallOptions["reasoning"];
  readonly providerOptions?: SharedV4ProviderOptions;
  readonly headers?: Readonly<Record<string, string>>;
}

type CallOptions = Omit<UncappedOptions, "abortSignal">;

/** Returns the options, and warnings about settings that they cannot express. */
export function toCallOptions(
  request: ModelRequest,
  settings: CallSettings,
  facts: { readonly cacheKey: CacheKey | undefined; readonly fetched: FetchedAddresses },
): { readonly options: CallOptions; readonly warnings: readonly string[] } {
  const { cacheKey, fetched } = facts;
  const { tools, toolChoice: choice, temperature, settings: own = {}, output } = request;
  const { headers } = settings;
  const reasoning = own.reasoning?.effort ?? settings.reasoning;
  const providerOptions = addProviderOptions(settings.model.provider, {
    userOptions: settings.providerOptions ?? {},
    reasoning,
    maxOutputTokens: request.maxOutputTokens,
    cacheKey,
    output,
  });
  const prompt = toPrompt(request.messages, {
    replayKey: settings.replayKey,
    inputModalities: settings.inputModalities,
    seesResults: supportsResultAttachments(settings.model.provider),
    takesBlanks: supportsBlankTexts(settings.model.provider),
    callIdForm: findProviderIdForm(settings.model.provider),
    fetches: (mediaType, address) => isFetched(fetched, mediaType, address),
  });
  // For a choice of several tools, the request contains only these: the AI SDK has no other way.
  const isChosen = (name: string): boolean =>
    typeof choice !== "object" || !("toolNames" in choice) || choice.toolNames.includes(name);
  const chosen = [...collectStrictTools(tools, false).values()].filter(({ spec }) =>
    isChosen(spec.name),
  );
  const functions = chosen.map(({ spec, strict }): LanguageModelV4FunctionTool => {
    const { name, description, inputSchema } = spec;
    const schemaFields =
      strict === undefined ? { inputSchema } : { inputSchema: strict, strict: true };
    return { type: "function", name, description, ...schemaFields };
  });
  let toolChoice: LanguageModelV4ToolChoice | undefined;
  if (typeof choice === "string") toolChoice = { type: choice };
  else if (choice !== undefined)
    toolChoice =
      "toolName" in choice ? { type: "tool", toolName: choice.toolName } : { type: "required" };
  const options: CallOptions = {
    prompt: createWellFormed(prompt),
    ...(tools.length === 0
      ? {}
      : { tools: createWellFormed(functions), ...omitUndefined({ toolChoice }) }),
    ...omitUndefined({
      temperature,
      topP: own.topP,
      seed: own.seed,
      stopSequences: own.stopSequences?.slice(),
      reasoning,
      responseFormat:
        output && ({ type: "json", name: output.name, schema: output.schema } as const),
      headers: headers && { ...headers },
    }),
    ...(Object.keys(providerOptions).length === 0 ? {} : { providerOptions }),
  };
  // The AI SDK has no option for these.
  const { verbosity, parallelToolCalls } = own;
  const unsupported = {
    "reasoning.summary": own.reasoning?.summary,
    verbosity,
    parallelToolCalls,
  };
  const warnings = Object.keys(omitUndefined(unsupported)).map(
    (name) =>
      `The setting ${name} is not passed on. Set it in providerOptions, in the form of the provider.`,
  );
  return { options, warnings };
}

// OutputCap: enforces the cap on output tokens for providers that change it. Owns the knowledge
// about one model. The lease of the budget is as large as the cap, so that a provider that requests
// more would overdraw the lease. The reasoning budget is part of our cap, but `@ai-sdk/anthropic`
// adds it to the cap that it receives.

/** Options of a request without its cap. */
export type UncappedOptions = Omit<
  LanguageModelV4CallOptions,
  "maxOutputTokens" | "abortSignal"
> & {
  readonly abortSignal: AbortSignal;
};

/** Smallest reasoning budget that Anthropic accepts. */
const MIN_BUDGET_TOKENS = 1_024;
const MIN_ANSWER_TOKENS = 1_024;
/** Share of the cap for reasoning, if the provider's own budget was too large. */
const REASONING_SHARE = 1 / 2;

export class OutputCap {
  /** Levels of reasoning for which the provider added its own budget. */
  readonly #budgeted = new Set<unknown>();

  /** Returns the options with the cap. A reasoning budget must fit into the cap. */
  applyCap(
    uncapped: UncappedOptions,
    cap: number,
  ): {
    readonly options: UncappedOptions & { readonly maxOutputTokens: number };
    readonly warnings: readonly string[];
    /** True if the request sets a reasoning budget, so that an excess has another cause. */
    readonly isBudgeted: boolean;
  } {
    const learnt = this.#budgeted.has(uncapped.reasoning) ? cap * REASONING_SHARE : undefined;
    const { type, budgetTokens: ownBudget } = readFields(
      uncapped.providerOptions?.["anthropic"]?.["thinking"],
    );
    const budget = typeof ownBudget === "number" ? ownBudget : MIN_BUDGET_TOKENS;
    const requested = type === "enabled" ? budget : learnt;
    if (requested === undefined)
      return { options: { ...uncapped, maxOutputTokens: cap }, warnings: [], isBudgeted: false };
    const budgetTokens = Math.min(Math.floor(requested), cap - MIN_ANSWER_TOKENS);
    const hasRoom = budgetTokens >= MIN_BUDGET_TOKENS;
    const thinking = hasRoom ? { type: "enabled", budgetTokens } : { type: "disabled" };
    const { providerOptions = {} } = uncapped;
    const anthropic = { ...providerOptions["anthropic"], thinking };
    const options = {
      ...uncapped,
      providerOptions: { ...providerOptions, anthropic },
      maxOutputTokens: hasRoom ? cap - budgetTokens : cap,
    };
    const warning = `A cap of ${cap} output tokens leaves no room for reasoning: the request disables it.`;
    return { options, warnings: hasRoom ? [] : [warning], isBudgeted: true };
  }

  /**
   * Records that a request without a budget was sent with too high a cap. Returns false if no known
   * setting would lower that cap.
   */
  recordExcess({ reasoning }: UncappedOptions, body: unknown): boolean {
    if (readFields(readBodyFields(body)["thinking"])["budget_tokens"] === undefined) return false;
    this.#budgeted.add(reasoning);
    return true;
  }
}

/** Returns the cap in a request body, by any of its names, or 0 without a cap. */
export function readSentCap(body: unknown): number {
  const fields = readBodyFields(body);
  const { generationConfig, inferenceConfig, options } = fields;
  const caps = [
    fields["max_tokens"],
    fields["max_completion_tokens"],
    fields["max_output_tokens"],
    readFields(generationConfig)["maxOutputTokens"],
    readFields(inferenceConfig)["maxTokens"],
    readFields(options)["num_predict"],
  ];
  return Math.max(0, ...caps.filter((cap) => typeof cap === "number"));
}

/** Returns the fields of a request body. Some providers pass an object, others a text. */
function readBodyFields(body: unknown): Fields {
  return readFields(typeof body === "string" ? tryParseJson(body) : body);
}

// Converts messages to a prompt of the AI SDK. A reply is sent back in pieces, each with the data
// of its provider.

type AssistantPart = Extract<LanguageModelV4Message, { role: "assistant" }>["content"][number];

/**
 * Kinds of opaque parts that a prompt may contain. Others, such as sources, stay in the history.
 */
const PROMPT_KINDS: ReadonlySet<unknown> = new Set<AssistantPart["type"]>([
  "tool-call",
  "tool-result",
  "custom",
  "file",
  "reasoning-file",
  // A compaction of Anthropic, which is separate from the text of the reply.
  "text",
]);

/** The model that reads the prompt. */
interface PromptReader extends Recipient {
  /** True if the provider passes attachments in tool results on. Others convert them to text. */
  readonly seesResults: boolean;
  /**
   * True if it accepts texts of white space only. Claude writes such texts before calls, but
   * rejects them as input.
   */
  readonly takesBlanks: boolean;
  /** The provider's rules for call ids, or `undefined` if none are known. */
  readonly callIdForm: CallIdForm | undefined;
  /** Returns true if the provider fetches a file of this type from this address. */
  readonly fetches: (mediaType: string, address: string) => boolean;
}

/** Returns the prompt for this model. */
function toPrompt(messages: readonly Message[], reader: PromptReader): LanguageModelV4Prompt {
  const prompt: LanguageModelV4Prompt = [];
  /** Attachments of tool results that the results cannot contain. They follow the last result. */
  let following: UserPart[] = [];
  const toUserParts = (parts: readonly ContentPart[]): UserPart[] =>
    parts.map((part) => toUserPart(part, reader));
  for (const message of filterForRecipient(messages, reader)) {
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
        prompt.push({ role: "user", content: toUserParts(getContentParts(message)) });
        break;
      case "tool": {
        const { toolName, text, content } = message;
        const toolCallId = adaptCallId(message.callId, reader.callIdForm);
        const isSeen = reader.seesResults && content !== undefined;
        const output: LanguageModelV4ToolResultPart["output"] = isSeen
          ? { type: "content", value: toUserParts(getContentParts(message)) }
          : { type: "text", value: text };
        const result = { type: "tool-result", toolCallId, toolName, output } as const;
        // Gemini requires one message with the results of all calls of a reply.
        if (last?.role === "tool") last.content.push(result);
        else prompt.push({ role: "tool", content: [result] });
        const heading = createAttachmentHeading(toolName, toolCallId);
        if (!isSeen && content !== undefined)
          following = [...following, ...toUserParts([heading, ...content])];
        break;
      }
      case "assistant": {
        const content = getReplyPieces(message).flatMap((piece) => toAssistantParts(piece, reader));
        if (content.length > 0) prompt.push({ role: "assistant", content });
        break;
      }
    }
  }
  if (following.length > 0) prompt.push({ role: "user", content: following });
  return prompt;
}

/**
 * Returns the part for an attachment, or a line that names the file if the provider cannot get it.
 * Fetches nothing.
 */
function toUserPart(part: ContentPart, { fetches }: PromptReader): UserPart {
  if (part.type === "text") return convertToText(part);
  const { data, mediaType, uri, name } = part;
  const file = { type: "file", mediaType, ...omitUndefined({ filename: name }) } as const;
  if (data !== undefined) return { ...file, data: { type: "data", data } };
  return uri !== undefined && isHttps(uri) && fetches(mediaType, uri)
    ? { ...file, data: { type: "url", url: new URL(uri) } }
    : convertToText(part);
}

type UserPart = LanguageModelV4TextPart | LanguageModelV4FilePart;

/** Returns arguments as a value, an object where possible: most providers require one. */
export function parseProviderArguments(text: string): unknown {
  if (text.trim() === "") return {};
  const value = tryParseJson(text);
  if (isRecord(value)) return value;
  const meant = repairJson(text);
  return isRecord(meant) ? meant : { invalid: text };
}

function toAssistantParts(piece: ReplyPiece, reader: PromptReader): readonly AssistantPart[] {
  const dataFields = isByProvider(piece.data) ? { providerOptions: piece.data } : {};
  switch (piece.type) {
    case "text":
    case "reasoning": {
      const { type, text } = piece;
      const isLeftOut = type === "text" && !reader.takesBlanks && text.trim() === "";
      return isLeftOut ? [] : [{ type, text, ...dataFields }];
    }
    case "call": {
      const { toolName, argumentsText } = piece;
      const toolCallId = adaptCallId(piece.callId, reader.callIdForm);
      const input = parseProviderArguments(argumentsText);
      return [{ type: "tool-call", toolCallId, toolName, input, ...dataFields }];
    }
    case "opaque": {
      const part = { type: piece.kind, ...piece.data };
      return isSentBack(part) ? [part] : [];
    }
  }
}

/**
 * Returns true if a prompt may contain the part. Opaque parts are stored in the form of a prompt.
 */
function isSentBack(part: { readonly type: string }): part is AssistantPart {
  return PROMPT_KINDS.has(part.type);
}

/** Narrows the data of a piece, which toProviderData of received-pieces.ts has created. */
function isByProvider(data: unknown): data is SharedV4ProviderOptions {
  return data !== undefined;
}
