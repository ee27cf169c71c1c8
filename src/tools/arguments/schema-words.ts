// What a schema asks for, in the words that a model reads. One line each, of bounded length.

import { messageOf } from "../../kernel/error.ts";
import { isPlainObject, isRecord } from "../../kernel/json.ts";
import { shortened } from "../../kernel/sentence.ts";
import { TooMuchWork } from "./check-work.ts";

/** So many allowed values are named. */
const MOST_VALUES = 20;
/** So many forms of a union are named. */
const MOST_FORMS = 5;
/** So many references and unions within unions are followed. */
const MOST_LEVELS = 5;
/** So much of a pattern or a message is shown. */
const MOST_CHARACTERS = 100;
/** So much of a value is shown. */
const MOST_OF_VALUE = 60;

export const NO_SUCH_PARAMETER = "nothing: there is no such parameter";

/** What a JSON Schema asks for, roughly: `an integer`, `one of "a", "b"`, `text or null`. References are looked up in `root`. */
export function wordsOf(schema: unknown, root: unknown, levels = MOST_LEVELS): string {
  if (schema === false) return "nothing";
  if (!isRecord(schema) || levels === 0) return "a value";
  if ("const" in schema) return allowedWords([schema["const"]]);
  if (Array.isArray(schema["enum"])) return allowedWords(schema["enum"]);
  if (typeof schema["$ref"] === "string") {
    return wordsOf(lookUp(root, schema["$ref"]), root, levels - 1);
  }
  if (schema["type"] !== undefined) return typeWords(schema["type"]);
  if (isRecord(schema["not"]) && Object.keys(schema["not"]).length === 0) return "nothing";
  const forms = schema["anyOf"] ?? schema["oneOf"];
  if (Array.isArray(forms)) {
    return eitherWords(forms.map((form: unknown) => wordsOf(form, root, levels - 1)));
  }
  const parts: unknown = schema["allOf"];
  if (!Array.isArray(parts)) return "a value";
  const said = parts.map((part: unknown) => wordsOf(part, root, levels - 1));
  return said.find((words) => words !== "a value") ?? "a value";
}

/** The part of a schema that a reference within the same document points to; undefined for any other reference. */
export function lookUp(root: unknown, reference: string): unknown {
  if (reference === "#") return root;
  if (!reference.startsWith("#/")) return undefined;
  let at: unknown = root;
  for (const segment of reference.slice(2).split("/")) {
    const key = keyOf(segment);
    if (key === undefined || typeof at !== "object" || at === null) return undefined;
    if (!Object.hasOwn(at, key)) return undefined;
    at = Reflect.get(at, key);
  }
  return at;
}

function keyOf(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment).replaceAll("~1", "/").replaceAll("~0", "~");
  } catch {
    return undefined; // A percent sign that begins no escape.
  }
}

/** Types of JSON Schema: one, or a list of which any will do. */
export function typeWords(type: unknown): string {
  const types: readonly unknown[] = Array.isArray(type) ? type : [type];
  return eitherWords(types.map((name) => TYPE_WORDS.get(name) ?? "a value"));
}

const TYPE_WORDS: ReadonlyMap<unknown, string> = new Map([
  ["string", "text"],
  ["number", "a number"],
  ["integer", "an integer"],
  ["boolean", "true or false"],
  ["null", "null"],
  ["array", "a list"],
  ["object", "an object"],
]);

/** Any of some forms: `text or null`. */
export function eitherWords(forms: readonly string[]): string {
  const named = [...new Set(forms)];
  if (named.length === 0) return "a value";
  const more = named.length > MOST_FORMS ? ["another form"] : [];
  return [...named.slice(0, MOST_FORMS), ...more].join(" or ");
}

/** The allowed values: `one of "a", "b"`; a single one as it is. */
export function allowedWords(values: readonly unknown[]): string {
  const named = values.slice(0, MOST_VALUES).map(shownJson);
  const [only] = named;
  if (only === undefined) return "nothing";
  if (values.length === 1) return only;
  const more = values.length > MOST_VALUES ? ` … and ${values.length - MOST_VALUES} more` : "";
  return `one of ${named.join(", ")}${more}`;
}

/** `text of at most 10 characters`. */
export function sizeWords(
  whole: "text" | "list" | "object",
  bound: "at least" | "at most" | "exactly",
  size: unknown,
): string {
  const [noun, unit, units] = SIZE_WORDS[whole];
  return `${noun} ${bound} ${String(size)} ${size === 1 ? unit : units}`;
}

const SIZE_WORDS = {
  text: ["text of", "character", "characters"],
  list: ["a list of", "item", "items"],
  object: ["an object with", "entry", "entries"],
} as const;

/** `an integer of at least 3`, `a number less than 0.5`. */
export function rangeWords(
  noun: string,
  comparison: ">=" | ">" | "<=" | "<",
  bound: unknown,
): string {
  return `${noun} ${COMPARISON_WORDS[comparison]} ${String(bound)}`;
}

const COMPARISON_WORDS = {
  ">=": "of at least",
  ">": "greater than",
  "<=": "of at most",
  "<": "less than",
} as const;

/** `text in the format email`. */
export function formatWords(format: unknown): string {
  return `text in the format ${oneLine(String(format))}`;
}

/** `text that matches /a+/`. */
export function patternWords(pattern: unknown): string {
  const text = String(pattern);
  return `text that matches ${oneLine(text.startsWith("/") ? text : `/${text}/`)}`;
}

/** What a check of the author says; nothing, if that is of no use. */
export function checkWords(noun: string, message: string): string {
  const said = oneLine(message);
  const isEmpty = said === "" || said === "Invalid input";
  return `${noun} that its check accepts${isEmpty ? "" : ` (${said})`}`;
}

/** Returns the same for a thrown value. */
export function thrownWords(noun: string, thrown: unknown): string {
  if (thrown instanceof TooMuchWork) return thrown.message;
  const message = messageOf(thrown);
  return checkWords(noun, message.startsWith("Maximum call stack") ? "it goes too deep" : message);
}

/** A message as one short line. */
export function oneLine(message: string): string {
  return shortened(
    message
      .slice(0, 10 * MOST_CHARACTERS)
      .replaceAll(/\s+/gu, " ")
      .trim(),
    MOST_CHARACTERS,
  );
}

/** Returns a value as JSON, shortened. Takes the same time for a large value. Never throws. */
export function shownJson(value: unknown): string {
  try {
    const part = beginningOf(value, { left: 2 * MOST_OF_VALUE });
    const text: string | undefined = JSON.stringify(part);
    return shortened(text ?? String(value), MOST_OF_VALUE);
  } catch {
    return "a value that is no JSON";
  }
}

/** Returns a value of whose JSON text the first `left` characters are those of `value`. */
function beginningOf(value: unknown, room: { left: number }): unknown {
  room.left -= 1;
  if (typeof value === "string") {
    const beginning = value.slice(0, Math.max(room.left, 0) + 1);
    room.left -= beginning.length;
    return beginning;
  }
  if (Array.isArray(value)) {
    const items: unknown[] = [];
    for (const item of value) {
      if (room.left < 0) break;
      items.push(beginningOf(item, room));
    }
    return items;
  }
  if (!isPlainObject(value)) return value;
  const entries: (readonly [string, unknown])[] = [];
  for (const key in value) {
    if (room.left < 0) break;
    if (!Object.hasOwn(value, key)) continue;
    room.left -= key.length;
    entries.push([key, beginningOf(Reflect.get(value, key), room)]);
  }
  return Object.fromEntries(entries);
}
