// Our request as the call options of the AI SDK, but for its cap.

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
import { collectHeldTools } from "../held-tools.ts";
import {
  findProviderIdForm,
  createWellFormed,
  adaptCallId,
  type CallIdForm,
} from "../well-formed.ts";
import {
  isFetched,
  supportsResultAttachments,
  supportsBlankTexts,
  type FetchedAddresses,
  addProviderOptions,
} from "./ai-sdk-providers.ts";
import { readFields, type Fields } from "../wire-json.ts";
import { repairJson } from "../../kernel/mend-json.ts";
import { isHttps, type ContentPart } from "../../protocol/message-content.ts";
import type { Message } from "../../protocol/message.ts";
import { getReplyPieces, type ReplyPiece } from "../../protocol/reply-message.ts";
import {
  convertToText,
  getContentParts,
  createAttachmentHeading,
  filterForRecipient,
  type Recipient,
} from "../written-by.ts";

/** What of a model holds for all its calls. */
export interface CallSettings {
  readonly model: LanguageModelV4;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly replayKey: string;
  /** What the model takes besides text. */
  readonly inputModalities?: readonly AttachmentKind[];
  readonly reasoning?: LanguageModelV4CallOptions["reasoning"];
  readonly providerOptions?: SharedV4ProviderOptions;
  readonly headers?: Readonly<Record<string, string>>;
}

type CallOptions = Omit<AskedOptions, "abortSignal">;

/** The options, and what of the request they cannot say. */
export function toCallOptions(
  request: ModelRequest,
  settings: CallSettings,
  facts: { readonly cacheKey: CacheKey | undefined; readonly fetched: FetchedAddresses },
): { readonly options: CallOptions; readonly warnings: readonly string[] } {
  const { cacheKey, fetched } = facts;
  const { tools, toolChoice: choice, temperature, settings: said = {}, output } = request;
  const { headers } = settings;
  const reasoning = said.reasoning?.effort ?? settings.reasoning;
  const providerOptions = addProviderOptions(settings.model.provider, {
    given: settings.providerOptions ?? {},
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
  // One of several is one of those that are there: the AI SDK has no other word for it.
  const isChosen = (name: string): boolean =>
    typeof choice !== "object" || !("toolNames" in choice) || choice.toolNames.includes(name);
  const chosen = [...collectHeldTools(tools, false).values()].filter(({ spec }) =>
    isChosen(spec.name),
  );
  const functions = chosen.map(({ spec, strict }): LanguageModelV4FunctionTool => {
    const { name, description, inputSchema } = spec;
    const held = strict === undefined ? { inputSchema } : { inputSchema: strict, strict: true };
    return { type: "function", name, description, ...held };
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
      topP: said.topP,
      seed: said.seed,
      stopSequences: said.stopSequences?.slice(),
      reasoning,
      responseFormat:
        output && ({ type: "json", name: output.name, schema: output.schema } as const),
      headers: headers && { ...headers },
    }),
    ...(Object.keys(providerOptions).length === 0 ? {} : { providerOptions }),
  };
  // The AI SDK has no word for these.
  const { verbosity, parallelToolCalls } = said;
  const unsaid = { "reasoning.summary": said.reasoning?.summary, verbosity, parallelToolCalls };
  const warnings = Object.keys(omitUndefined(unsaid)).map(
    (name) =>
      `The setting ${name} is not passed on. Set it in providerOptions, in the form of the provider.`,
  );
  return { options, warnings };
}

// OutputCap: a cap on output tokens that holds, whatever a provider makes of it.
// Owns what was learnt of one model. A lease of the budget is as large as the cap: a provider that asks for more would overdraw it.
// A budget for reasoning is within the cap: `@ai-sdk/anthropic` adds the budget to the cap that it is given.

/** The options of a request before its cap is known. */
export type AskedOptions = Omit<LanguageModelV4CallOptions, "maxOutputTokens" | "abortSignal"> & {
  readonly abortSignal: AbortSignal;
};

/** The least that Anthropic takes as a budget; and what is left for the answer at least. */
const LEAST_BUDGET_TOKENS = 1_024;
const LEAST_ANSWER_TOKENS = 1_024;
/** Of the cap, where the provider's own budget was too large. */
const SHARE_OF_REASONING = 1 / 2;

export class OutputCap {
  /** The levels of reasoning for which the provider has added a budget of its own. */
  readonly #budgeted = new Set<unknown>();

  /** The options with a cap, and with a budget for reasoning only if it is within that. */
  within(
    asked: AskedOptions,
    cap: number,
  ): {
    readonly options: AskedOptions & { readonly maxOutputTokens: number };
    readonly warnings: readonly string[];
    /** The request says how much may go into reasoning: what it adds to the cap is beyond us. */
    readonly isBudgeted: boolean;
  } {
    const learnt = this.#budgeted.has(asked.reasoning) ? cap * SHARE_OF_REASONING : undefined;
    const { type, budgetTokens: own } = readFields(
      asked.providerOptions?.["anthropic"]?.["thinking"],
    );
    const given = typeof own === "number" ? own : LEAST_BUDGET_TOKENS;
    const requested = type === "enabled" ? given : learnt;
    if (requested === undefined)
      return { options: { ...asked, maxOutputTokens: cap }, warnings: [], isBudgeted: false };
    const budgetTokens = Math.min(Math.floor(requested), cap - LEAST_ANSWER_TOKENS);
    const hasRoom = budgetTokens >= LEAST_BUDGET_TOKENS;
    const thinking = hasRoom ? { type: "enabled", budgetTokens } : { type: "disabled" };
    const { providerOptions = {} } = asked;
    const anthropic = { ...providerOptions["anthropic"], thinking };
    const options = {
      ...asked,
      providerOptions: { ...providerOptions, anthropic },
      maxOutputTokens: hasRoom ? cap - budgetTokens : cap,
    };
    const warning = `A cap of ${cap} output tokens leaves no room for reasoning: the request disables it.`;
    return { options, warnings: hasRoom ? [] : [warning], isBudgeted: true };
  }

  /** Takes note that a request without a budget went out with too high a cap. False: nothing is known that would lower it. */
  learn({ reasoning }: AskedOptions, body: unknown): boolean {
    if (readFields(readBodyFields(body)["thinking"])["budget_tokens"] === undefined) return false;
    this.#budgeted.add(reasoning);
    return true;
  }
}

/** The cap that a provider has sent, under whatever name; 0: unknown, or none. */
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

/** Some providers give the body as an object, some as text. */
function readBodyFields(body: unknown): Fields {
  return readFields(typeof body === "string" ? tryParseJson(body) : body);
}

// Our messages as a prompt of the AI SDK. A reply goes back in its pieces, each with the data that the provider gave to it.

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
function toPrompt(messages: readonly Message[], reader: PromptReader): LanguageModelV4Prompt {
  const prompt: LanguageModelV4Prompt = [];
  /** What belongs to the results of a reply and does not stand in them: it follows the last of them. */
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
        // The results of one reply are one message: Gemini wants as many of them as there were calls.
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

/** A file that cannot be had by its provider goes as the line that names it: nothing is fetched here. */
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

/** The value of arguments: providers want one, and most of them an object. */
export function parseProviderArguments(text: string): unknown {
  if (text.trim() === "") return {};
  const value = tryParseJson(text);
  if (isRecord(value)) return value;
  const meant = repairJson(text);
  return isRecord(meant) ? meant : { invalid: text };
}

function toAssistantParts(piece: ReplyPiece, reader: PromptReader): readonly AssistantPart[] {
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
      const toolCallId = adaptCallId(piece.callId, reader.callIdForm);
      const input = parseProviderArguments(argumentsText);
      return [{ type: "tool-call", toolCallId, toolName, input, ...own }];
    }
    case "opaque": {
      const part = { type: piece.kind, ...piece.data };
      return isSentBack(part) ? [part] : [];
    }
  }
}

/** Opaque parts are kept in the form in which a prompt has them. */
function isSentBack(part: { readonly type: string }): part is AssistantPart {
  return SENT_BACK.has(part.type);
}

/** As received-pieces.ts has kept it: what the provider gave, by its name. */
function isByProvider(data: unknown): data is SharedV4ProviderOptions {
  return data !== undefined;
}
