// Some models write the arguments of a call a second time, as the text of the same reply. Pure.

import { isRecord, parseJson, sameJson, type JsonValue } from "../kernel/json.ts";
import type { ToolCall } from "../protocol/message.ts";

/** What counts of a reply. */
export interface SpokenCalls {
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
}

/**
 * The first call that the text of its reply repeats; undefined if the text says anything else. It repeats a call if all of it,
 * but for white space and a fence around it, is one JSON object that is equal to the arguments of the call, or has two keys, `name` and
 * `arguments`, that are both those of the call.
 *
 * Equal is strict: types count (`0` is not `false`, nor `"0"`) and the order of lists does; the order of keys does not. Of a key
 * that stands twice the last counts, as when the call is made. Whole numbers beyond the safe integers are equal to nothing, since they
 * cannot be distinguished. No arguments at all are `{}`, as when the call is made. What is no JSON, deeper than 200 levels or longer than a
 * million characters is repeated by nothing. Never throws.
 */
export function leakedCall({ text, toolCalls }: SpokenCalls): ToolCall | undefined {
  if (toolCalls.length === 0) return undefined;
  const said = parseObject(unfenced(text), MOST_LEVELS + 1); // The call may be wrapped once.
  if (said === undefined) return undefined;
  return toolCalls.find((call) => repeats(said, call));
}

type JsonRecord = Readonly<Record<string, unknown>>;

/** Deeper arguments are refused anyway. */
const MOST_LEVELS = 200;
/** Longer texts are not worth the work. */
const MOST_CHARACTERS = 1_000_000;

/** The text in a fence of three backticks, which may be marked as JSON; or the text as it is. */
function unfenced(text: string): string {
  const trimmed = text.trim();
  const isFenced = trimmed.length >= 6 && trimmed.startsWith("```") && trimmed.endsWith("```");
  return isFenced ? trimmed.slice(3, -3).replace(/^json(?=\s)/i, "") : trimmed;
}

/** The JSON object that a text is; undefined if it is none. */
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

function repeats(said: JsonRecord, { toolName, argumentsText }: ToolCall): boolean {
  const given = parseObject(argumentsText.trim() === "" ? "{}" : argumentsText, MOST_LEVELS);
  if (given === undefined) return false;
  return sameJson(said, given) || sameJson(said, { name: toolName, arguments: given });
}

/** Not too deep; and beyond the safe integers, numbers that were written differently may have become one. */
function isComparable(value: JsonValue, levels: number): boolean {
  if (typeof value === "number") return Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((part) => isComparable(part, levels - 1));
}
