// The JSON Schema that a model is shown of a zod schema: what cannot be expressed in it is refused when the tool is defined.

import { z } from "zod";

import { misdefinition } from "../../kernel/check.ts";
import { EspalierError, messageOf } from "../../kernel/error.ts";
import {
  deepFreeze,
  isRecord,
  parseJson,
  type JsonObject,
  type JsonValue,
} from "../../kernel/json.ts";
import { lookUp } from "./schema-words.ts";

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
interface UnusablePart {
  /** Where it is, as JSON Schema has it: `["properties", "when"]`. */
  readonly path: readonly (string | number)[];
  readonly reason: string;
  readonly type: string;
}

function toJsonSchema(field: string, input: z.ZodType): JsonValue {
  let part: UnusablePart | undefined;
  try {
    const schema = z.toJSONSchema(input, {
      io: "input",
      override: ({ zodSchema, path }) => {
        const { def } = zodSchema._zod;
        const reason = unusable(def);
        if (reason === undefined) return;
        part = { path, reason, type: def.type };
        throw new TypeError(reason);
      },
    });
    return parseJson(JSON.stringify(schema));
  } catch (cause) {
    const reason = messageOf(cause);
    part ??= unusablePartIn(input) ?? { path: [], reason, type: "unknown" };
    const place = `${field}${pathWords(part.path)}`;
    throw new EspalierError({
      code: "invalid_definition",
      message: `Expected ${place} to be a schema that JSON Schema can express, got one that it cannot: ${part.reason}. ${PLAIN_TYPES[part.type] ?? "Use plain types."}`,
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
function unusablePartIn(input: z.ZodType): UnusablePart | undefined {
  let part: UnusablePart | undefined;
  try {
    z.toJSONSchema(input, {
      io: "input",
      unrepresentable: ({ zodSchema, path, message }) => {
        part ??= { path, reason: message, type: zodSchema._zod.def.type };
        return "any";
      },
    });
  } catch {
    // It failed before, for another reason.
  }
  return part;
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
