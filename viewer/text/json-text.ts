// Arguments and results as text: what is short on one line, what is long with a line for each member.

import type { JsonValue } from "../../src/kernel/json.ts";

/** So many characters stand on one line. */
const LINE = 72;

export function indented(value: JsonValue, indent = ""): string {
  const flat = JSON.stringify(value);
  if (typeof value !== "object" || value === null) return flat;
  const isTop = indent === "";
  if (!isTop && flat.length + indent.length <= LINE) return spaced(value);
  const inner = `${indent}  `;
  const members = membersOf(value).map(([name, member]) => inner + name + indented(member, inner));
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  return members.length === 0 ? open + close : `${open}\n${members.join(",\n")}\n${indent}${close}`;
}

/** On one line, with the spaces that a person would write. */
function spaced(value: JsonValue): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = membersOf(value).map(([name, member]) => name + spaced(member));
  if (Array.isArray(value)) return `[${members.join(", ")}]`;
  return members.length === 0 ? "{}" : `{ ${members.join(", ")} }`;
}

/** What is in an object or a list, with what stands before each. */
function membersOf(
  value: JsonValue & object,
): readonly (readonly [name: string, member: JsonValue])[] {
  const isList = Array.isArray(value);
  return Object.entries(value).map(([name, member]: readonly [string, JsonValue]) => [
    isList ? "" : `${JSON.stringify(name)}: `,
    member,
  ]);
}

/** The text again, indented, if it is JSON of more than one value. */
export function readable(text: string): string {
  if (!/^\s*[[{]/.test(text)) return text;
  const read = readJson(text);
  return "value" in read ? indented(read.value) : text;
}

/** The value of a text, or why it has none. */
export function readJson(text: string): { readonly value: JsonValue } | { readonly fault: string } {
  try {
    const value: unknown = JSON.parse(text);
    return isJson(value) ? { value } : { fault: "This is no JSON." };
  } catch (error) {
    return { fault: error instanceof Error ? error.message : String(error) };
  }
}

/** Whatever was parsed is. */
function isJson(value: unknown): value is JsonValue {
  return value !== undefined;
}
