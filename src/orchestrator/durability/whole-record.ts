// The lines of a recording: whole records, one a line. Each long text has a line of its own before the
// records that refer to it.

import { isRecord } from "../../kernel/json.ts";
import type { TextTable } from "./text-table.ts";

const LONG = 160;
const MARK = "\u0001";
/** The mark as JSON writes it. */
const WRITTEN_MARK = String.raw`\u0001`;
const REFERENCE = `${MARK}#`;
const LITERAL = `${MARK}=`;

/** The lines of a record: those of its texts that are new come first. */
export function wholeLines(record: unknown, texts: TextTable): readonly string[] {
  const lines: string[] = [];
  const line = JSON.stringify(record, (_key, value: unknown) => {
    if (typeof value !== "string" || value.length < LONG)
      return typeof value === "string" ? literal(value) : value;
    if (texts.numberOf(value) === undefined) {
      texts.add(value);
      lines.push(JSON.stringify({ type: "text", text: literal(value) }));
    }
    return `${REFERENCE}${texts.numberOf(value)}`;
  });
  return [...lines, line];
}

/** A text that stands where it is, also if it looks like a reference. */
function literal(text: string): string {
  return text.startsWith(MARK) ? `${LITERAL}${text}` : text;
}

/** The record of a line; undefined: it has a text, which `texts` has from then on. Throws a `RangeError` for a text that is not there. */
export function readWhole(line: string, texts: TextTable): unknown {
  const parsed: unknown = JSON.parse(line);
  const record = line.includes(WRITTEN_MARK) ? resolved(parsed, texts) : parsed;
  if (!isRecord(record) || record["type"] !== "text" || typeof record["text"] !== "string")
    return record;
  texts.add(record["text"]);
  return undefined;
}

/** The value with texts in the place of references, in its own objects and lists: a reviver takes as long as all the rest. */
function resolved(value: unknown, texts: TextTable): unknown {
  if (typeof value === "string") return resolvedText(value, texts);
  if (typeof value !== "object" || value === null) return value;
  for (const [key, part] of Object.entries(value)) {
    const whole = resolved(part, texts);
    if (whole !== part) Reflect.set(value, key, whole);
  }
  return value;
}

function resolvedText(value: string, texts: TextTable): string {
  if (value.startsWith(LITERAL)) return value.slice(LITERAL.length);
  return value.startsWith(REFERENCE) ? texts.at(Number(value.slice(REFERENCE.length))) : value;
}
