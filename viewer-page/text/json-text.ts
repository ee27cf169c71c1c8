import { isJson, type JsonValue } from "../../src/kernel/json.ts";

const LINE = 72;

/**
 * Maximum depth of indentation. Deeper values are written on one line, because each level makes
 * every line below it longer.
 */
const MAX_LEVELS = 50;

/** Returns a value as indented JSON. Linear in the length of the result. */
export function indentJson(value: JsonValue, indent = ""): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const isTop = indent === "";
  if (!isTop && measureLength(LINE + 1, value) + indent.length <= LINE)
    return formatOnOneLine(value);
  if (indent.length > 2 * MAX_LEVELS) return JSON.stringify(value);
  const inner = `${indent}  `;
  const members = listMembers(value).map(
    ([name, member]) => inner + name + indentJson(member, inner),
  );
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  return members.length === 0 ? open + close : `${open}\n${members.join(",\n")}\n${indent}${close}`;
}

/**
 * Returns a value as indented JSON in parts. Each multi-line text is a separate part. Has at most
 * `most` parts. `dropped` counts the characters that follow.
 */
export function splitJson(value: JsonValue, most: number) {
  const parts: { text: string; isText: boolean }[] = [];
  let dropped = 0;
  addParts(value, "", (text, isText) => {
    const last = parts.at(-1);
    if (dropped > 0) dropped += text.length;
    else if (last !== undefined && !isText && !last.isText) last.text += text;
    else if (parts.length < most) parts.push({ text, isText });
    else dropped += text.length;
  });
  return { parts, dropped };
}

function addParts(
  value: JsonValue,
  indent: string,
  add: (text: string, isText: boolean) => void,
): void {
  if (typeof value === "string" && LINE_BREAK.test(value)) {
    add(value, true);
    return;
  }
  const isDeep = indent.length > 2 * MAX_LEVELS;
  if (isDeep || typeof value !== "object" || value === null || !hasLines(value)) {
    add(indentJson(value, indent), false);
    return;
  }
  const inner = `${indent}  `;
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  add(open, false);
  for (const [at, [name, member]] of listMembers(value).entries()) {
    add(`${at === 0 ? "" : ","}\n${inner}${name}`, false);
    addParts(member, inner, add);
  }
  add(`\n${indent}${close}`, false);
}

const LINE_BREAK = /\r?\n/;

/** Returns true if the value contains a multi-line text. */
function hasLines(value: JsonValue, levels = MAX_LEVELS): boolean {
  if (typeof value === "string") return LINE_BREAK.test(value);
  if (levels === 0 || typeof value !== "object" || value === null) return false;
  return Object.values(value).some((member: JsonValue) => hasLines(member, levels - 1));
}

/** Returns the length of a value as JSON without spaces, or `most` if it is at least as long. */
function measureLength(most: number, value: JsonValue): number {
  if (typeof value === "string" && value.length >= most) return most;
  if (typeof value !== "object" || value === null)
    return Math.min(most, JSON.stringify(value).length);
  let length = "[]".length;
  for (const [name, member] of listMembers(value)) {
    if (length >= most) return most;
    const comma = length > 2 ? 1 : 0;
    const before = comma + (name === "" ? 0 : name.length - 1);
    length += before + measureLength(Math.max(0, most - length - before), member);
  }
  return Math.min(most, length);
}

/** Returns a value on one line, with spaces as a person would write. */
function formatOnOneLine(value: JsonValue): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = listMembers(value).map(([name, member]) => name + formatOnOneLine(member));
  if (Array.isArray(value)) return `[${members.join(", ")}]`;
  return members.length === 0 ? "{}" : `{ ${members.join(", ")} }`;
}

/** Returns the members of an object or a list, each with its prefix. */
function listMembers(
  value: JsonValue & object,
): readonly (readonly [name: string, member: JsonValue])[] {
  const isList = Array.isArray(value);
  return Object.entries(value).map(([name, member]: readonly [string, JsonValue]) => [
    isList ? "" : `${JSON.stringify(name)}: `,
    member,
  ]);
}

/** Longer text is not indented, because a person reads only its beginning. */
const MAX_INDENTED = 1_000_000;

/** Returns the text indented if it is JSON with more than one value, else unchanged. */
export function indentIfJson(text: string): string {
  if (text.length > MAX_INDENTED || !/^\s*[[{]/.test(text)) return text;
  const read = readJson(text);
  if (!("value" in read)) return text;
  try {
    return indentJson(read.value);
  } catch {
    // The value is nested deeper than the stack allows.
    return text;
  }
}

/** Parses JSON. Returns the value or the problem. */
export function readJson(text: string): { readonly value: JsonValue } | { readonly fault: string } {
  try {
    const value: unknown = JSON.parse(text);
    return isJson(value) ? { value } : { fault: "This is not valid JSON." };
  } catch (error) {
    return { fault: error instanceof Error ? error.message : String(error) };
  }
}
