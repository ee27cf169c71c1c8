// Values and messages in a message, of bounded length.

import { isRecord } from "./json.ts";
import { shortened } from "./sentence.ts";

/** Characters of a message. */
const MAX_LINE = 100;
/** Characters of a value. */
const MAX_SHOWN = 60;

/** Returns a message as one short line. */
export function oneLine(message: string): string {
  const beginning = message.slice(0, 10 * MAX_LINE);
  return shortened(beginning.replaceAll(/\s+/gu, " ").trim(), MAX_LINE);
}

/** Returns a value as JSON, shortened. Takes the same time for a large value. Never throws. */
export function shownJson(value: unknown): string {
  // Each part has one character or more, so the parts that are left out are beyond the shown text.
  let left = MAX_SHOWN;
  const bound = (_key: string, part: unknown): unknown => {
    left -= 1;
    if (left < 0) return null;
    if (typeof part === "string" || Array.isArray(part)) return part.slice(0, MAX_SHOWN + 1);
    if (!isRecord(part)) return part;
    const keys = Object.keys(part).slice(0, MAX_SHOWN);
    return Object.fromEntries(keys.map((key) => [key.slice(0, MAX_SHOWN), part[key]]));
  };
  try {
    const text: string | undefined = JSON.stringify(value, bound);
    return shortened(text ?? String(value), MAX_SHOWN);
  } catch {
    return "a value that is no JSON";
  }
}
