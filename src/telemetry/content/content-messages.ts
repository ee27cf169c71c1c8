// Content in the shape of the GenAI semantic conventions: messages of parts. Pure.

import { parseJson, unsoundness, type JsonObject, type JsonValue } from "../../kernel/json.ts";
import { replyPieces, type ReplyPiece } from "../../protocol/reply-message.ts";
import type { AssistantMessage, Message, ToolCall } from "../../protocol/message.ts";
import type { OfferedTool } from "../../protocol/span-content.ts";
import { MAX_ATTRIBUTE_CHARACTERS } from "../bounded/bounded-attributes.ts";

/** What an agent reads before all else, for `gen_ai.system_instructions`: the system messages with which a request begins. */
export function instructionsOf(messages: readonly Message[]): readonly JsonObject[] {
  return messages.slice(0, firstSaid(messages)).map(({ text }) => textPart(text));
}

/** The others, for `gen_ai.input.messages`. */
export function inputOf(messages: readonly Message[]): readonly JsonObject[] {
  return messages
    .slice(firstSaid(messages))
    .map((message) => ({ role: message.role, parts: partsOf(message) }));
}

function firstSaid(messages: readonly Message[]): number {
  const index = messages.findIndex(({ role }) => role !== "system");
  return index === -1 ? messages.length : index;
}

/** For `gen_ai.output.messages`: the one that the model wrote. */
export function outputOf(message: AssistantMessage, finishReason: string): readonly JsonObject[] {
  const reason = finishReason === "tool_calls" ? "tool_call" : finishReason;
  return [{ role: "assistant", parts: partsOf(message), finish_reason: reason }];
}

/** For `gen_ai.tool.definitions`. */
export function definitionsOf(tools: readonly OfferedTool[]): readonly JsonObject[] {
  return tools.map(({ name, description, inputSchema }) => ({
    type: "function",
    name,
    description,
    parameters: inputSchema,
  }));
}

/** Of an answer, also of one by which the model declined: its reasoning and the calls that it asks for, in order. */
function partsOf(message: Message): readonly JsonObject[] {
  if (message.role === "tool")
    return [{ type: "tool_call_response", id: message.callId, response: message.text }];
  if (message.role !== "assistant") return [textPart(message.text)];
  const { refusal = "" } = message;
  const parts = replyPieces(message).flatMap((piece) => partOf(piece));
  return refusal === "" ? parts : [textPart(refusal), ...parts];
}

function partOf(piece: ReplyPiece): readonly JsonObject[] {
  switch (piece.type) {
    case "reasoning":
      return piece.text === "" ? [] : [{ type: "reasoning", content: piece.text }];
    case "text":
      return piece.text === "" ? [] : [textPart(piece.text)];
    case "call":
      return [callPart(piece)];
    case "opaque":
      return [];
  }
}

function textPart(content: string): JsonObject {
  return { type: "text", content };
}

function callPart({ callId, toolName, argumentsText }: ToolCall): JsonObject {
  const called = argumentsText.trim() === "" ? {} : structureOf(argumentsText);
  return { type: "tool_call", id: callId, name: toolName, arguments: called ?? argumentsText };
}

/** Deeper values are shown as the text that they are. */
const MOST_LEVELS = 200;

/**
 * The object or the list that a text is; undefined for any other text, for one that would be shortened in any case, and for numbers and
 * keys that parsing would change.
 */
export function structureOf(text: string): JsonValue | undefined {
  if (text.length > MAX_ATTRIBUTE_CHARACTERS || !/^\s*[[{]/.test(text)) return undefined;
  try {
    const value = parseJson(text);
    return unsoundness(value, MOST_LEVELS) === undefined && isWhole(value, text)
      ? value
      : undefined;
  } catch {
    return undefined;
  }
}

/** True if the text has nothing that the value has lost: digits, or one of two equal keys. */
function isWhole(value: JsonValue, text: string): boolean {
  return skeletonOf(JSON.stringify(value)) === skeletonOf(text);
}

/** JSON text without spaces and without the content of its strings, each number written in one way. */
function skeletonOf(text: string): string {
  return text.replaceAll(/"(?:[^"\\]|\\.)*"|\s+|-?\d[\d.eE+-]*/g, (token) => {
    if (token.startsWith('"')) return '""';
    return token.trim() === "" ? "" : plainNumber(token);
  });
}

/** `-12.50e3` as `-125e2`. */
function plainNumber(token: string): string {
  const [mantissa = "", exponent = "0"] = token.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.replace("-", "").split(".");
  const digits = `${whole}${fraction}`.replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  const sign = token.startsWith("-") ? "-" : "";
  if (significant === "") return `${sign}0`;
  const power = Number(exponent) - fraction.length + digits.length - significant.length;
  return `${sign}${significant}e${power}`;
}
