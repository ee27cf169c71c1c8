// What a zod schema has against a value, as the issues by which it is coerced and a model can correct it.

import { z } from "zod";

import type { JsonValue } from "../../kernel/json.ts";
import {
  allowedWords,
  checkWords,
  formatWords,
  oneLine,
  patternWords,
  rangeWords,
  shownJson,
  sizeWords,
  wordsOf,
} from "./schema-words.ts";
import {
  partIssue,
  unexpectedIssue,
  typeIssue,
  valueAt,
  valueIssue,
  type Path,
  type Reading,
  type ValidationIssue,
} from "./validation-issue.ts";

type ZodIssue = z.core.$ZodRawIssue;

/** Reads a value by one of the forms of a union. */
type Read = (schema: z.core.$ZodType, value: JsonValue) => Reading;

/** What one issue of zod says of `input`. `read`: reads the forms of a union. */
export function issuesOf(
  issue: ZodIssue,
  input: JsonValue,
  read: Read,
): readonly ValidationIssue[] {
  const path = (issue.path ?? []).map(String);
  const words = (): string => withOwnMessage(issue, issueWords(issue));
  switch (issue.code) {
    case "invalid_type": {
      // After a transform or a coercion of zod's own, the issue is not about what stands in the arguments.
      const isAsWritten = Object.is(valueAt(input, path) ?? issue.input, issue.input);
      return [typeIssue(path, isAsWritten ? [issue.expected] : [], words)];
    }
    case "invalid_value":
      return [valueIssue(path, issue.values, words)];
    case "invalid_union":
      return [unionIssue(issue, path, words, read)];
    case "unrecognized_keys":
      return issue.keys.map((key) => unexpectedIssue([...path, key]));
    case "custom":
      return [partIssue(path, () => checkWords("a value", messageIn(issue)), false)];
    default:
      return [partIssue(path, words)];
  }
}

type ZodUnionIssue = Extract<ZodIssue, { readonly code: "invalid_union" }>;

function unionIssue(
  issue: ZodUnionIssue,
  path: Path,
  words: () => string,
  read: Read,
): ValidationIssue {
  const { inst, discriminator } = issue;
  if (!(inst instanceof z.core.$ZodUnion) || issue.inclusive === false) {
    return partIssue(path, () => "a value that fits exactly one of its forms");
  }
  const options = inst._zod.def.options.map(
    (option) => (value: JsonValue) => read(option, value).issues,
  );
  // No form has this discriminator: zod names its place, the forms are those of the whole.
  const isTagged = discriminator !== undefined && path.at(-1) === discriminator;
  return {
    type: "union",
    path: isTagged ? path.slice(0, -1) : path,
    expected: words,
    options,
  };
}

/** What would have fitted, in words. */
function issueWords(issue: ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return issue.expected === "int" ? "an integer" : schemaWords(issue.inst);
    case "invalid_value":
      return allowedWords(issue.values);
    case "too_small":
    case "too_big":
      return boundWords(issue);
    case "not_multiple_of":
      return `a multiple of ${String(issue.divisor)}`;
    case "invalid_format":
      return textWords(issue);
    case "invalid_key":
      return "another name: its schema does not accept this one";
    default:
      return schemaWords(issue.inst);
  }
}

type ZodBoundIssue = Extract<ZodIssue, { readonly code: "too_small" | "too_big" }>;

function boundWords(issue: ZodBoundIssue): string {
  const isLeast = issue.code === "too_small";
  const bound = isLeast ? issue.minimum : issue.maximum;
  const whole = WHOLES.get(issue.origin);
  if (whole === undefined) {
    const noun = schemaWords(issue.schema) === "an integer" ? "an integer" : "a number";
    const comparison = isLeast ? (">" as const) : ("<" as const);
    return rangeWords(noun, issue.inclusive === false ? comparison : `${comparison}=`, bound);
  }
  if (issue.exact === true) return sizeWords(whole, "exactly", bound);
  return sizeWords(whole, isLeast ? "at least" : "at most", bound);
}

const WHOLES: ReadonlyMap<string, "text" | "list" | "object"> = new Map([
  ["string", "text"],
  ["array", "list"],
  ["object", "object"],
]);

type ZodFormatIssue = Extract<ZodIssue, { readonly code: "invalid_format" }>;

function textWords(issue: ZodFormatIssue): string {
  const { prefix, suffix, includes, pattern } = issue;
  if (typeof prefix === "string") return `text that starts with ${shownJson(prefix)}`;
  if (typeof suffix === "string") return `text that ends with ${shownJson(suffix)}`;
  if (typeof includes === "string") return `text that contains ${shownJson(includes)}`;
  const isOwnPattern = issue.format === "regex" || issue.format === "template_literal";
  return isOwnPattern ? patternWords(pattern) : formatWords(issue.format);
}

/** What the author of the schema says besides. */
function withOwnMessage(issue: ZodIssue, words: string): string {
  const isOwn = [issue.inst, issue.schema].some((owner) => owner?._zod.def.error !== undefined);
  return isOwn ? `${words} (${oneLine(messageIn(issue))})` : words;
}

function messageIn(issue: ZodIssue): string {
  const { message } = z.core.util.finalizeIssue(issue, undefined, z.config());
  return message;
}

function schemaWords(schema: unknown): string {
  if (!(schema instanceof z.core.$ZodType)) return "a value that fits its schema";
  try {
    const json = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
    return wordsOf(json, json);
  } catch {
    return "a value that fits its schema";
  }
}
