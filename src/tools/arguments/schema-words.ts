// The words for what a schema expects, as a model reads them. One line each, of bounded length.

import { oneLine, shownJson } from "../../kernel/sentence.ts";
import type { ValidationIssue } from "./validation-issue.ts";

/** Allowed values that are listed. */
const MAX_VALUES = 20;
/** Forms of a union that are listed. */
const MAX_FORMS = 5;

const ANY = "a value";
const NOTHING = "nothing: there is no such parameter";

/** The words for types and keywords of JSON Schema, and for those of zod that JSON Schema lacks. */
export const RULE_WORDS: ReadonlyMap<unknown, string> = new Map(
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
    type: "#",
    enum: "#",
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
    required: ANY,
    propertyNames: "another name: its schema does not accept this one",
    additionalProperties: NOTHING,
    unevaluatedProperties: NOTHING,
    "false schema": NOTHING,
    custom: "a value that its check accepts",
  }),
);

/** Returns the words for a value that follows the rule of an issue. */
export function expectedWords({ keyword, allowed, ...issue }: ValidationIssue): string {
  const { isInteger, note, expected } = issue;
  if (expected !== undefined) return expected();
  let limit = oneLine(String(allowed[0]));
  if (keyword === "type") limit = eitherWords(allowed.map((type) => RULE_WORDS.get(type) ?? ANY));
  if (keyword === "enum") limit = listWords(allowed);
  const words = (RULE_WORDS.get(keyword) ?? "a value that fits its schema")
    .replace("@", isInteger === true ? "an integer" : "a number")
    .replace("#", () => limit);
  const line = oneLine(note?.() ?? "");
  return `${limit === "1" ? words.replace(/s$/, "") : words}${line === "" ? "" : ` (${line})`}`;
}

/** Returns the words for any of some forms: `text or null`. */
export function eitherWords(forms: readonly string[]): string {
  const named = [...new Set(forms)];
  if (named.length > MAX_FORMS) named.splice(MAX_FORMS, named.length, "another form");
  return named.join(" or ") || ANY;
}

function listWords(values: readonly unknown[]): string {
  const listed = values.slice(0, MAX_VALUES).map(shownJson).join(", ");
  if (values.length < 2) return listed || "nothing";
  const rest = values.length - MAX_VALUES;
  return `one of ${listed}${rest > 0 ? ` … and ${rest} more` : ""}`;
}
