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

/** Where a part of a schema is, as JSON Schema has it: `["properties", "when"]`. */
type Place = readonly (string | number)[];

/** A part of a schema that no model can fill in. */
class UnusablePart extends TypeError {
  readonly path: Place;
  readonly type: string;

  constructor(path: Place, reason: string, type: string) {
    super(reason);
    this.path = path;
    this.type = type;
  }
}

function toJsonSchema(field: string, input: z.ZodType): JsonValue {
  try {
    const schema = z.toJSONSchema(input, { io: "input", override: refuseUnusable });
    return parseJson(JSON.stringify(schema));
  } catch (cause) {
    const part = cause instanceof UnusablePart ? cause : unusablePartIn(input);
    const {
      message: reason,
      path,
      type,
    } = part ?? {
      message: messageOf(cause),
      path: [],
      type: "unknown",
    };
    const place = `${field}${pathWords(path)}`;
    throw new EspalierError({
      code: "invalid_definition",
      message: `Expected ${place} to be a schema that JSON Schema can express, got one that it cannot: ${reason}. ${PLAIN_TYPES[type] ?? "Use plain types."}`,
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
        part ??= new UnusablePart(path, message, zodSchema._zod.def.type);
        return "any";
      },
    });
  } catch {
    // It failed before, for another reason.
  }
  return part;
}

/** `["properties", "visits", "items", "properties", "when"]` is `.visits[].when`. */
function pathWords([word, ...rest]: Place): string {
  if (word === undefined) return "";
  const [name, ...below] = rest;
  if (word === "properties" && name !== undefined) return `.${name}${pathWords(below)}`;
  return `${word === "items" ? "[]" : ""}${pathWords(rest)}`;
}

interface Node {
  readonly zodSchema: z.core.$ZodTypes;
  readonly path: Place;
}

/** Throws an `UnusablePart` if no call could ever be checked against this part. */
function refuseUnusable({ zodSchema, path }: Node): void {
  const { def } = zodSchema._zod;
  if (def.type === "file" || def.type === "promise")
    throw new UnusablePart(path, `A ${def.type} cannot be given as JSON`, def.type);
  const ends: readonly unknown[] = def.type === "pipe" ? [def.in, def.out] : [];
  const isAsync =
    ends.some((end) => isAsyncFunction(partOf(partOf(partOf(end, "_zod"), "def"), "transform"))) ||
    def.checks?.some((check) => isAsyncFunction(partOf(check._zod.def, "fn"))) === true;
  if (isAsync) throw new UnusablePart(path, ASYNCHRONOUS, def.type);
}

const ASYNCHRONOUS =
  "An asynchronous check or transform cannot run before a tool; do that in its execute";

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
