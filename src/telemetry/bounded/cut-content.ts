// Text and JSON of content, cut at a length. Pure.

import { isJsonList, type JsonValue } from "../../kernel/json.ts";

/** Ends a text that was cut. */
export const CUT_MARK = "… (cut)";

/** Returns the text, or its beginning with the mark: at most `maxCharacters` UTF-16 code units. */
export function cutWithMark(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text;
  const beginning = text.slice(0, Math.max(0, maxCharacters - CUT_MARK.length));
  return `${beginning.replace(/[\uD800-\uDBFF]$/, "")}${CUT_MARK}`;
}

/**
 * Returns the JSON text of a value if it is no longer than `room`, else a longer text that begins like
 * it. The work grows with `room`, not with the value: no part beyond is read.
 */
export function beginJson(value: JsonValue, room: number): string {
  return measureRoomAfter(value, room) < 0 ? writeBeginning(value, room) : JSON.stringify(value);
}

function writeBeginning(value: JsonValue, room: number): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, Math.max(0, room) + 1));
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const isList = isJsonList(value);
  let text = isList ? "[" : "{";
  for (const [key, part] of entriesOf(value)) {
    if (text.length > room) return text;
    if (text.length > 1) text += ",";
    if (key !== undefined) text += `${writeBeginning(key, room - text.length)}:`;
    text += writeBeginning(part, room - text.length);
  }
  return `${text}${isList ? "]" : "}"}`;
}

/**
 * Returns how much of `room` a value leaves at most, as JSON. Below 0: it does not fit. What would be
 * escaped is counted as it is, so that nothing is written for the answer.
 */
function measureRoomAfter(value: JsonValue, room: number): number {
  if (typeof value === "string") return room - value.length - 2;
  if (typeof value !== "object" || value === null) return room - 1;
  let left = room - 1;
  if (isJsonList(value)) {
    for (const part of value) {
      if (left < 0) return left;
      left = measureRoomAfter(part, left) - 1;
    }
  } else {
    for (const key of Object.keys(value)) {
      if (left < 0) return left;
      left = measureRoomAfter(value[key] ?? null, left - key.length - 3) - 1;
    }
  }
  return left;
}

/** Iterates over the parts of a list or an object, without reading them all first. */
function* entriesOf(value: JsonValue & object): Iterable<readonly [string | undefined, JsonValue]> {
  if (isJsonList(value)) for (const part of value) yield [undefined, part];
  else for (const key of Object.keys(value)) yield [key, value[key] ?? null];
}
