// The content of spans as plain values, as a reader of a trace would see it.

import { parseJson, type JsonValue } from "../../../src/kernel/json.ts";
import type { PlainSpan } from "./span-tree.ts";

/** Name and content of a span with content, by attribute names without `gen_ai.`. */
export interface SpokenSpan extends Partial<Record<Said, JsonValue>> {
  readonly span: string;
}

type Said = (typeof CONTENT)[number];

const CONTENT = [
  "system_instructions",
  "input.messages",
  "output.messages",
  "tool.definitions",
  "tool.call.arguments",
  "tool.call.result",
] as const;

export function contentOf(spans: readonly PlainSpan[]): readonly SpokenSpan[] {
  return spans.flatMap(({ name, attributes }) => {
    const said: SpokenSpan = { span: name, ...saidIn(attributes) };
    return Object.keys(said).length === 1 ? [] : [said];
  });
}

function saidIn(attributes: PlainSpan["attributes"]): Partial<Record<Said, JsonValue>> {
  const said: Partial<Record<Said, JsonValue>> = {};
  for (const key of CONTENT) {
    const value = attributes[`gen_ai.${key}`];
    if (typeof value === "string") said[key] = parseJson(value);
  }
  return said;
}
