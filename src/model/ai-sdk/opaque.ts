// Data of a provider's own in a reply, as plain data in the form in which a prompt takes it back.

import type {
  LanguageModelV4StreamPart,
  LanguageModelV4ToolResult,
  SharedV4ProviderMetadata,
} from "@ai-sdk/provider";

import { defined, parseJson, type JsonObject } from "../../kernel/json.ts";
import type { ProviderData } from "../../protocol/message.ts";
import { isParsed } from "../wire-json.ts";
import { argumentsValue } from "./prompt.ts";

export interface OpaquePart {
  readonly type: "opaque";
  readonly kind: string;
  readonly data: ProviderData;
}

/** A call that the provider runs itself, its result, a file, a source and the like. Undefined: it is no content. */
export function opaqueOf(part: LanguageModelV4StreamPart): OpaquePart | undefined {
  const content = contentOf(part);
  if (content === undefined) return undefined;
  const { type: _type, providerMetadata: _metadata, ...own } = plain(content);
  const metadata = "providerMetadata" in part ? part.providerMetadata : undefined;
  const data = { ...own, ...defined({ providerOptions: dataOf(metadata) }) };
  return { type: "opaque", kind: part.type, data };
}

function contentOf(part: LanguageModelV4StreamPart): object | undefined {
  switch (part.type) {
    case "tool-call": {
      const { toolCallId, toolName, input } = part;
      return { toolCallId, toolName, input: argumentsValue(input), providerExecuted: true };
    }
    case "tool-result": {
      const { toolCallId, toolName } = part;
      return part.preliminary === true
        ? undefined
        : { toolCallId, toolName, output: outputOf(part) };
    }
    case "file":
    case "reasoning-file":
      return { ...part, data: asText(part.data) };
    case "custom":
      return part.kind.endsWith(".message_start") ? undefined : part;
    default:
      return part;
  }
}

/** The data of a piece; undefined if the provider says nothing of it. */
export function dataOf(metadata: SharedV4ProviderMetadata | undefined): ProviderData | undefined {
  const said = Object.entries(metadata ?? {}).filter(
    ([, fields]) => Object.keys(fields).length > 0,
  );
  return said.length === 0 ? undefined : plain(Object.fromEntries(said));
}

/** Not our copy of foreign values, which refuses what JSON has no form for: addresses have one. */
function plain(value: object): JsonObject {
  const copy = parseJson(JSON.stringify(value));
  if (!isParsed(copy)) throw new TypeError("Expected an object.");
  return copy;
}

function outputOf({ result, isError }: LanguageModelV4ToolResult): object {
  if (isError === true) return { type: "error-json", value: result };
  return typeof result === "string"
    ? { type: "text", value: result }
    : { type: "json", value: result };
}

type FileData = Extract<LanguageModelV4StreamPart, { type: "file" }>["data"];

function asText(data: FileData): object {
  if (data.type !== "data" || typeof data.data === "string") return data;
  return { type: data.type, data: Buffer.from(data.data).toString("base64") };
}
