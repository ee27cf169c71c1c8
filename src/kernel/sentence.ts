// Sentences, and values in them, of bounded length.

import { isRecord } from "./json.ts";

/** Returns the text with a full stop, so that another sentence may follow. */
export function completeSentence(text: string): string {
  const trimmed = text.trimEnd();
  return /[.!?…:]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}

/** Joins several texts to one. A single text stays unchanged. */
export function joinSentences(texts: readonly string[]): string {
  const last = texts.length - 1;
  return texts.map((text, index) => (index < last ? completeSentence(text) : text)).join(" ");
}

/**
 * Returns at most `most` characters of a text, without splitting a surrogate pair, followed by `…`
 * if it was cut.
 */
export function truncateText(text: string, most: number): string {
  if (text.length <= most) return text;
  const last = text.charCodeAt(most - 1);
  const isHalf = last >= 0xd800 && last <= 0xdbff;
  return `${text.slice(0, isHalf ? most - 1 : most)}…`;
}

/** Maximum length of a message. */
const MAX_LINE = 100;
/** Maximum length of a value. */
const MAX_SHOWN = 60;

/** Returns a message as one short line. */
export function collapseLines(message: string): string {
  const beginning = message.slice(0, 10 * MAX_LINE);
  return truncateText(beginning.replaceAll(/\s+/gu, " ").trim(), MAX_LINE);
}

/** Returns a value as JSON, shortened. Takes the same time for a large value. Never throws. */
export function formatShortJson(value: unknown): string {
  // Each part has at least one character, so the parts that are omitted are beyond the shown text.
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
    return truncateText(text ?? String(value), MAX_SHOWN);
  } catch {
    return "a value that is not JSON";
  }
}
