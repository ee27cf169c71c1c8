// Writes the parts of requests that both interfaces share: settings of the answer, tools, arguments
// of calls, and attachments. Pure.

import { isRecord, tryParseJson } from "../../kernel/json.ts";
import type { ModelSettings } from "../../protocol/model-settings.ts";
import { collectStrictTools, type StrictTool } from "../strict-tools.ts";
import type { ModelRequest, ToolSpec } from "../model.ts";
import { buildPromptCacheKey, stringifyForWire } from "../wire-text.ts";
import { getOrCompute } from "../memoized-values.ts";
import type { OpenAiApi, RequestOptions, WireRequest } from "./answer-options.ts";
import { type Fields } from "../wire-json.ts";
import { repairJson } from "../../kernel/repair-json.ts";
import type { Message } from "../../protocol/message.ts";
import { isHttps, type ContentPart } from "../../protocol/message-content.ts";
import type { Attachment } from "../../protocol/attachment.ts";
import { convertToText } from "../recipient-messages.ts";

/** Returns the settings of a request, merged over the options of the model. */
function mergeRequestSettings({ settings }: ModelRequest, options: ModelSettings): ModelSettings {
  if (settings === undefined) return options;
  const reasoning = { ...options.reasoning, ...settings.reasoning };
  const merged = { ...options, ...settings };
  return Object.keys(reasoning).length === 0 ? merged : { ...merged, reasoning };
}

/** Returns the fields of a request in a fixed order. `undefined` fields are omitted. */
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
    // Without tools, servers refuse any field about tools.
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

/**
 * Writes the tool choice. A choice of several tools lists all tools nevertheless, so that the
 * provider's cache hits.
 */
function buildToolChoice(api: OpenAiApi, { toolChoice: choice }: ModelRequest): unknown {
  if (choice === undefined || typeof choice === "string") return choice;
  const toWireTool = (name: string): object =>
    api === "chat_completions"
      ? { type: "function", function: { name } }
      : { type: "function", name };
  if ("toolName" in choice) return toWireTool(choice.toolName);
  const allowed = { mode: "required", tools: choice.toolNames.map(toWireTool) };
  return {
    type: "allowed_tools",
    ...(api === "chat_completions" ? { allowed_tools: allowed } : allowed),
  };
}

/** Returns the defined fields as JSON that continues an open object. */
export function stringifyFields(fields: Fields): string {
  const text = stringifyForWire(fields).slice(1, -1);
  return text === "" ? "" : `,${text}`;
}

/**
 * Returns a function that writes the tools as JSON that continues an open object. Memoised by the
 * list of tools. Empty without tools.
 */
export function createToolsWriter(
  toWireTool: (tool: StrictTool) => object,
): (tools: readonly ToolSpec[], options: RequestOptions) => string {
  const written = new WeakMap<ReturnType<typeof collectStrictTools>, string>();
  return (tools, { strictTools }) =>
    tools.length === 0
      ? ""
      : getOrCompute(
          written,
          collectStrictTools(tools, strictTools),
          (sentTools) => `,"tools":${stringifyForWire([...sentTools.values()].map(toWireTool))}`,
        );
}

// Arguments of calls in the form in which they are sent back to a server, which may parse them.

/**
 * Returns valid arguments for arguments that are not a JSON object: without a small mistake, or as
 * an object that contains the model's text. Many servers parse arguments, and some fail on anything
 * else. Empty arguments become an empty object. `undefined` if they are sent back unchanged.
 */
export function repairArguments(text: string): string | undefined {
  if (text.trim() === "") return "{}";
  if (isRecord(tryParseJson(text))) return undefined;
  const repaired = repairJson(text);
  return JSON.stringify(isRecord(repaired) ? repaired : { [UNREADABLE]: text });
}

const UNREADABLE = "not_a_json_object";

/** Returns true if the last reply in a list of messages is sent back with unreadable arguments. */
export function isLastReplyRepaired(messages: readonly Message[]): boolean {
  const last = messages.findLast((message) => message.role === "assistant");
  return (
    last?.toolCalls.some(({ argumentsText }) => {
      const mended = repairArguments(argumentsText);
      return mended?.startsWith(`{"${UNREADABLE}":`) === true;
    }) === true
  );
}

// Writes attachments in the form of each interface. An unsupported attachment becomes a line that
// names it.

/**
 * Returns the parts of a message for an interface. Responses, where results of tools have the form
 * of user messages, does not support sounds. An unsupported part becomes a line that names it.
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

/** Supported audio formats. */
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
  // The address contains the bytes, or the provider fetches it.
  const address = data === undefined ? uri : `data:${mediaType};base64,${data}`;
  if (address === undefined || (data === undefined && !isHttps(uri))) return undefined;
  if (type === "image")
    return isChat
      ? { type: "image_url", image_url: { url: address } }
      : { type: "input_image", image_url: address, detail: "auto" };
  if (data === undefined) return isChat ? undefined : { type: "input_file", file_url: address };
  // Servers require a name.
  const filename = name === "" ? `file.${mediaType.split(/[/;]/)[1] ?? "bin"}` : name;
  const file = { filename, file_data: address };
  return isChat ? { type: "file", file } : { type: "input_file", ...file };
}
