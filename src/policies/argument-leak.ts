// Detects replies whose text repeats the arguments of a tool call in the same reply, as some models
// write them. Pure.

import { isRecord, parseJson, sameJson, type JsonValue } from "../kernel/json.ts";
import type { ToolCall } from "../protocol/message.ts";

/** The parts of a reply that are compared. */
export interface ReplyTextAndCalls {
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
}

/**
 * Returns the first call that the text of its reply repeats, or `undefined`. The text repeats a
 * call if it is one JSON object, possibly in a fence, that equals the arguments of the call, or has
 * exactly the keys `name` and `arguments` with the values of the call.
 *
 * The comparison is strict. Types count (`0` is not `false`) and so does the order of arrays, but
 * not the order of keys. The last of duplicate keys counts, and empty arguments are `{}`, as when
 * the call runs. Integers beyond the safe range equal nothing, because they cannot be
 * distinguished. Invalid JSON, more than 200 levels and more than a million characters never match.
 * Never throws.
 */
export function findLeakedCall({ text, toolCalls }: ReplyTextAndCalls): ToolCall | undefined {
  if (toolCalls.length === 0) return undefined;
  const parsed = parseObject(removeFence(text), MOST_LEVELS + 1); // The call may be wrapped once.
  if (parsed === undefined) return undefined;
  return toolCalls.find((call) => isRepeatedCall(parsed, call));
}

type JsonRecord = Readonly<Record<string, unknown>>;

/** Deeper arguments are refused anyway. */
const MOST_LEVELS = 200;
/** Longer texts are not compared. */
const MOST_CHARACTERS = 1_000_000;

/**
 * Returns the text inside a fence of three backticks, with or without the tag `json`. Returns other
 * texts unchanged.
 */
function removeFence(text: string): string {
  const trimmed = text.trim();
  const isFenced = trimmed.length >= 6 && trimmed.startsWith("```") && trimmed.endsWith("```");
  return isFenced ? trimmed.slice(3, -3).replace(/^json(?=\s)/i, "") : trimmed;
}

/** Returns the JSON object that the text contains. `undefined` for any other text. */
function parseObject(text: string, levels: number): JsonRecord | undefined {
  const isLikely = text.length <= MOST_CHARACTERS && text.trimStart().startsWith("{");
  if (!isLikely) return undefined;
  let value: JsonValue;
  try {
    value = parseJson(text);
  } catch {
    return undefined;
  }
  return isComparable(value, levels) && isRecord(value) ? value : undefined;
}

function isRepeatedCall(parsed: JsonRecord, { toolName, argumentsText }: ToolCall): boolean {
  const callArguments = parseObject(
    argumentsText.trim() === "" ? "{}" : argumentsText,
    MOST_LEVELS,
  );
  if (callArguments === undefined) return false;
  return (
    sameJson(parsed, callArguments) ||
    sameJson(parsed, { name: toolName, arguments: callArguments })
  );
}

/**
 * Returns false for values nested too deeply, and for integers beyond the safe range: two different
 * literals may parse to the same number.
 */
function isComparable(value: JsonValue, levels: number): boolean {
  if (typeof value === "number") return Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((part) => isComparable(part, levels - 1));
}
