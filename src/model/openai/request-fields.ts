// The fields of a request besides messages, tools and cap: how the model is to answer, in the words of each interface. Pure.

import { isRecord, tryParseJson } from "../../kernel/json.ts";
import type { ModelSettings } from "../../protocol/model-settings.ts";
import { collectHeldTools, type HeldTool } from "../held-tools.ts";
import type { ModelRequest, ToolSpec } from "../model.ts";
import { buildPromptCacheKey, stringifyForWire } from "../well-formed.ts";
import { getOrCompute } from "../remembered.ts";
import type { OpenAiApi, RequestOptions, WireRequest } from "./answer-options.ts";
import { type Fields } from "../wire-json.ts";
import { repairJson } from "../../kernel/mend-json.ts";
import type { Message } from "../../protocol/message.ts";
import { isHttps, type ContentPart } from "../../protocol/message-content.ts";
import type { Attachment } from "../../protocol/attachment.ts";
import { convertToText } from "../written-by.ts";

/** How the model is to answer a request: as the options of the model say, and over them as the request does. */
function mergeRequestSettings({ settings }: ModelRequest, options: ModelSettings): ModelSettings {
  if (settings === undefined) return options;
  const reasoning = { ...options.reasoning, ...settings.reasoning };
  const merged = { ...options, ...settings };
  return Object.keys(reasoning).length === 0 ? merged : { ...merged, reasoning };
}

/** The fields of a request over one of the interfaces, in a fixed order; undefined: left out. */
export function buildRequestFields(
  api: OpenAiApi,
  request: WireRequest,
  options: RequestOptions,
): Fields {
  const { temperature, output, tools, cacheKey } = request;
  const settings = mergeRequestSettings(request, options.settings);
  const { reasoning, verbosity, topP: top_p, parallelToolCalls } = settings;
  const { promptCacheKey: by, serviceTier: service_tier } = options;
  const format = output && { name: output.name, strict: output.strict, schema: output.schema };
  const last = {
    // Without tools, servers refuse any field about them.
    ...(tools.length === 0
      ? {}
      : { tool_choice: buildToolChoice(api, request), parallel_tool_calls: parallelToolCalls }),
    service_tier,
    prompt_cache_key:
      cacheKey === undefined || by === false ? undefined : buildPromptCacheKey(cacheKey, by),
  };
  if (api === "responses") {
    const text = { verbosity, format: format && { type: "json_schema", ...format } };
    const hasText = verbosity !== undefined || format !== undefined;
    return { temperature, top_p, reasoning, text: hasText ? text : undefined, ...last };
  }
  const { seed, stopSequences: stop } = settings;
  const response_format = format && { type: "json_schema", json_schema: format };
  const reasoning_effort = reasoning?.effort;
  return { temperature, top_p, seed, stop, reasoning_effort, verbosity, response_format, ...last };
}

/** One of several: all tools stay listed, so that the provider's cache holds. */
function buildToolChoice(api: OpenAiApi, { toolChoice: choice }: ModelRequest): unknown {
  if (choice === undefined || typeof choice === "string") return choice;
  const wireTool = (name: string): object =>
    api === "chat_completions"
      ? { type: "function", function: { name } }
      : { type: "function", name };
  if ("toolName" in choice) return wireTool(choice.toolName);
  const allowed = { mode: "required", tools: choice.toolNames.map(wireTool) };
  return {
    type: "allowed_tools",
    ...(api === "chat_completions" ? { allowed_tools: allowed } : allowed),
  };
}

/** Fields as text that continues an open object; those that are undefined are left out. */
export function stringifyFields(fields: Fields): string {
  const text = stringifyForWire(fields).slice(1, -1);
  return text === "" ? "" : `,${text}`;
}

/** The tools as text that continues an open object, written once for as long as their list lives; without tools nothing. */
export function createToolsWriter(
  wireTool: (tool: HeldTool) => object,
): (tools: readonly ToolSpec[], options: RequestOptions) => string {
  const written = new WeakMap<ReturnType<typeof collectHeldTools>, string>();
  return (tools, { strictTools }) =>
    tools.length === 0
      ? ""
      : getOrCompute(
          written,
          collectHeldTools(tools, strictTools),
          (held) => `,"tools":${stringifyForWire([...held.values()].map(wireTool))}`,
        );
}

// Arguments of calls as they go back to a server, which may parse them.

/**
 * Arguments that are no JSON object, without a small slip or as one that holds what the model wrote: many servers parse them, and some fail on
 * anything else. Nothing at all is an empty object. Undefined: they go back as they are.
 */
export function repairArguments(text: string): string | undefined {
  if (text.trim() === "") return "{}";
  if (isRecord(tryParseJson(text))) return undefined;
  const meant = repairJson(text);
  return JSON.stringify(isRecord(meant) ? meant : { [UNREADABLE]: text });
}

const UNREADABLE = "not_a_json_object";

/** True if the last reply in a list of messages goes back with unreadable arguments. */
export function isLastReplyMended(messages: readonly Message[]): boolean {
  const last = messages.findLast((message) => message.role === "assistant");
  return (
    last?.toolCalls.some(({ argumentsText }) => {
      const mended = repairArguments(argumentsText);
      return mended?.startsWith(`{"${UNREADABLE}":`) === true;
    }) === true
  );
}

// What is no text, in the words of each interface. What an interface has no word for goes as the line that names it.

/**
 * Returns the parts of a message in the words of an interface. Responses, whose results of tools are written like user messages, has no
 * word for sounds. A part that an interface has no word for becomes the line that names it.
 */
export function convertToWireParts(
  api: OpenAiApi,
  content: readonly ContentPart[],
): readonly object[] {
  const type = api === "chat_completions" ? "text" : "input_text";
  return content.map((part) => {
    const shown = part.type === "text" ? undefined : convertToWireAttachment(api, part);
    return shown ?? { type, text: convertToText(part).text };
  });
}

/** The formats of sound that there are words for. */
const AUDIO_FORMATS: Readonly<Record<string, string>> = {
  "audio/mpeg": "mp3",
  "audio/mp3": "mp3",
  "audio/wav": "wav",
  "audio/x-wav": "wav",
};

function convertToWireAttachment(api: OpenAiApi, attachment: Attachment): object | undefined {
  const { type, data, mediaType, uri, name = "" } = attachment;
  const isChat = api === "chat_completions";
  if (type === "audio") {
    const format = AUDIO_FORMATS[mediaType.toLowerCase()];
    if (!isChat || data === undefined || format === undefined) return undefined;
    return { type: "input_audio", input_audio: { data, format } };
  }
  // The provider has its bytes within the address, or fetches them itself.
  const address = data === undefined ? uri : `data:${mediaType};base64,${data}`;
  if (address === undefined || (data === undefined && !isHttps(uri))) return undefined;
  if (type === "image")
    return isChat
      ? { type: "image_url", image_url: { url: address } }
      : { type: "input_image", image_url: address, detail: "auto" };
  if (data === undefined) return isChat ? undefined : { type: "input_file", file_url: address };
  // Servers want a name.
  const filename = name === "" ? `file.${mediaType.split(/[/;]/)[1] ?? "bin"}` : name;
  const file = { filename, file_data: address };
  return isChat ? { type: "file", file } : { type: "input_file", ...file };
}
