// The words for what a schema expects, as a model reads them. One line each, of bounded length.

import { messageOf } from "../../kernel/error.ts";
import { isRecord } from "../../kernel/json.ts";
import { oneLine, shownJson } from "../../kernel/shown-json.ts";
import { TooMuchWork } from "./check-work.ts";
import { lookUp } from "./schema-pointer.ts";

/** Allowed values that are listed. */
const MAX_VALUES = 20;
/** Forms of a union that are listed. */
const MAX_FORMS = 5;
/** References, and unions within unions, that are followed. */
const MAX_LEVELS = 5;

const ANY = "a value";
const NOTHING = "nothing: there is no such parameter";

/** The words for types and keywords of JSON Schema, and for rules of zod that JSON Schema lacks. */
const WORDS: ReadonlyMap<unknown, string> = new Map(
  Object.entries({
    string: "text",
    number: "a number",
    integer: "an integer",
    boolean: "true or false",
    null: "null",
    array: "a list",
    tuple: "a list",
    object: "an object",
    record: "an object",
    minLength: "text of at least # characters",
    maxLength: "text of at most # characters",
    exactLength: "text of exactly # characters",
    minItems: "a list of at least # items",
    maxItems: "a list of at most # items",
    exactItems: "a list of exactly # items",
    minProperties: "an object with at least # fields",
    maxProperties: "an object with at most # fields",
    minimum: "@ of at least #",
    maximum: "@ of at most #",
    exclusiveMinimum: "@ greater than #",
    exclusiveMaximum: "@ less than #",
    multipleOf: "a multiple of #",
    pattern: "text that matches #",
    format: "text in the format #",
    starts_with: 'text that starts with "#"',
    ends_with: 'text that ends with "#"',
    includes: 'text that contains "#"',
    uniqueItems: "a list without equal items",
    not: "another value: its schema rules this one out",
    oneOf: "a value that fits exactly one of its forms",
    propertyNames: "another name: its schema does not accept this one",
    invalid_key: "another name: its schema does not accept this one",
    additionalProperties: NOTHING,
    unevaluatedProperties: NOTHING,
    "false schema": NOTHING,
    custom: "a value that its check accepts",
  }),
);

/**
 * Returns the words for a value that follows a rule. `limit`: the value of the keyword. `message`: of
 * the validator, for a keyword without words.
 */
export function ruleWords(keyword: string, limit: unknown, noun = "a number", message = "") {
  const limits: readonly unknown[] = [limit].flat();
  if (keyword === "type") return eitherWords(limits.map((type) => WORDS.get(type) ?? ANY));
  if (keyword === "enum") return allowedWords(limits);
  const words = WORDS.get(keyword) ?? withNote("a value that fits its schema", message);
  const filled = words.replace("@", noun).replace("#", () => oneLine(String(limit)));
  return limit === 1 ? filled.replace(/s$/, "") : filled;
}

/** Returns the words for the values that a JSON Schema allows, roughly: `text or null`. */
export function wordsOf(schema: unknown, root: unknown, levels = MAX_LEVELS): string {
  if (!isRecord(schema) || levels === 0) return schema === false ? "nothing" : ANY;
  const { $ref: reference, type, anyOf, oneOf = anyOf, allOf } = schema;
  const allowed = allowedBy(schema);
  if (allowed !== undefined) return allowedWords(allowed);
  if (type !== undefined) return ruleWords("type", type);
  const parts: unknown =
    typeof reference === "string" ? [lookUp(root, reference)] : (oneOf ?? allOf);
  // A few of them only: with references, their number grows exponentially by the level.
  const few: readonly unknown[] = Array.isArray(parts) ? parts.slice(0, MAX_FORMS + 1) : [];
  const words = few.map((part) => wordsOf(part, root, levels - 1));
  return eitherWords(parts === allOf ? words.filter((one) => one !== ANY).slice(0, 1) : words);
}

/** Returns the only values that a JSON Schema allows, or undefined if it does not list them. */
export function allowedBy(schema: unknown): readonly unknown[] | undefined {
  if (!isRecord(schema)) return undefined;
  if ("const" in schema) return [schema["const"]];
  return Array.isArray(schema["enum"]) ? schema["enum"] : undefined;
}

/** Returns the words for any of some forms: `text or null`. */
export function eitherWords(forms: readonly string[]): string {
  const named = [...new Set(forms)];
  if (named.length > MAX_FORMS) named.splice(MAX_FORMS, named.length, "another form");
  return named.join(" or ") || ANY;
}

function allowedWords(values: readonly unknown[]): string {
  const listed = values.slice(0, MAX_VALUES).map(shownJson).join(", ");
  if (values.length < 2) return listed || "nothing";
  const rest = values.length - MAX_VALUES;
  return `one of ${listed}${rest > 0 ? ` … and ${rest} more` : ""}`;
}

/** Returns words with what the author of a schema says besides. */
export function withNote(words: string, note: string): string {
  const line = oneLine(note);
  return line === "" ? words : `${words} (${line})`;
}

/** Returns the words for a check that threw: those of the thrown value. */
export function thrownWords(thrown: unknown): string {
  if (thrown instanceof TooMuchWork) return thrown.message;
  const message = messageOf(thrown).replace(/^Maximum call stack.*/, "it goes too deep");
  return withNote("a value that its check accepts", message);
}
