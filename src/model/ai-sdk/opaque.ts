// What a provider says of its own, as plain data in the form in which a prompt takes it back.

import type {
  LanguageModelV4StreamPart,
  LanguageModelV4ToolResult,
  SharedV4ProviderMetadata,
} from "@ai-sdk/provider";

import { parseJson, type JsonObject } from "../../kernel/json.ts";
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
  switch (part.type) {
    case "tool-call": {
      const { toolCallId, toolName, input } = part;
      const call = { toolCallId, toolName, input: argumentsValue(input), providerExecuted: true };
      return opaque(part.type, call, part.providerMetadata);
    }
    case "tool-result": {
      if (part.preliminary === true) return undefined;
      const { toolCallId, toolName } = part;
      const result = { toolCallId, toolName, output: outputOf(part) };
      return opaque(part.type, result, part.providerMetadata);
    }
    case "file":
    case "reasoning-file":
      return opaque(part.type, { ...part, data: asText(part.data) }, part.providerMetadata);
    case "custom":
      if (part.kind.endsWith(".message_start")) return undefined;
      return opaque(part.type, part, part.providerMetadata);
    default: {
      const metadata = "providerMetadata" in part ? part.providerMetadata : undefined;
      return opaque(part.type, part, metadata);
    }
  }
}

/** The data of a piece; undefined if the provider says nothing of it. */
export function dataOf(metadata: SharedV4ProviderMetadata | undefined): ProviderData | undefined {
  const said = Object.entries(metadata ?? {}).filter(
    ([, fields]) => Object.keys(fields).length > 0,
  );
  return said.length === 0 ? undefined : plain(Object.fromEntries(said));
}

function opaque(
  kind: string,
  fields: object,
  metadata: SharedV4ProviderMetadata | undefined,
): OpaquePart {
  const providerOptions = dataOf(metadata);
  const { type: _type, providerMetadata: _metadata, ...own } = plain(fields);
  const data = { ...own, ...(providerOptions === undefined ? {} : { providerOptions }) };
  return { type: "opaque", kind, data };
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
