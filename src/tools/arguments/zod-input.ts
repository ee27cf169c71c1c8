// A zod schema as the input of a tool: what JSON Schema can express of it, and what it has against a value.

import { z } from "zod";

import { misdefinition } from "../../kernel/check.ts";
import { EspalierError, messageOf } from "../../kernel/error.ts";
import {
  copyJson,
  deepFreeze,
  isRecord,
  parseJson,
  type JsonObject,
  type JsonValue,
} from "../../kernel/json.ts";
import {
  misfit,
  strayMisfit,
  typeMisfit,
  valueAt,
  valueMisfit,
  type Complaint,
  type Path,
  type Reading,
} from "./complaint.ts";
import {
  allowedWords,
  checkWords,
  formatWords,
  lookUp,
  NO_SUCH_PARAMETER,
  oneLine,
  patternWords,
  rangeWords,
  shownJson,
  sizeWords,
  thrownWords,
  wordsOf,
} from "./schema-words.ts";

/** The error for something that is no zod schema that we can read. */
export function noZodSchema(field: string, value: unknown, advice: string): EspalierError {
  if (!isZodLike(value)) return misdefinition(field, "a zod object schema", value, advice);
  return misdefinition(
    field,
    "a zod object schema of zod 4, from the same copy of zod that espalier uses",
    value,
    'Take z from "zod", not from "zod/mini" or "zod/v3".',
  );
}

/** True for a schema of any zod: also of another version, another copy or another face of it. */
export function isZodLike(value: unknown): boolean {
  if (!isRecord(value)) return false;
  return "_zod" in value || ("_def" in value && typeof value["parse"] === "function");
}

/** The JSON Schema of an object, as a model is to fill it in. Throws `invalid_definition` if there is none. */
export function zodJsonSchema(field: string, input: z.ZodType): JsonObject {
  const object = withoutReference(toJsonSchema(field, input));
  if (object["type"] !== "object") {
    const got = object["type"] ?? input._zod.def.type;
    throw misdefinition(field, "a zod object schema", got, "Use z.object({ … }).");
  }
  const { $schema: _dialect, ...rest } = object;
  return deepFreeze(rest);
}

/** A part of a schema that no model can fill in. */
interface Misfit {
  /** Where it is, as JSON Schema has it: `["properties", "when"]`. */
  readonly path: readonly (string | number)[];
  readonly reason: string;
  readonly type: string;
}

function toJsonSchema(field: string, input: z.ZodType): JsonValue {
  let misfit: Misfit | undefined;
  try {
    const schema = z.toJSONSchema(input, {
      io: "input",
      override: ({ zodSchema, path }) => {
        const { def } = zodSchema._zod;
        const reason = unusable(def);
        if (reason === undefined) return;
        misfit = { path, reason, type: def.type };
        throw new TypeError(reason);
      },
    });
    return parseJson(JSON.stringify(schema));
  } catch (cause) {
    const reason = messageOf(cause);
    misfit ??= misfitIn(input) ?? { path: [], reason, type: "unknown" };
    const place = `${field}${pathWords(misfit.path)}`;
    throw new EspalierError({
      code: "invalid_definition",
      message: `Expected ${place} to be a schema that JSON Schema can express, got one that it cannot: ${misfit.reason}. ${PLAIN_TYPES[misfit.type] ?? "Use plain types."}`,
      data: { field: place },
      cause,
    });
  }
}

/** What to use in the place of a type that JSON does not have. */
const PLAIN_TYPES: Readonly<Record<string, string>> = {
  date: "Use z.iso.datetime(): models write dates as text, and new Date(text) makes a Date of it.",
  bigint: "Use z.int(), or z.string() for numbers that are longer.",
  map: "Use z.record(…).",
  set: "Use z.array(…).",
};

/** The first part for which zod has no JSON Schema. Older releases of zod do not tell where it is: then there is none. */
function misfitIn(input: z.ZodType): Misfit | undefined {
  let misfit: Misfit | undefined;
  try {
    z.toJSONSchema(input, {
      io: "input",
      unrepresentable: ({ zodSchema, path, message }) => {
        misfit ??= { path, reason: message, type: zodSchema._zod.def.type };
        return "any";
      },
    });
  } catch {
    // It failed before, for another reason.
  }
  return misfit;
}

/** `["properties", "visits", "items", "properties", "when"]` is `.visits[].when`. */
function pathWords([word, ...rest]: readonly (string | number)[]): string {
  if (word === undefined) return "";
  const [name, ...below] = rest;
  if (word === "properties" && name !== undefined) return `.${name}${pathWords(below)}`;
  return `${word === "items" ? "[]" : ""}${pathWords(rest)}`;
}

/** Why no call could ever be checked against a schema that JSON Schema can express. */
function unusable(def: z.core.$ZodTypes["_zod"]["def"]): string | undefined {
  if (def.type === "file") return "A file cannot be given as JSON";
  if (def.type === "promise") return "A promise cannot be given as JSON";
  const ends: readonly unknown[] = def.type === "pipe" ? [def.in, def.out] : [];
  const steps = ends.map((end) => partOf(partOf(partOf(end, "_zod"), "def"), "transform"));
  const checks = (def.checks ?? []).map((check) => partOf(check._zod.def, "fn"));
  return [...steps, ...checks].some(isAsyncFunction)
    ? "An asynchronous check or transform cannot run before a tool; do that in its execute"
    : undefined;
}

function partOf(owner: unknown, key: string): unknown {
  return isRecord(owner) ? owner[key] : undefined;
}

function isAsyncFunction(value: unknown): boolean {
  return Object.prototype.toString.call(value) === "[object AsyncFunction]";
}

/** A schema that has an id of its own comes as a reference to its definition: put in its place, so that the type is on top. */
function withoutReference(schema: JsonValue): JsonObject {
  if (!isJsonObject(schema)) return {};
  const { $ref: reference, ...rest } = schema;
  if (typeof reference !== "string") return schema;
  const definition = parseJson(JSON.stringify(lookUp(schema, reference) ?? null));
  return isJsonObject(definition) ? { ...definition, ...rest } : schema;
}

function isJsonObject(value: JsonValue): value is JsonObject {
  return isRecord(value);
}

/** Parses a copy of `input`, so that nothing that a tool does to what it gets shows in what is logged. Never throws. */
export function readWithZod(schema: z.core.$ZodType, input: JsonValue): Reading {
  try {
    // Not `safeParse`: it loses hold of what an asynchronous check returns, and a rejection of that would end the process.
    const parsed = schema._zod.run({ value: copyJson(input), issues: [] }, { async: true });
    if (parsed instanceof Promise) {
      parsed.catch(() => undefined);
      return misfits([misfit([], () => "arguments that need no asynchronous check")]);
    }
    if (parsed.issues.length === 0) return { type: "fits", value: parsed.value };
    return misfits(parsed.issues.flatMap((issue) => complaintsOf(issue, input)));
  } catch (cause) {
    // A check of the user's that throws has not accepted the input either.
    return misfits([misfit([], () => thrownWords("a value", cause))]);
  }
}

function misfits(complaints: readonly Complaint[]): Reading {
  return { type: "misfits", complaints };
}

type Issue = z.core.$ZodRawIssue;

function complaintsOf(issue: Issue, input: JsonValue): readonly Complaint[] {
  const path = (issue.path ?? []).map(String);
  const words = (): string => withOwnMessage(issue, issueWords(issue));
  switch (issue.code) {
    case "invalid_type": {
      // After a transform or a coercion of zod's own, the complaint is not about what stands in the arguments.
      const isAsWritten = Object.is(valueAt(input, path) ?? issue.input, issue.input);
      return [typeMisfit(path, isAsWritten ? [issue.expected] : [], words)];
    }
    case "invalid_value":
      return [valueMisfit(path, issue.values, words)];
    case "invalid_union":
      return [unionComplaint(issue, path, words)];
    case "unrecognized_keys":
      return issue.keys.map((key) => strayMisfit([...path, key], () => NO_SUCH_PARAMETER));
    case "custom":
      return [misfit(path, () => checkWords("a value", messageIn(issue)), false)];
    default:
      return [misfit(path, words)];
  }
}

type UnionIssue = Extract<Issue, { readonly code: "invalid_union" }>;

function unionComplaint(issue: UnionIssue, path: Path, words: () => string): Complaint {
  const { inst, discriminator } = issue;
  if (!(inst instanceof z.core.$ZodUnion) || issue.inclusive === false) {
    return misfit(path, () => "a value that fits exactly one of its forms");
  }
  const options = inst._zod.def.options.map((option) => (value: JsonValue) => {
    const reading = readWithZod(option, value);
    return reading.type === "fits" ? [] : reading.complaints;
  });
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
function issueWords(issue: Issue): string {
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

type BoundIssue = Extract<Issue, { readonly code: "too_small" | "too_big" }>;

function boundWords(issue: BoundIssue): string {
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

type FormatIssue = Extract<Issue, { readonly code: "invalid_format" }>;

function textWords(issue: FormatIssue): string {
  const { prefix, suffix, includes, pattern } = issue;
  if (typeof prefix === "string") return `text that starts with ${shownJson(prefix)}`;
  if (typeof suffix === "string") return `text that ends with ${shownJson(suffix)}`;
  if (typeof includes === "string") return `text that contains ${shownJson(includes)}`;
  const isOwnPattern = issue.format === "regex" || issue.format === "template_literal";
  return isOwnPattern ? patternWords(pattern) : formatWords(issue.format);
}

/** What the author of the schema says besides. */
function withOwnMessage(issue: Issue, words: string): string {
  const isOwn = [issue.inst, issue.schema].some((owner) => owner?._zod.def.error !== undefined);
  return isOwn ? `${words} (${oneLine(messageIn(issue))})` : words;
}

function messageIn(issue: Issue): string {
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
