// The fields of a request besides messages, tools and cap: how the model is to answer, in the words of each interface. Pure.

import type { JsonObject } from "../../kernel/json.ts";
import type { ModelSettings, ToolChoice } from "../../protocol/model-settings.ts";
import { heldTools, type HeldTool } from "../held-tools.ts";
import type { ModelRequest, OutputSchema, ToolSpec } from "../model.ts";
import { promptCacheKey } from "../prompt-cache-key.ts";
import { remembered } from "../remembered.ts";
import { wireText } from "../well-formed.ts";
import type { WireRequest } from "./wire-api.ts";
import type { Fields } from "../wire-json.ts";

/** What of the options of a model goes into each request. */
export interface RequestOptions {
  /** Those of a request go over them. */
  readonly settings: ModelSettings;
  readonly serviceTier: string | undefined;
  /** By what requests share a key for the provider's cache; false: none is sent. */
  readonly promptCacheKey: "role" | "agent" | false;
  /** Whether the model is held to the schema of every tool that has a strict form. */
  readonly strictTools: boolean;
  /** Merged last. */
  readonly extraBody: JsonObject;
}

/** What we say ourselves, or rely on: `extraBody` may not name it. */
export const OWN_FIELDS: readonly string[] = [
  "model",
  "input",
  "messages",
  "tools",
  "stream",
  "store",
  "max_output_tokens",
  "max_completion_tokens",
  "max_tokens",
];

/** How the model is to answer a request: as the options of the model say, and over them as the request does. */
function settingsFor({ settings }: ModelRequest, options: ModelSettings): ModelSettings {
  if (settings === undefined) return options;
  const reasoning = { ...options.reasoning, ...settings.reasoning };
  const merged = { ...options, ...settings };
  return Object.keys(reasoning).length === 0 ? merged : { ...merged, reasoning };
}

/** The fields of a Chat Completions request, in a fixed order; undefined: left out. */
export function chatFields(request: WireRequest, options: RequestOptions): Fields {
  const settings = settingsFor(request, options.settings);
  return {
    temperature: request.temperature,
    top_p: settings.topP,
    seed: settings.seed,
    stop: settings.stop,
    reasoning_effort: settings.reasoning?.effort,
    verbosity: settings.verbosity,
    response_format: request.output && {
      type: "json_schema",
      json_schema: formatOf(request.output),
    },
    ...toolFields(request, settings, chatTool),
    service_tier: options.serviceTier,
    prompt_cache_key: cacheKeyOf(request, options),
  };
}

/** The fields of a Responses request, in a fixed order. */
export function responsesFields(request: WireRequest, options: RequestOptions): Fields {
  const settings = settingsFor(request, options.settings);
  const { reasoning, verbosity } = settings;
  const format = request.output && { type: "json_schema", ...formatOf(request.output) };
  return {
    temperature: request.temperature,
    top_p: settings.topP,
    reasoning,
    text: verbosity === undefined && format === undefined ? undefined : { verbosity, format },
    ...toolFields(request, settings, responsesTool),
    service_tier: options.serviceTier,
    prompt_cache_key: cacheKeyOf(request, options),
  };
}

function formatOf({ name, strict, schema }: OutputSchema): object {
  return { name, strict, schema };
}

/** Fields as text that continues an open object; those that are undefined are left out. */
export function textOfFields(fields: Fields): string {
  const text = wireText(fields).slice(1, -1);
  return text === "" ? "" : `,${text}`;
}

/** The tools as text that continues an open object, written once for as long as their list lives; without tools nothing. */
export function toolsWriter(
  wireTool: (tool: HeldTool) => object,
): (tools: readonly ToolSpec[], options: RequestOptions) => string {
  const written = new WeakMap<ReturnType<typeof heldTools>, string>();
  return (tools, { strictTools }) =>
    tools.length === 0
      ? ""
      : remembered(
          written,
          heldTools(tools, strictTools),
          (held) => `,"tools":${wireText([...held.values()].map(wireTool))}`,
        );
}

/** Without tools, servers refuse any field about them. */
function toolFields(
  { tools, toolChoice }: ModelRequest,
  { parallelToolCalls }: ModelSettings,
  wireTool: (name: string) => object,
): Fields {
  if (tools.length === 0) return {};
  return {
    tool_choice: choiceField(toolChoice, wireTool),
    parallel_tool_calls: parallelToolCalls,
  };
}

const chatTool = (name: string): object => ({ type: "function", function: { name } });
const responsesTool = (name: string): object => ({ type: "function", name });

/** One of several: all tools stay listed, so that the provider's cache holds. */
function choiceField(choice: ToolChoice | undefined, wireTool: (name: string) => object): unknown {
  if (choice === undefined || typeof choice === "string") return choice;
  if ("tool" in choice) return wireTool(choice.tool);
  const allowed = { mode: "required", tools: choice.oneOf.map(wireTool) };
  return wireTool === chatTool
    ? { type: "allowed_tools", allowed_tools: allowed }
    : { type: "allowed_tools", ...allowed };
}

function cacheKeyOf({ cacheKey }: WireRequest, options: RequestOptions): string | undefined {
  const by = options.promptCacheKey;
  return cacheKey === undefined || by === false ? undefined : promptCacheKey(cacheKey, by);
}
